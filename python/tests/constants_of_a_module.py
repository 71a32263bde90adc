"""Constants that only themselves are like, as modules have them for "nothing given"."""

from __future__ import annotations

from dataclasses import dataclass


class Missing:
    pass


@dataclass(frozen=True, eq=False)
class Fixed:
    level: int = 1


MISSING, FIXED = Missing(), Fixed()
PAIR = (MISSING, FIXED)
