"""The account of bank.py with as much state beside it as an experiment wants."""

from bank import Account


class SizedAccount(Account):
    """An account that holds that many bytes more."""

    __quorate_reads__ = ("total",)

    def __init__(self, number: str, state_bytes: int) -> None:
        super().__init__(number)
        self.state = bytes(state_bytes)

    def total(self) -> int:
        """The balance."""
        return self.balance
