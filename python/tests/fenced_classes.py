"""What locks protect, in the ways in which an object can keep the newest token."""

from __future__ import annotations

import time
from typing import Any

import quorate
from quorate.objects import Lock


class Store:
    """Rows, written by who has the newest token."""

    def __init__(self) -> None:
        self.rows: list[str] = []

    def write(self, token: int, row: str) -> int:
        """Add a row; how many there are."""
        quorate.check(token)
        self.rows.append(row)
        return len(self.rows)

    def look(self, token: int) -> list[str]:
        """It seems to change nothing, and does: the token may be the newest."""
        quorate.check(token)
        return list(self.rows)

    @quorate.readonly
    def look_in_a_read(self, token: int) -> list[str]:
        """It cannot keep the token."""
        quorate.check(token)
        return self.rows


class StoreWithFences:
    """Two locks protect it."""

    def __init__(self) -> None:
        self.left, self.right = quorate.Fence(), quorate.Fence()

    def write(self, left: int, right: int) -> None:
        """Both tokens must be good."""
        self.left.check(left)
        self.right.check(right)


class SlottedStore:
    """It takes no other attributes."""

    __slots__ = ("rows",)

    def __init__(self) -> None:
        self.rows: list[str] = []

    def write(self, token: int, row: str) -> None:
        """Add a row."""
        quorate.check(token)
        self.rows.append(row)


class ChosenStore(Store):
    """It says itself what is kept."""

    def __getstate__(self) -> dict[str, Any]:
        return {"rows": self.rows}


class MapStore(dict[str, str]):
    """A dict with attributes."""

    def write(self, token: int, key: str) -> None:
        """Set a key."""
        quorate.check(token)
        self[key] = key


class TimedLock(Lock):
    """It knows when it was given to whom, by agreed time."""

    def __init__(self) -> None:
        super().__init__()
        self.granted_at = 0.0

    def _grant(self, caller: quorate.Caller, wanted: None) -> int | None:
        token = super()._grant(caller, wanted)
        if token is not None:
            self.granted_at = time.time()
        return token

    def waiting_here(self) -> int:
        """Return how many wait for it."""
        return self._line.size()
