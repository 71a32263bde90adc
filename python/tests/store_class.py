"""A class whose callers wait until something holds."""

from __future__ import annotations

import os
import random
import time
from typing import Any

import quorate


class Store:
    """Items that callers wait for."""

    def __init__(self) -> None:
        self.items: list[Any] = []
        self.begun = 0
        self.drawn: list[float] = []
        self.callers: list[quorate.Caller] = []

    def put(self, *items: Any) -> None:
        """Bring items."""
        self.items.extend(items)

    def take(self) -> Any:
        """Wait for an item."""
        quorate.wait_until(lambda: self.items)
        return self.items.pop(0)

    def take_aloud(self, word: str) -> Any:
        """The same, and say each time that it is tried."""
        print("tried", word)
        return self.take()

    def take_within(self, seconds: float, default: Any) -> Any:
        """Wait for an item for a while."""
        quorate.wait_until(lambda: self.items, timeout=seconds, default=default)
        return self.items.pop(0)

    def take_or_raise(self, seconds: float) -> Any:
        """The same, and raise if none comes."""
        quorate.wait_until(lambda: self.items, seconds)
        return self.items.pop(0)

    def take_many(self, count: int) -> list[Any]:
        """Take one after the other, and keep none if there are too few."""
        self.begun += 1
        self.drawn.append(random.random())
        quorate.after(1000, self.put, "never")
        taken: list[Any] = []
        while len(taken) < count:
            self._wait()
            taken.append(self.items.pop(0))
        return taken

    def _wait(self) -> None:
        quorate.wait_until(self._has_items)

    def _has_items(self) -> bool:
        return bool(self.items)

    def swallow(self) -> str:
        """Does not let go on what ends it."""
        self.begun += 1
        try:
            quorate.wait_until(lambda: self.items)
        except BaseException:
            self.begun += 10
        return "went on"

    def wait_for(self, number: int) -> int:
        """Wait until a number is there, and pass it on."""
        quorate.wait_until(lambda: number in self.items)
        self.items.append(number + 1)
        return number

    def hurt(self) -> None:
        """A predicate that changes the object."""
        self.begun += 1
        quorate.wait_until(lambda: self.items.append("x"))

    def fail(self) -> None:
        """A predicate that raises."""
        self.begun += 1
        quorate.wait_until(lambda: 1 // 0)

    def fail_later(self) -> None:
        """Raise once something is there."""
        quorate.wait_until(lambda: self.items)
        self.begun += 1
        raise LookupError("what was awaited is wrong")

    def hide(self) -> None:
        """What the class does not show."""
        getattr(quorate, "wait" + "_until")(lambda: self.items)

    def spin(self) -> None:
        """Never end once something is there."""
        quorate.wait_until(lambda: self.items)
        while True:
            self.items.append(1)

    def park(self) -> Any:
        """Wait for another call's answer."""
        self.callers.append(quorate.caller())
        return quorate.park()

    def take_then_park(self) -> Any:
        """Wait for an item, bring two others, and wait for another call's answer."""
        quorate.wait_until(lambda: self.items)
        self.items = ["b", "c"]
        self.callers.append(quorate.caller())
        return quorate.park()

    def wake(self, value: Any) -> None:
        """Answer somebody."""
        self.callers.pop().wake(value)

    def wake_then_wait(self) -> Any:
        """Answer somebody, and wait then: that leaves no trace."""
        self.callers.pop().wake("too early")
        quorate.wait_until(lambda: self.items)
        return self.items.pop(0)

    def die(self) -> None:
        """End the host once something is there."""
        quorate.wait_until(lambda: self.items)
        os._exit(3)

    def wait_for_time(self, until: float) -> float:
        """Wait until agreed time has come so far, as somebody's call shows."""
        quorate.wait_until(lambda: time.time() >= until)
        return time.time()

    def now(self) -> float:
        """Agreed time, in a call."""
        self.begun += 0
        return time.time()

    def state(self) -> tuple[int, int, int]:
        """What is there."""
        return len(self.items), self.begun, len(self.drawn)
