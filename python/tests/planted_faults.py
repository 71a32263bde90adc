"""Ten classes, each with one fault that `quorate check` must find; `FAULTS` says in which method."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

import quorate

FAULTS = {
    "Forgetful": ("history", ""),
    "Guests": ("first", "set order"),
    "Numbers": ("take", "outside"),
    "Diary": ("write", "clock"),
    "Journal": ("entries", "alias"),
    "Queue": ("in_order", "address"),
    "Cart": ("add", "outside"),
    "Counter": ("peek", "read"),
    "Ticket": ("draw", "outside"),
    "Price": ("shown", "locale"),
}
"""Class: the method with the fault, and the rule of lint that knows it, if one does."""


class Forgetful:
    """Its state leaves out the history."""

    def __init__(self) -> None:
        self.total = 0
        self.past: list[int] = []

    def add(self, amount: int) -> int:
        self.total += amount
        self.past.append(amount)
        return self.total

    def history(self) -> list[int]:
        return list(self.past)

    def __getstate__(self) -> dict[str, Any]:
        return {"total": self.total}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.total, self.past = state["total"], []


class Guests:
    """It shows the order of a set of texts."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def invite(self, name: str) -> int:
        self.names.add(name)
        return len(self.names)

    def first(self) -> str | None:
        return next(iter(self.names), None)


_numbers = itertools.count(1)


class Numbers:
    """It takes numbers from a counter of the module."""

    def __init__(self) -> None:
        self.taken = 0

    def take(self) -> int:
        self.taken += 1
        return next(_numbers)


class Diary:
    """It reads the machine's clock in C, which nothing replaces."""

    def __init__(self) -> None:
        self.lines: dict[str, str] = {}

    def write(self, line: str) -> str:
        self.lines[line] = str(np.datetime64("now"))
        return self.lines[line]


class Journal:
    """It returns its own list."""

    def __init__(self) -> None:
        self.log: list[str] = []

    def note(self, line: str) -> None:
        self.log.append(line)

    def entries(self) -> list[str]:
        return self.log


class Job:
    def __init__(self, name: str) -> None:
        self.name = name


class Queue:
    """It sorts by address."""

    def __init__(self) -> None:
        self.jobs: dict[str, Job] = {}

    def put(self, name: str) -> None:
        self.jobs[name] = Job(name)

    def in_order(self) -> list[str]:
        return [job.name for job in sorted(self.jobs.values(), key=id)]


class Cart:
    """It keeps what it should have in the object in a default argument."""

    def __init__(self) -> None:
        self.count = 0

    def add(self, item: str, items: list[str] = []) -> int:  # noqa: B006
        items.append(item)
        self.count = len(items)
        return self.count


class Counter:
    """Its read counts how often it was read."""

    def __init__(self) -> None:
        self.value = 0
        self.peeks = [0]

    def up(self) -> int:
        self.value += 1
        return self.value

    @quorate.readonly
    def peek(self) -> int:
        self.peeks[0] += 1
        return self.value


class Ticket:
    """It counts in an attribute of the class."""

    drawn = 0

    def __init__(self) -> None:
        self.last = 0

    def draw(self) -> int:
        Ticket.drawn += 1
        self.last = Ticket.drawn
        return self.last


class Price:
    """It formats as the locale of the process says."""

    def __init__(self) -> None:
        self.cents = 123456

    def raise_by(self, cents: int) -> int:
        self.cents += cents
        return self.cents

    def shown(self) -> str:
        return f"{self.cents / 100:n}"
