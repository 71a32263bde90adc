"""Classes whose methods are told which thread or task of a session calls."""

from __future__ import annotations

import quorate
from quorate.objects import RLock


class Counters:
    """At each sits one clerk, who alone may leave it."""

    __quorate_label__ = "clerk"

    def __init__(self) -> None:
        self.clerks: dict[int, tuple[int, int | None]] = {}

    def sit_down(self, number: int, *, clerk: int | None = None) -> bool:
        """Take a counter, if it is free."""
        mine = quorate.caller().session, clerk
        return self.clerks.setdefault(number, mine) == mine

    def leave(self, number: int, *, clerk: int | None = None) -> None:
        """Leave one's counter."""
        if self.clerks.get(number) != (quorate.caller().session, clerk):
            raise PermissionError("another clerk sits there")
        del self.clerks[number]

    def told(self, number: int, clerk: int | None = None) -> int | None:
        """It takes no label: who gives arguments by their places may give this one."""
        return clerk

    @quorate.readonly
    def who_reads(self, *, clerk: int | None = None) -> int | None:
        """Return the label of a read."""
        return clerk

    def __enter__(self, *, clerk: int | None = None) -> int | None:
        return clerk

    def __exit__(self, *error: object, clerk: int | None = None) -> None:
        self.clerks.clear()
        self.clerks[0] = 0, clerk


class Vault:
    """It has a lock as a part, and passes the label on."""

    __quorate_label__ = "owner"

    def __init__(self) -> None:
        self.door = RLock()
        self.room = RLock()
        # The same on all replicas: a constructor runs in one thread of each.
        self.token = self.room.acquire()

    def open(self, *, owner: int | None = None) -> int:
        """Open the door."""
        return self.door.acquire(blocking=False, owner=owner)

    def shut(self, *, owner: int | None = None) -> None:
        """Shut the door."""
        self.door.release(owner=owner)
