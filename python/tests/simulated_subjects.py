"""Classes that `simulate` runs, each with its own way to fail or to be called."""

from __future__ import annotations

import dataclasses
import os
from typing import Any


@dataclasses.dataclass
class Limit:
    most: int


class Box:
    """A sound class that needs arguments, some of which JSON cannot say."""

    def __init__(self, limit: Limit, name: bytes) -> None:
        self.limit, self.name, self.held = limit, name, 0

    def put(self, count: int = 1) -> int:
        if self.held + count > self.limit.most:
            raise OverflowError(f"no room for {count}")
        self.held += count
        return self.held

    def count(self) -> int:
        return self.held

    def __len__(self) -> int:
        return self.held


class Quitter:
    def __init__(self) -> None:
        self.calls = 0

    def quit(self) -> None:
        os._exit(3)


class Silent:
    """It has no method."""


class Generous:
    def __init__(self) -> None:
        self.calls = 0

    def give(self) -> Any:
        self.calls += 1
        return object()


class Restless:
    def __init__(self) -> None:
        self.rounds = 0

    def spin(self) -> None:
        while True:
            self.rounds += 1


class Unkept:
    """Its state cannot be encoded from its second call on."""

    def __init__(self) -> None:
        self.kept: list[Any] = []

    def keep(self) -> int:
        if self.kept:
            self.kept.append(iter(x for x in [1]))
        self.kept.append(1)
        return len(self.kept)


class Late:
    """It fails only when it was restored after three calls."""

    def __init__(self) -> None:
        self.values: list[int] = []

    def add(self, value: int) -> int:
        self.values.append(value)
        return len(self.values)

    def __getstate__(self) -> dict[str, Any]:
        return {"values": self.values[:3]}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.values = state["values"]


class Shortened:
    """It keeps all values, and restores only three."""

    def __init__(self) -> None:
        self.values: list[int] = []

    def add(self, value: int) -> int:
        self.values.append(value)
        return len(self.values)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.values = state["values"][:3]


class Unbounded:
    """It loops in C, where no signal is heard."""

    def __init__(self) -> None:
        self.calls = 0

    def total(self) -> int:
        self.calls += 1
        return sum(range(10**12))


class Restored:
    """It loops in C once it was restored; the first time is the test of its state."""

    restores = 0

    def __init__(self) -> None:
        self.calls = 0

    def total(self) -> int:
        self.calls += 1
        return sum(range(10**12 if Restored.restores > 1 else 1))

    def __setstate__(self, state: dict[str, Any]) -> None:
        Restored.restores += 1
        vars(self).update(state)
