"""What may stand where a class is named: functions, types with arguments, classes that are hard to make."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")
THREE = 3


def twice(number: int) -> int:
    return 2 * number


class Box(Generic[T]):
    def __init__(self) -> None:
        self.items: list[T] = []

    def put(self, item: T) -> int:
        self.items.append(item)
        return len(self.items)


Numbers = Box[int]


class Guessed:
    def __init__(self, name: str, count: int) -> None:
        self.name, self.count = name, count

    def add(self, number: int) -> int:
        self.count += number
        return self.count


class Unguessed:
    def __init__(self, make: Callable[[int], int]) -> None:
        self.made = make(1)


class Choosy:
    def __init__(self, port: int) -> None:
        if port != 7400:
            raise ValueError("port 7400, not another one")
        self.port = port


class Abstract(abc.ABC):
    @abc.abstractmethod
    def act(self) -> None: ...


class Leaving:
    def __init__(self) -> None:
        raise SystemExit(3)


class Factory:
    def __new__(cls) -> Any:
        return 5


class Chooser:
    """Makes one of a class below it, as pathlib.Path does."""

    def __new__(cls) -> Any:
        return object.__new__(Chosen)

    def __init__(self) -> None:
        self.count = 0

    def add(self) -> int:
        self.count += 1
        return self.count


class Chosen(Chooser):
    pass


class OnlySpecial:
    def __init__(self) -> None:
        self.items: list[int] = []

    def __len__(self) -> int:
        return len(self.items)
