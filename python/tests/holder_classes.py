"""Classes that say who holds what of them, some of them badly."""

from __future__ import annotations

import time
from typing import Any

import quorate
from quorate.objects import Lock


class Desk:
    """One session works at it."""

    def __init__(self) -> None:
        self.worker: quorate.Holder | None = None
        self.lock = Lock()
        self.notes: list[str] = []

    def take(self, label: Any) -> int:
        """Work at it, under a label; the session."""
        caller = quorate.caller()
        self.worker = quorate.Holder(caller.session, time.time(), "desk", label, token=caller.token)
        return caller.session

    def lock_it(self) -> int:
        """Lock its drawer."""
        return self.lock.acquire()

    def __quorate_holders__(self) -> list[quorate.Holder]:
        mine = [self.worker] if self.worker else []
        return mine + self.lock.__quorate_holders__()


class Bad(Desk):
    """What it says depends on what it was told to do."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.way = way

    def seen(self) -> list[str]:
        """What the method left behind."""
        return self.notes

    def __quorate_holders__(self) -> Any:
        self.notes.append("asked")
        if self.way == "raises":
            raise ZeroDivisionError("by far")
        if self.way == "exits":
            raise SystemExit(3)
        if self.way == "hangs":
            while True:
                try:
                    self.notes.append("again")
                    self.notes.clear()
                except BaseException:
                    pass
        if self.way == "tells others":
            return [("session", 7)]
        if self.way == "many":
            return [quorate.Holder(each, 0.0) for each in range(1200)]
        return None


class Homonym:
    """Its own method of a common name means something else."""

    def holders(self) -> list[str]:
        """Of pens."""
        return ["mia"]
