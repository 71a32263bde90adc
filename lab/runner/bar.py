"""A bar on a terminal that says how far a measurement is, when it takes long and somebody watches."""

from __future__ import annotations

import time

from quorate._progress import Progress

PATIENCE_S = 2.0
"""How long work may take before a bar says how far it is."""

WIDTH = 30


class Bar:
    """How far one experiment is."""

    def __init__(self, name: str, line: Progress) -> None:
        self._name = name
        self._line = line
        self._began = time.monotonic()

    def show(self, done: float, text: str) -> None:
        """So much of the whole is done, between 0 and 1; `text` says what is done at the moment."""
        spent = time.monotonic() - self._began
        if spent < PATIENCE_S:
            return
        bar = ("#" * round(done * WIDTH)).ljust(WIDTH, ".")
        left = f", about {spent / done - spent:.0f} s left" if done > 0.05 else ""
        self._line.show(f"{self._name} [{bar}] {text}{left}")
