"""Counts by key."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Generic, TypeVar, cast

K = TypeVar("K")


class Counter(Generic[K]):
    """Counts of keys, with the methods of `collections.Counter`; a key that was never counted has 0.

    `increment` is what several clients use at a time: it changes one count and returns what came of it.

    >>> visits = Counter(["home", "help", "home"])
    >>> visits.increment("home"), visits.increment("news", 5), visits["nothing"], visits.most_common(1)
    (3, 5, 0, [('news', 5)])
    """

    def __init__(self, counted: Iterable[K] | Mapping[K, int] = ()) -> None:
        self._counts: dict[K, int] = {}
        self.update(counted)

    def increment(self, key: K, by: int = 1) -> int:
        """Add to the count of a key; the new count."""
        count = self._counts[key] = self._counts.get(key, 0) + by
        return count

    def decrement(self, key: K, by: int = 1) -> int:
        """Take from the count of a key, which may become negative; the new count."""
        return self.increment(key, -by)

    def update(self, counted: Iterable[K] | Mapping[K, int]) -> None:
        """Add one for each item, or the counts of a mapping."""
        self._add(counted, 1)

    def subtract(self, counted: Iterable[K] | Mapping[K, int]) -> None:
        """Take away one for each item, or the counts of a mapping."""
        self._add(counted, -1)

    def get(self, key: K, default: int = 0) -> int:
        """The count of a key, or the default where the key was never counted."""
        return self._counts.get(key, default)

    def most_common(self, n: int | None = None) -> list[tuple[K, int]]:
        """Keys with their counts, the largest first, all or `n` of them; of equal ones the oldest first."""
        keys = sorted(self._counts, key=lambda key: self._counts[key], reverse=True)
        return [(key, self._counts[key]) for key in keys[:n]]

    def total(self) -> int:
        """The sum of all counts."""
        return sum(self._counts.values())

    def elements(self) -> list[K]:
        """Each key as often as its count says."""
        return [key for key, count in self._counts.items() for _ in range(count)]

    def keys(self) -> list[K]:
        """All keys that were counted, in the order of their first time."""
        return list(self._counts)

    def values(self) -> list[int]:
        """All counts, in the order of their keys."""
        return list(self._counts.values())

    def items(self) -> list[tuple[K, int]]:
        """All keys with their counts."""
        return list(self._counts.items())

    def pop(self, key: K) -> int:
        """Forget a key; its last count. Raises KeyError if it was never counted."""
        return self._counts.pop(key)

    def clear(self) -> None:
        """Forget all keys."""
        self._counts.clear()

    def __getitem__(self, key: K) -> int:
        return self._counts.get(key, 0)

    def __setitem__(self, key: K, count: int) -> None:
        self._counts[key] = count

    def __delitem__(self, key: K) -> None:
        self._counts.pop(key, None)

    def __contains__(self, key: K) -> bool:
        return key in self._counts

    def __len__(self) -> int:
        return len(self._counts)

    def __iter__(self) -> Iterator[K]:
        return iter(list(self._counts))

    def _add(self, counted: Iterable[K] | Mapping[K, int], sign: int) -> None:
        if isinstance(counted, Mapping):
            for key, count in cast("Mapping[K, int]", counted).items():
                self.increment(key, sign * count)
        else:
            for key in counted:
                self.increment(key, sign)
