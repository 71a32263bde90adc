"""A map."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Generic, TypeVar, overload

K = TypeVar("K")
V = TypeVar("V")


class Map(Generic[K, V]):
    """Values by key, with the methods of `dict`; `keys`, `values` and `items` return lists.

    `replace` changes a value only where nobody else has changed it before.

    >>> settings = Map({"colour": "red"})
    >>> settings["size"] = "large"
    >>> settings.replace("colour", "red", "blue"), settings.replace("colour", "red", "green")
    (True, False)
    >>> settings.items()
    [('colour', 'blue'), ('size', 'large')]
    """

    def __init__(self, items: Mapping[K, V] | Iterable[tuple[K, V]] = ()) -> None:
        self._values: dict[K, V] = dict(items)

    @overload
    def get(self, key: K) -> V | None: ...

    @overload
    def get(self, key: K, default: V) -> V: ...

    def get(self, key: K, default: V | None = None) -> V | None:
        """The value of a key, or the default."""
        return self._values.get(key, default)

    def setdefault(self, key: K, default: V) -> V:
        """The value of a key, which gets the default if it has none."""
        return self._values.setdefault(key, default)

    def replace(self, key: K, expected: V, value: V) -> bool:
        """Give a key another value if it has the expected one; whether it did."""
        if key not in self._values or self._values[key] != expected:
            return False
        self._values[key] = value
        return True

    def update(self, items: Mapping[K, V] | Iterable[tuple[K, V]]) -> None:
        """Take over keys and values, in place of those that were there."""
        self._values.update(items)

    def pop(self, key: K, *default: V) -> V:
        """Remove a key and return its value, or the default. Raises KeyError where neither is there."""
        return self._values.pop(key, *default)

    def popitem(self) -> tuple[K, V]:
        """Remove the newest key and return it with its value. Raises KeyError if the map is empty."""
        return self._values.popitem()

    def clear(self) -> None:
        """Remove all keys."""
        self._values.clear()

    def keys(self) -> list[K]:
        """All keys, the oldest first."""
        return list(self._values)

    def values(self) -> list[V]:
        """All values, in the order of their keys."""
        return list(self._values.values())

    def items(self) -> list[tuple[K, V]]:
        """All keys with their values, the oldest first."""
        return list(self._values.items())

    def __getitem__(self, key: K) -> V:
        return self._values[key]

    def __setitem__(self, key: K, value: V) -> None:
        self._values[key] = value

    def __delitem__(self, key: K) -> None:
        del self._values[key]

    def __contains__(self, key: K) -> bool:
        return key in self._values

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[K]:
        return iter(list(self._values))
