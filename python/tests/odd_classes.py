"""Classes that are hard to check: they end their process, never return, or return what cannot be sent."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any


class Odd:
    def __init__(self, name: str) -> None:
        self.name = name
        self.calls = 0

    def count(self) -> int:
        self.calls += 1
        return self.calls

    def end(self) -> None:
        os._exit(3)

    def spin(self) -> None:
        while True:
            self.calls += 1

    def lock(self) -> Any:
        return threading.Lock()

    def apply(self, function: Callable[[int], int]) -> int:
        return function(1)


class Guarded:
    """Nothing is wrong, but only the right word shows what it does."""

    def __init__(self) -> None:
        self.opened: list[int] = []

    def open(self, word: str) -> int:
        if word != "sesame":
            raise PermissionError(word)
        self.opened.append(len(self.opened))
        return len(self.opened)


class Endless:
    """Two of its methods hear no signal: one loops in C, the other catches every exception."""

    def __init__(self) -> None:
        self.calls = 0

    def count(self) -> int:
        self.calls += 1
        return self.calls

    def in_c(self) -> int:
        return sum(range(10**12))

    def stubborn(self) -> int:
        try:
            while True:
                self.calls += 1
        except BaseException:
            return self.stubborn()


class OnlyC:
    """All that it does is a loop in C."""

    def total(self) -> int:
        return sum(range(10**12))


class Filed:
    """It holds an open file, so no snapshot keeps its state."""

    def __init__(self) -> None:
        self.file = open(os.devnull, encoding="utf-8")  # noqa: SIM115
        self.lines = 0

    def add(self) -> int:
        self.lines += 1
        return self.lines

    def count(self) -> int:
        return self.lines


class Opening:
    """Its state can be kept until something is opened."""

    def __init__(self) -> None:
        self.held: list[Any] = []

    def count(self) -> int:
        return len(self.held)

    def open(self) -> int:
        self.held.append(iter(x for x in [1]))
        return len(self.held)


_seen = 0
_cache_of_sums: dict[int, int] = {}


class Counted:
    """Its methods leave the object as it is, and change variables of the module."""

    def __init__(self) -> None:
        self.values = [1, 2]

    def seen(self) -> int:
        global _seen
        _seen += 1
        return len(self.values)

    def total(self) -> int:
        global _cache_of_sums
        _cache_of_sums = {1: sum(self.values)}
        return sum(self.values)

    def shown(self) -> str:
        return ",".join(str(value) for value in iter(self.values))
