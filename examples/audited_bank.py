"""The account of bank.py with a memory of who did what: the demo checks it call by call."""

from bank import Account


class AuditedAccount(Account):
    """An account that keeps the token of every call in the order of execution."""

    __quorate_reads__ = ("audit", "total")

    def __init__(self, number: str, balance: int = 0) -> None:
        super().__init__(number, balance)
        self.entries: list[tuple[int, int]] = []

    def deposit_as(self, token: int, amount: int) -> int:
        """Pay in, under a token."""
        self.entries.append((token, amount))
        return self.deposit(amount)

    def debit_as(self, token: int, amount: int) -> bool:
        """Pay out if there is enough, under a token."""
        is_done = self.debit(amount)
        self.entries.append((token, -amount if is_done else 0))
        return is_done

    def audit(self, start: int, count: int) -> list[tuple[int, int]]:
        """Tokens and changes, a page at a time."""
        return self.entries[start : start + count]

    def total(self) -> tuple[int, int]:
        """The balance, and how many calls there were."""
        return self.balance, len(self.entries)
