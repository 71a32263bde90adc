"""A doubly linked list."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class ListNode(Generic[T]):
    """A value and its neighbours; the node that stands for both ends has no value."""

    __slots__ = ("after", "before", "value")

    value: T

    def __init__(self) -> None:
        self.before: ListNode[T] = self
        self.after: ListNode[T] = self


class LinkedList(Generic[T]):
    """A list with the methods of `list` and `deque` that grows and shrinks at both ends in constant time.

    >>> letters = LinkedList("bcd")
    >>> letters.appendleft("a")
    >>> letters.remove("c")
    >>> letters[1], letters.pop(), list(letters)
    ('b', 'd', ['a', 'b'])
    """

    def __init__(self, items: Iterable[T] = ()) -> None:
        self._ends: ListNode[T] = ListNode()
        self._length = 0
        self.extend(items)

    def append(self, item: T) -> None:
        """Add an item at the end."""
        self._link(item, self._ends)

    def appendleft(self, item: T) -> None:
        """Add an item at the beginning."""
        self._link(item, self._ends.after)

    def extend(self, items: Iterable[T]) -> None:
        """Add items at the end."""
        for item in items:
            self.append(item)

    def insert(self, index: int, item: T) -> None:
        """Add an item before that of an index; an index beyond an end means that end."""
        place = index + self._length if index < 0 else index
        self._link(item, self._at(max(place, 0)) if place < self._length else self._ends)

    def pop(self, index: int = -1) -> T:
        """Remove the item of an index, that is the last one, and return it. Raises IndexError."""
        return self._unlink(self._node(index))

    def popleft(self) -> T:
        """Remove the first item and return it. Raises IndexError if the list is empty."""
        return self._unlink(self._node(0))

    def remove(self, item: T) -> None:
        """Remove the first item that is equal. Raises ValueError if there is none."""
        self._unlink(self._at(self.index(item)))

    def clear(self) -> None:
        """Remove all items."""
        self._ends, self._length = ListNode(), 0

    def reverse(self) -> None:
        """Turn the order of the items around."""
        node = self._ends
        for _ in range(self._length + 1):
            node.before, node.after = node.after, node.before
            node = node.before

    def index(self, item: T) -> int:
        """The index of the first item that is equal. Raises ValueError if there is none."""
        node = self._ends.after
        for index in range(self._length):
            if node.value == item:
                return index
            node = node.after
        raise ValueError("the item is not in the list")

    def count(self, item: T) -> int:
        """How many items are equal to this one."""
        return self.items().count(item)

    def items(self) -> list[T]:
        """All items, in order."""
        found: list[T] = []
        node = self._ends.after
        for _ in range(self._length):
            found.append(node.value)
            node = node.after
        return found

    def __getitem__(self, index: int) -> T:
        return self._node(index).value

    def __setitem__(self, index: int, item: T) -> None:
        self._node(index).value = item

    def __delitem__(self, index: int) -> None:
        self._unlink(self._node(index))

    def __contains__(self, item: object) -> bool:
        return item in self.items()

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[T]:
        return iter(self.items())

    def _node(self, index: int) -> ListNode[T]:
        place = index + self._length if index < 0 else index
        if not 0 <= place < self._length:
            raise IndexError("list index out of range")
        return self._at(place)

    def _at(self, place: int) -> ListNode[T]:
        """The node of a place that exists, from the nearer end."""
        node = self._ends
        if place < self._length // 2:
            for _ in range(place + 1):
                node = node.after
        else:
            for _ in range(self._length - place):
                node = node.before
        return node

    def _link(self, item: T, after: ListNode[T]) -> None:
        node: ListNode[T] = ListNode()
        node.value, node.before, node.after = item, after.before, after
        node.before.after = after.before = node
        self._length += 1

    def _unlink(self, node: ListNode[T]) -> T:
        node.before.after, node.after.before = node.after, node.before
        self._length -= 1
        return node.value
