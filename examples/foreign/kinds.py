"""Kinds of arguments: each draws a value that means something to some methods."""

from __future__ import annotations

import datetime
import random
from collections.abc import Callable
from typing import Any

Value = Any
"""Anything that can be sent."""

WORDS = ["", "a", "b", "ab", "abc", "b a", "tea", "ten", "tend", "Ωmega", "zzz", "A", "0", "x.y"]
_ANY = ["key", "num", "real", "text", "flag", "none", "keys", "words", "pairs", "table", "couples"]
_DAY = datetime.datetime(2026, 1, 1)
_PATHS = ["a", "a/b", "a/b/c", "b", "b/c", ""]


def _some(draw: Callable[[random.Random], Value], at_most: int = 4) -> Callable[..., list[Value]]:
    return lambda chance: [draw(chance) for _ in range(chance.randrange(at_most + 1))]


def _key(chance: random.Random) -> int:
    return chance.randrange(12)


def _num(chance: random.Random) -> int:
    return chance.randrange(-5, 50)


def _real(chance: random.Random) -> float:
    return chance.randrange(-40, 400) / 8


def _word(chance: random.Random) -> str:
    return chance.choice(WORDS[1:])


def _couple(chance: random.Random) -> tuple[int, int]:
    return _key(chance), _key(chance)


def _any(chance: random.Random) -> Value:
    kind = KINDS[chance.choice(_ANY)]
    return chance.choice(kind) if isinstance(kind, list) else kind(chance)


KINDS: dict[str, Callable[[random.Random], Value] | list[Value]] = {
    "key": _key,
    "num": _num,
    "real": _real,
    "word": _word,
    "any": _any,
    "small": [0, 1, 2, 3],
    "index": [-3, -1, 0, 1, 2, 5, 8],
    "text": WORDS,
    "flag": [False, True],
    "none": [None],
    "keys": _some(_key),
    "nums": _some(_num, 5),
    "reals": _some(_real, 5),
    "words": _some(_word),
    "couples": _some(_couple),
    "triples": _some(lambda chance: (*_couple(chance), chance.random())),
    "pairs": lambda chance: dict(_some(lambda c: (_key(c), _num(c)))(chance)),
    "table": lambda chance: dict(_some(lambda c: (_word(c), _num(c)))(chance)),
    "rows": lambda chance: [[_key(chance), _key(chance)] for _ in range(2)],
    "day": lambda chance: _DAY + datetime.timedelta(days=chance.randrange(28)),
    "start": lambda chance: chance.randrange(20),
    "end": lambda chance: chance.randrange(20, 40),
    "path": _PATHS,
    "paths": [{"a/b": 1, "b/d": 2}],
    "bits": ["", "0", "1", "0110"],
    "san": ["e4", "e5", "Nf3", "Nc6", "Bb5", "a6", "O-O", "d4", "d5", "Qe2", "c4", "Nf6", "exd5"],
    "uci": ["e2e4", "e7e5", "g1f3", "b8c6", "d2d4", "e5d4", "a2a3", "a7a6", "h2h4", "h7h5"],
    "moves": [[]],
    "sums": ["1+2", "1", "", "1+", "12+3+4"],
    "columns": [{"a": "int", "b": "text"}],
    "version": ["1.0", "1.5b1", "3", "x"],
    "versions": [["1.0", "2.5"]],
    "lines": [["User-agent: *", "Disallow: /a", "Crawl-delay: 3"]],
    "tables": [{"a": {"x": "1"}, "b": {"y": "%(x)s"}}],
    "name": ["a", "b", "-c"],
}
