"""Classes that the tests replicate."""

from __future__ import annotations

import os
import random
import time
from typing import Any

import quorate


class Overdrawn(Exception):
    def __init__(self, missing: int) -> None:
        super().__init__(missing)
        self.missing = missing


class Wallet:
    def __init__(self, amount: int = 0) -> None:
        self.amount = amount
        self.tried = 0
        self.drawn: Any = None

    def deposit(self, amount: int) -> int:
        self.amount += amount
        return self.amount

    def withdraw(self, amount: int) -> int:
        self.tried += 1
        if amount > self.amount:
            raise Overdrawn(amount - self.amount)
        self.amount -= amount
        return self.amount

    @quorate.readonly
    def total(self) -> int:
        return self.amount

    @quorate.readonly
    def attempts(self) -> int:
        return self.tried

    def echo(self, value: Any) -> Any:
        return value

    def tower(self, height: int) -> str:
        return "x" * height

    def try_lazily(self) -> Any:
        self.tried += 1
        return (number for number in range(3))

    def draw(self) -> Any:
        self.drawn = (time.time(), random.random())
        return self.drawn

    @quorate.readonly
    def last_drawn(self) -> Any:
        return self.drawn

    def end_the_process(self) -> None:
        os._exit(3)

    def _secret(self) -> None: ...
