"""A class as a user would write it, replicated by the lab: texts by key.

Nothing here knows about replication. It answers exactly as the checker's model of a key-value map does, so
that every answer decides something.
"""

from __future__ import annotations


class Shelf:
    """Texts by key."""

    __quorate_reads__ = ("counts", "get")

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self.filled = 0

    def get(self, key: str) -> str | None:
        """The text, or None."""
        return self.texts.get(key)

    def put(self, key: str, value: str) -> None:
        """Replace the text."""
        self.texts[key] = value

    def append(self, key: str, string: str) -> None:
        """Lengthen the text; an absent one is empty."""
        self.texts[key] = self.texts.get(key, "") + string

    def delete(self, key: str) -> bool:
        """Whether there was a text; there is none afterwards."""
        return self.texts.pop(key, None) is not None

    def fill(self, size: int) -> str:
        """Give a text of this size, and count that; a call, whose answer is kept."""
        self.filled += 1
        return "x" * size

    def counts(self) -> tuple[int, int]:
        """How many texts there are, and how many were given by `fill`."""
        return len(self.texts), self.filled

    def brood(self) -> None:
        """Never return."""
        while True:
            self.texts.get("")
