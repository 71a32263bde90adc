"""A stack."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class Stack(Generic[T]):
    """Items of which the newest leaves first.

    >>> stack = Stack[str]()
    >>> stack.push("a"), stack.push("b"), stack.pop(), len(stack)
    (None, None, 'b', 1)
    """

    def __init__(self) -> None:
        self._items: list[T] = []

    def push(self, item: T) -> None:
        """Put an item on top."""
        self._items.append(item)

    def pop(self) -> T:
        """Remove the item on top and return it. Raises IndexError if the stack is empty."""
        return self._items.pop()

    def top(self) -> T:
        """The item on top, which stays there. Raises IndexError if the stack is empty."""
        return self._items[-1]

    def clear(self) -> None:
        """Remove all items."""
        self._items.clear()

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[T]:
        """From the oldest item to the newest, as in a list."""
        return iter(list(self._items))
