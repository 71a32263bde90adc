"""Objects that have methods which their classes have not."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any


class Numbers:
    def __init__(self) -> None:
        self.items = [1, 2, 3]
        self.index = self.items.index
        self.grow = functools.partial(self._add, 4)
        self.limit = 5
        self.kind = int

    def _add(self, item: int) -> int:
        self.items.append(item)
        return len(self.items)

    @property
    def every(self) -> Every:
        return Every(self.items)

    @property
    def counted(self) -> int:
        """How often it was asked for, and more."""
        self.limit += 1
        return self.limit


class Every:
    """A view that may be called, as networkx has them."""

    def __init__(self, items: list[int]) -> None:
        self._items = items

    def __iter__(self) -> Iterator[int]:
        return iter(self._items)

    def __call__(self, step: int = 1) -> list[int]:
        return self._items[::step]


class Triggered:
    """Makes its methods when they are asked for."""

    def __init__(self) -> None:
        self.state = "new"

    def __getattr__(self, name: str) -> Callable[[], Any]:
        if not name.startswith("to_"):
            raise AttributeError(f"there is no {name}")
        return functools.partial(self._go, name.removeprefix("to_"))

    def _go(self, state: str) -> bool:
        self.state = state
        return True
