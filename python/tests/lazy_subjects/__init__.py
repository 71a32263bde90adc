"""A package of which the class in use imports the rest only in its methods."""

from __future__ import annotations

from typing import Any


class Ledger:
    """Keeps what is defined in a module that nobody imports at the start."""

    def __init__(self) -> None:
        self.kept: list[Any] = []

    def keep(self) -> int:
        import graphlib  # noqa: PLC0415

        from lazy_subjects import entries  # noqa: PLC0415

        self.kept += [entries.Entry("first"), entries.Entry, entries.describe, entries.Colour.RED]
        self.kept += [entries.NOTHING, entries.ORIGIN, entries.Entry.Part(), graphlib.TopologicalSorter()]
        return len(self.kept)

    def described(self) -> list[str]:
        return [type(one).__name__ for one in self.kept]
