"""Classes that the tests replicate."""

from __future__ import annotations

import collections
import datetime
import itertools
import os
import random
import time
from typing import Any

import quorate

NOTED: list[str] = []


def note(text: str) -> None:
    NOTED.append(text)


class Overdrawn(Exception):
    def __init__(self, missing: int) -> None:
        super().__init__(missing)
        self.missing = missing


class Surrogate(Exception):
    def __str__(self) -> str:
        return "half \ud800"


class Exits(Exception):
    def __str__(self) -> str:
        raise SystemExit(9)


class BadArguments(Exception):
    args = property(lambda self: vars(self)["no such name"])


class BadClass(Exception):
    pass


BadClass.__module__ = "half \ud800"

ODD: dict[str, type[Exception]] = {
    "surrogate": Surrogate,
    "exits": Exits,
    "arguments": BadArguments,
    "class": BadClass,
}


class Wallet:
    def __init__(self, amount: int = 0) -> None:
        self.amount = amount
        self.tried = 0
        self.drawn: Any = None

    def deposit(self, amount: int) -> int:
        self.amount += amount
        return self.amount

    def withdraw(self, amount: int) -> int:
        self.tried += 1
        if amount > self.amount:
            raise Overdrawn(amount - self.amount)
        self.amount -= amount
        return self.amount

    @quorate.readonly
    def total(self) -> int:
        return self.amount

    @quorate.readonly
    def attempts(self) -> int:
        return self.tried

    def described(self, what: str) -> str:
        return repr(object() if what == "object" else self if what == "self" else what)

    def echo(self, value: Any) -> Any:
        return value

    def tower(self, height: int) -> str:
        return "x" * height

    def try_oddly(self) -> Any:
        self.tried += 1
        return object()

    def draw(self) -> Any:
        self.drawn = (time.time(), random.random())
        return self.drawn

    @quorate.readonly
    def last_drawn(self) -> Any:
        return self.drawn

    def end_the_process(self) -> None:
        os._exit(3)

    def fail_oddly(self, way: str) -> None:
        raise ODD[way]()

    def fail_with(self, text: str) -> None:
        raise LookupError(text.replace("HERE", os.path.dirname(__file__)), 7)

    def zone_offset(self, when: datetime.datetime) -> Any:
        return str(when.utcoffset())

    @quorate.readonly
    def liar(self) -> int:
        if isinstance(self.drawn, list):
            self.drawn.append(1)
        return 0

    def draw_list(self) -> None:
        self.drawn = [0]

    def say(self, words: str) -> None:
        print(words)

    def hang(self) -> None:
        # Within C, where no steps are counted.
        all(itertools.repeat(True))

    @quorate.readonly
    def hang_reading(self) -> None:
        # Within C, where no steps are counted.
        all(itertools.repeat(True))

    def _secret(self) -> None: ...


class Basket:
    def __init__(self) -> None:
        self.counts: dict[str, int] = {}

    def put(self, name: str, count: int) -> None:
        self.counts[name] = self.counts.get(name, 0) + count

    def count(self, name: str) -> int:
        return self.counts[name]

    def names(self) -> list[str]:
        return sorted(self.counts)

    def forgive(self) -> None:
        self.counts = collections.defaultdict(int, self.counts)


class Wild:
    """It can be made another on each replica."""

    def __init__(self) -> None:
        self.calls, self.where = 0, 0

    def differ(self) -> None:
        self.where = id(self)

    def add(self) -> int:
        self.calls += 1
        return self.calls


class Link:
    def __init__(self, value: int, following: Link | None) -> None:
        self.value = value
        self.following = following


class Chain:
    """A list in which each object knows the next one."""

    def __init__(self) -> None:
        self.head: Link | None = None
        self.length = 0

    def push(self, *values: int) -> int:
        for value in values:
            self.head = Link(value, self.head)
        self.length += len(values)
        return self.length

    def total(self) -> int:
        link, total = self.head, 0
        while link is not None:
            total += link.value
            link = link.following
        return total
