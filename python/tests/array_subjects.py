"""A class that keeps arrays of numpy, which comes with matplotlib, and some that draw numbers with it."""

from __future__ import annotations

import numpy as np


class Grid:
    def __init__(self) -> None:
        self.cells = np.zeros(12)
        self.rows = self.cells.reshape(3, 4)
        self.fixed = np.arange(3)
        self.fixed.flags.writeable = False
        self.best = np.float64(0)

    def put(self, cell: int, value: float) -> None:
        self.cells[cell] = value
        self.best = max(self.best, self.cells[cell])

    def row(self, number: int) -> list[float]:
        return [float(cell) for cell in self.rows[number]]

    def total(self) -> float:
        return float(self.rows.sum() + self.best)


SHARED = np.random.default_rng(7)
rand = np.random.rand


class ByModule:
    def roll(self) -> float:
        np.random.seed(1)
        return float(np.random.random_sample())


class ByName:
    def roll(self) -> float:
        return float(rand())


class BySharedGenerator:
    def roll(self) -> float:
        return float(SHARED.random())


class ByOwnGenerator:
    def __init__(self) -> None:
        self.generator = np.random.default_rng(5)

    def roll(self) -> float:
        return float(self.generator.random() + np.random.default_rng(3).random())


class ByClockOfTheMachine:
    def now(self) -> str:
        return str(np.datetime64("now"))
