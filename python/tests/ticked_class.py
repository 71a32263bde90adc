"""A class with timers, for ticks that are run or left out."""

from __future__ import annotations

from typing import Any

import quorate


def same(value: int) -> int:
    """What is done outside."""
    return value


class Ticked:
    """Notes what has run."""

    def __init__(self) -> None:
        self.ran: list[Any] = []

    def look(self) -> list[Any]:
        """What has run."""
        return self.ran

    def begin(self) -> None:
        """A timer that ends hosts would repeat so."""
        quorate.every(0.01, self.bad)

    def bad(self) -> None:
        """It does not end them: whether a tick is left out is the test's to say."""
        self.ran.append("bad")

    def publish(self, first: int, count: int) -> None:
        """So many changes."""
        for number in range(first, first + count):
            quorate.publish("said", number)

    def act(self, value: int) -> str:
        """An effect."""
        return quorate.effect(same, value, then=self.done)

    def done(self, _key: str, value: int | None, _error: str | None) -> None:
        """What came of it."""
        self.ran.append(value)
