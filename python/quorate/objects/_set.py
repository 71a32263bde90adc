"""A set."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class Set(Generic[T]):
    """Distinct items, with the methods of `set`; it keeps the order in which they came.

    What `union` and such return is an ordinary set.

    >>> guests = Set(["mia", "ben"])
    >>> guests.add("mia"), guests.add("zoe"), guests.discard("ben"), guests.items()
    (False, True, True, ['mia', 'zoe'])
    >>> sorted(guests.union(["kim"]))
    ['kim', 'mia', 'zoe']
    """

    def __init__(self, items: Iterable[T] = ()) -> None:
        self._items: dict[T, None] = dict.fromkeys(items)

    def add(self, item: T) -> bool:
        """Put an item in; whether it is new, so that of several callers one knows that it was first."""
        is_new = item not in self._items
        self._items[item] = None
        return is_new

    def discard(self, item: T) -> bool:
        """Remove an item if it is there; whether it was."""
        was_there = item in self._items
        self._items.pop(item, None)
        return was_there

    def remove(self, item: T) -> None:
        """Remove an item. Raises KeyError if it is not there."""
        del self._items[item]

    def pop(self) -> T:
        """Remove the newest item and return it. Raises KeyError if the set is empty."""
        return self._items.popitem()[0]

    def clear(self) -> None:
        """Remove all items."""
        self._items.clear()

    def update(self, items: Iterable[T]) -> None:
        """Put items in."""
        self._items.update(dict.fromkeys(items))

    def difference_update(self, items: Iterable[T]) -> None:
        """Remove items, as far as they are there."""
        for item in items:
            self._items.pop(item, None)

    def intersection_update(self, items: Iterable[T]) -> None:
        """Remove all but these items."""
        kept = set(items)
        self._items = {item: None for item in self._items if item in kept}

    def union(self, items: Iterable[T]) -> set[T]:
        """What is here or among the items."""
        return set(self._items).union(items)

    def intersection(self, items: Iterable[T]) -> set[T]:
        """What is here and among the items."""
        return set(self._items).intersection(items)

    def difference(self, items: Iterable[T]) -> set[T]:
        """What is here and not among the items."""
        return set(self._items).difference(items)

    def symmetric_difference(self, items: Iterable[T]) -> set[T]:
        """What is either here or among the items."""
        return set(self._items).symmetric_difference(items)

    def isdisjoint(self, items: Iterable[T]) -> bool:
        """Whether none of the items is here."""
        return set(self._items).isdisjoint(items)

    def issubset(self, items: Iterable[T]) -> bool:
        """Whether all that is here is among the items."""
        return set(self._items).issubset(items)

    def issuperset(self, items: Iterable[T]) -> bool:
        """Whether all items are here."""
        return set(self._items).issuperset(items)

    def items(self) -> list[T]:
        """All items, the oldest first."""
        return list(self._items)

    def __contains__(self, item: T) -> bool:
        return item in self._items

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[T]:
        return iter(list(self._items))
