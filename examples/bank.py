"""A bank account. Nothing here knows that it will be replicated."""


class Account:
    """Money under a number."""

    def __init__(self, number: str, balance: int = 0) -> None:
        self.number, self.balance = number, balance

    def deposit(self, amount: int) -> int:
        """Pay in; returns the new balance."""
        self.balance += amount
        return self.balance

    def debit(self, amount: int) -> bool:
        """Pay out if there is enough."""
        if amount > self.balance:
            return False
        self.balance -= amount
        return True
