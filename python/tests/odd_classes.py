"""Classes that are hard to check: they end their process, never return, or return what cannot be sent."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any


class Odd:
    def __init__(self, name: str) -> None:
        self.name = name
        self.calls = 0

    def count(self) -> int:
        self.calls += 1
        return self.calls

    def end(self) -> None:
        os._exit(3)

    def spin(self) -> None:
        while True:
            self.calls += 1

    def lock(self) -> Any:
        return threading.Lock()

    def apply(self, function: Callable[[int], int]) -> int:
        return function(1)


class Guarded:
    """Nothing is wrong, but only the right word shows what it does."""

    def __init__(self) -> None:
        self.opened: list[int] = []

    def open(self, word: str) -> int:
        if word != "sesame":
            raise PermissionError(word)
        self.opened.append(len(self.opened))
        return len(self.opened)
