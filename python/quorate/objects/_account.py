"""A bank account."""

from __future__ import annotations


class InsufficientFunds(ValueError):
    """An account has less than what should leave it. Nothing was changed.

    >>> Account(5).withdraw(10)
    Traceback (most recent call last):
    ...
    quorate.objects._account.InsufficientFunds: 10 should leave an account that has 5
    """


class Account:
    """An account that is never overdrawn. Amounts are whole numbers of the smallest unit, such as cents.

    >>> account = Account(100)
    >>> account.deposit(50), account.withdraw(30), account.balance
    (150, 120, 120)
    """

    def __init__(self, balance: int = 0) -> None:
        self.balance = balance if balance == 0 else checked(balance)
        """What the account has."""

    def deposit(self, amount: int) -> int:
        """Add to the balance; what it is then. Raises ValueError unless the amount is above 0."""
        self.balance += checked(amount)
        return self.balance

    def withdraw(self, amount: int) -> int:
        """Take from the balance; what it is then.

        Raises ValueError unless the amount is above 0, and InsufficientFunds if the account has less.
        """
        if checked(amount) > self.balance:
            raise InsufficientFunds(f"{amount} should leave an account that has {self.balance}")
        self.balance -= amount
        return self.balance


def checked(amount: object) -> int:
    """An amount that can be moved.

    >>> checked(-1)
    Traceback (most recent call last):
    ...
    ValueError: an amount is above 0, not -1
    """
    if isinstance(amount, bool) or not isinstance(amount, int):
        raise TypeError(f"an amount is a whole number, not {type(amount).__name__}")
    if amount <= 0:
        raise ValueError(f"an amount is above 0, not {amount}")
    return amount
