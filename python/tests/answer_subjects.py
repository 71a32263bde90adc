"""Classes whose methods return and raise what is not plain."""

from __future__ import annotations

import asyncio
import collections
import datetime
import enum
import itertools
import pathlib
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple


class Point(NamedTuple):
    x: int
    y: int


class Name(str):
    __slots__ = ()


class Colour(enum.Enum):
    RED = 1


@dataclass
class Item:
    name: str
    price: int


class Plain:
    pass


class Refusal(Exception):
    """With arguments by name only, and a cause."""

    def __init__(self, *, item: str, left: int = 0) -> None:
        super().__init__(f"no {item}")
        self.item = item
        self.left = left
        self.lock = Plain()


class Shop:
    def __init__(self) -> None:
        self.sold = 0
        self.stock = {"tea": 3, "jam": 1}
        self.log: list[str] = []

    def buy(self, item: str) -> Shop:
        self.stock[item] -= 1
        self.sold += 1
        return self

    def all_stock(self) -> dict[str, int]:
        return self.stock

    def items(self) -> Any:
        return self.stock.keys(), self.stock.values(), self.stock.items()

    def each(self) -> Iterator[str]:
        for item in self.stock:
            self.sold += 1
            yield item

    def each_until(self, last: int) -> Iterator[int]:
        yield from range(last)
        raise LookupError("no more")

    def for_ever(self) -> Iterator[int]:
        self.sold += 1
        return itertools.count()

    def kinds(self) -> list[Any]:
        return [
            collections.Counter("abba"),
            collections.deque([1, 2], maxlen=3),
            collections.OrderedDict(b=1, a=2),
            collections.defaultdict(list, a=[1]),
            Point(1, 2),
            bytearray(b"x"),
            datetime.time(12, 30),
            pathlib.PurePosixPath("a/b"),
            range(3),
            Name("A-1"),
            Colour.RED,
            Item("tea", 3),
        ]

    def loop(self) -> Any:
        self.sold += 1
        around: list[Any] = []
        around.append(around)
        return around

    def deep(self, levels: int) -> Any:
        value: Any = 0
        for _ in range(levels):
            value = [value]
        return value

    def wide(self) -> Any:
        value: Any = "x" * 1000
        for _ in range(30):
            value = [value, value]
        return value

    def huge(self, bits: int) -> int:
        return 1 << bits

    def half(self) -> str:
        return "\ud800"

    def plain(self) -> Any:
        self.sold += 1
        return [Plain()]

    def nested(self) -> Any:
        return [self]

    def refuse(self, item: str) -> None:
        try:
            self.stock[item] += 0
        except KeyError as error:
            refusal = Refusal(item=item, left=2)
            refusal.add_note("ask again tomorrow")
            raise refusal from error

    def refuse_quietly(self) -> None:
        raise FileNotFoundError(2, "gone", "/stock.txt")

    def refuse_both(self) -> None:
        raise ExceptionGroup("two", [ValueError(1), ExceptionGroup("inner", [Refusal(item="tea")])])

    def refuse_around(self) -> None:
        one, other = ValueError("one"), ValueError("other")
        one.__cause__, other.__cause__ = other, one
        raise one

    def failures(self) -> list[Any]:
        return [ValueError("x", 1)]


class SlowShop(Shop):
    async def sell(self, item: str) -> int:
        await asyncio.sleep(0)
        await self._note(item)
        return self.sold

    async def _note(self, item: str) -> None:
        self.sold += 1
        self.log.append(item)

    async def wait_a_second(self) -> None:
        self.sold += 1
        await asyncio.sleep(1)

    async def wait_for_ever(self) -> None:
        await asyncio.Event().wait()

    async def start_another(self) -> None:
        await asyncio.gather(self._note("tea"))

    async def each_slowly(self) -> AsyncIterator[int]:
        for number in range(3):
            await asyncio.sleep(0)
            yield number
