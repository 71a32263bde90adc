"""Objects with calls that never end, and with calls that take many steps."""

from __future__ import annotations

import itertools
from typing import Any

import quorate


class Spinner:
    """Each method changes the object before it goes on for ever."""

    def __init__(self) -> None:
        self.count = 0
        self.seen: list[int] = []

    def add(self) -> int:
        self.count += 1
        return self.count

    def total(self) -> int:
        return self.count

    def spin(self) -> None:
        self.count += 100
        while True:
            self.seen.append(1)

    def swallow(self) -> str:
        self.count += 100
        try:
            self.spin()
        except BaseException:
            self.count += 1000
        return "it ended"

    def hold_on(self) -> None:
        self.count += 100
        while True:
            try:
                for number in itertools.count():
                    self.seen.append(number)
            except BaseException:
                self.count += 1

    def gather(self) -> list[int]:
        self.count += 100
        return [number for number in itertools.count() if number < 0]

    def bounce(self) -> None:
        self.count += 100
        for _ in itertools.takewhile(lambda number: number >= 0, itertools.count()):
            self.seen.append(2)

    def spin_later(self) -> None:
        quorate.after(0, self.add)
        quorate.after(0, self.spin)

    def know_caller(self) -> int:
        return quorate.caller().session

    def on_session_end(self, session: int) -> None:
        self.spin()

    def spin_reading(self) -> None:
        while True:
            self.total()

    __quorate_reads__ = ("spin_reading",)


class Host:
    """What it does when a guest has left fails as it was told."""

    def __init__(self) -> None:
        self.stayed = self.left = 0
        self.how = ""

    def fail_by(self, how: str) -> None:
        self.how = how

    def stay(self) -> Any:
        self.stayed += 1
        quorate.caller()
        return quorate.park()

    def guests(self) -> int:
        return self.stayed

    def count(self) -> int:
        self.left += 1
        return self.left

    def on_session_end(self, session: int) -> None:
        self.left += 100
        if self.how == "steps":
            while True:
                self.how = "steps"
        raise MemoryError
