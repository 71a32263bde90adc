"""Classes that define special methods, properties and attributes."""

from __future__ import annotations

import enum
import functools
from collections.abc import Iterator
from typing import Any

import quorate


class Shelf:
    """Books in order."""

    class Kind(enum.Enum):
        OPEN = 1

    room = 10
    notes: str

    def __init__(self, *books: str) -> None:
        self.books = list(books)
        self.asked = 0
        self.closed_by: Any = None
        self._secret = "hidden"

    def put(self, book: str, *, front: bool = False) -> int:
        """Adds a book."""
        self.books.insert(0 if front else len(self.books), book)
        return len(self.books)

    @quorate.readonly
    def __len__(self) -> int:
        return len(self.books)

    def __getitem__(self, index: Any) -> Any:
        return self.books[index]

    def __setitem__(self, index: int, book: str) -> None:
        self.books[index] = book

    def __delitem__(self, index: int) -> None:
        del self.books[index]

    def __contains__(self, book: object) -> bool:
        return book in self.books

    def __iter__(self) -> Iterator[str]:
        return iter(self.books)

    def __reversed__(self) -> Iterator[str]:
        yield from reversed(self.books)

    def __call__(self, times: int, *, by: str = "-") -> str:
        self.asked += 1
        return by.join(self.books * times)

    def __eq__(self, other: object) -> bool:
        return self.books == other if isinstance(other, list) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __lt__(self, other: object) -> bool:
        return len(self.books) < other if isinstance(other, int) else NotImplemented

    def __add__(self, other: Any) -> Any:
        return self.books + other if isinstance(other, list) else NotImplemented

    def __radd__(self, other: Any) -> Any:
        return other + self.books

    def __iadd__(self, other: list[str]) -> Shelf:  # type: ignore[misc]
        self.books += other
        return self

    def __neg__(self) -> int:
        return -len(self.books)

    def __int__(self) -> int:
        return len(self.books)

    def __bool__(self) -> bool:
        return bool(self.books)

    def __str__(self) -> str:
        return ", ".join(self.books)

    def __enter__(self) -> Shelf:
        self.closed_by = None
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool:
        self.closed_by = None if kind is None else (kind.__name__, str(error), trace)
        return isinstance(error, KeyError)

    @property
    @quorate.readonly
    def first(self) -> str:
        """The first book."""
        return self.books[0]

    @property
    def next_asked(self) -> int:
        self.asked += 1
        return self.asked

    @functools.cached_property
    def cached(self) -> int:
        return len(self.books)

    @property
    @quorate.readonly
    def broken(self) -> int:
        raise AttributeError("on purpose")

    def set_room(self, room: int) -> None:
        self.room = room


class Numbers(list[int]):
    """Inherits its special methods from a class in C."""

    def total(self) -> int:
        return sum(self)


class Places:
    """Has places and no order of its own."""

    def __getitem__(self, place: int) -> int:
        if place > 2:
            raise IndexError(place)
        return place * 10


class Countdown:
    """Is its own iterator."""

    def __init__(self, start: int) -> None:
        self.left = start

    def __iter__(self) -> Countdown:
        return self

    def __next__(self) -> int:
        if self.left == 0:
            raise StopIteration
        self.left -= 1
        return self.left


class Anything:
    """Computes attributes that it does not have."""

    def __init__(self) -> None:
        self.asked = 0

    def __getattr__(self, name: str) -> str:
        if name.startswith("_"):
            raise AttributeError(name)
        self.asked += 1
        return name
