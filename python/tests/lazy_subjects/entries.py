"""Imported by a method of `Ledger` only."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Entry:
    class Part:
        pass

    def __init__(self, text: str) -> None:
        self.text = text


@dataclass(frozen=True)
class Place:
    row: int


class Colour(enum.Enum):
    RED = 1


def describe(entry: Entry) -> str:
    return entry.text


NOTHING = object()
ORIGIN = Place(0)
