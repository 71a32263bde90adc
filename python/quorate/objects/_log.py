"""A log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class Log(Generic[T]):
    """Entries in the order in which they were appended. Each has a number, for good; the first is 0.

    >>> log = Log[str]()
    >>> log.append("open"), log.append("write"), log.append("close")
    (0, 1, 2)
    >>> log.trim(1), log.read(1), log.read(1, 2), log.first, len(log)
    (1, ['write', 'close'], ['write'], 1, 2)
    """

    def __init__(self) -> None:
        self._entries: list[T] = []
        self.first = 0
        """The number of the oldest entry that is kept."""

    def append(self, entry: T) -> int:
        """Add an entry; its number."""
        self._entries.append(entry)
        return self.first + len(self._entries) - 1

    def extend(self, entries: Iterable[T]) -> int:
        """Add entries; the number that the next one will have."""
        self._entries.extend(entries)
        return self.first + len(self._entries)

    def next(self) -> int:
        """The number that the next entry will have."""
        return self.first + len(self._entries)

    def read(self, start: int = 0, stop: int | None = None) -> list[T]:
        """Entries from number `start` on, up to and without `stop`. Raises IndexError for what was trimmed.

        A reader that asks from 0 on takes what is kept.
        """
        if 0 < start < self.first:
            raise IndexError(f"entry {start} was trimmed: the first that is kept is {self.first}")
        end = None if stop is None else max(stop - self.first, 0)
        return self._entries[max(start - self.first, 0) : end]

    def tail(self, count: int = 10) -> list[T]:
        """The newest entries, at most so many, the oldest of them first."""
        return self._entries[-count:] if count > 0 else []

    def trim(self, before: int) -> int:
        """Drop the entries before a number; how many these were. Other entries keep their numbers."""
        count = min(max(before - self.first, 0), len(self._entries))
        del self._entries[:count]
        self.first += count
        return count

    def __getitem__(self, number: int) -> T:
        if not self.first <= number < self.first + len(self._entries):
            raise IndexError(f"entry {number} is not here")
        return self._entries[number - self.first]

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[T]:
        return iter(list(self._entries))
