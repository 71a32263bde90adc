"""A bank: accounts that pay each other."""

from __future__ import annotations

from quorate.objects._account import InsufficientFunds, checked


class Bank:
    """Accounts by number. A transfer happens as a whole or not at all, and the total stays what it was.

    Amounts are whole numbers of the smallest unit, such as cents; no account is ever overdrawn.

    >>> bank = Bank()
    >>> bank.open("A-1", 100), bank.open("B-2")
    (100, 0)
    >>> bank.transfer("A-1", "B-2", 30), bank.balance("B-2"), bank.total()
    (70, 30, 100)
    """

    def __init__(self) -> None:
        self._balances: dict[str, int] = {}

    def open(self, number: str, balance: int = 0) -> int:
        """Open an account; its balance. Raises ValueError if there is one of that number."""
        if number in self._balances:
            raise ValueError(f"there is an account {number}")
        self._balances[number] = balance if balance == 0 else checked(balance)
        return self._balances[number]

    def close(self, number: str) -> int:
        """Close an account; the balance that is paid out. Raises KeyError if there is none."""
        return self._balances.pop(number)

    def deposit(self, number: str, amount: int) -> int:
        """Add to an account; its balance then. Raises KeyError and ValueError."""
        self._balances[number] += checked(amount)
        return self._balances[number]

    def withdraw(self, number: str, amount: int) -> int:
        """Take from an account; its balance then. Raises KeyError, ValueError and InsufficientFunds."""
        balance = self._balances[number] - checked(amount)
        if balance < 0:
            raise InsufficientFunds(f"{amount} should leave an account that has {self._balances[number]}")
        self._balances[number] = balance
        return balance

    def transfer(self, source: str, target: str, amount: int) -> int:
        """Move from one account to another; what the first one has then.

        Raises KeyError, ValueError and InsufficientFunds, and changes nothing then.
        """
        if target not in self._balances:
            raise KeyError(target)
        self.withdraw(source, amount)
        self.deposit(target, amount)
        return self._balances[source]

    def balance(self, number: str) -> int:
        """What an account has. Raises KeyError if there is none."""
        return self._balances[number]

    def numbers(self) -> list[str]:
        """The numbers of all accounts, the oldest first."""
        return list(self._balances)

    def total(self) -> int:
        """What all accounts have together."""
        return sum(self._balances.values())
