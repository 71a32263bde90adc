"""A class whose methods are shown to change nothing, where what they return may be used up."""

from __future__ import annotations

from typing import Any


class Feed:
    def __init__(self) -> None:
        self.items = [1, 2, 3]
        self.coming = iter([1, 2, 3])

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> int:
        return self.items[index]

    @property
    def first(self) -> int:
        return self.items[0]

    @property
    def taken(self) -> int:
        return self.items.pop()

    def stored(self) -> Any:
        return self.coming

    def left(self) -> list[int]:
        return list(self.coming)
