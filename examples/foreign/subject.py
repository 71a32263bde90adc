"""A class that was not written for Quorate, and how it is called at random.

The class itself stays as its package has it. What stands in the tables is the driver's knowledge of
it: the arguments with which it is made, and for its methods the kinds of arguments that they take.
"""

from __future__ import annotations

import ast
import random
import shlex
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from .kinds import KINDS, Value

RARE = 0.05
"""How often a call is drawn that throws away what others have built, compared with one of them."""

TABLES = ("containers", "models")

Call = tuple[str, tuple[Value, ...], dict[str, Value]]


@dataclass(frozen=True)
class Subject:
    """One class: where it is, how it is made, what is called.

    `calls` names methods with their kinds of arguments, separated by semicolons. A kind is one of
    `KINDS`; alternatives are separated by |; all else is a Python constant. ~ makes a call rare.

    >>> each = Subject("collections:deque", "append key; rotate 1; ~clear; index key|'x'")
    >>> each.draw(random.Random(3))
    ('append', (5,), {})
    """

    path: str
    calls: str
    args: tuple[Value, ...] = ()
    kwargs: Mapping[str, Value] = field(default_factory=dict)
    allow: tuple[str, ...] = ()
    is_timed: bool = False
    """Answers depend on clocks or randomness: replicas can be compared, a twin elsewhere cannot."""

    def draw(self, chance: random.Random) -> Call:
        """Choose a method and its arguments."""
        calls = [shlex.split(call, posix=False) for call in self.calls.split(";")]
        weights = [RARE if call[0].startswith("~") else 1.0 for call in calls]
        method, *words = chance.choices(calls, weights)[0]
        args, kwargs = [], {}
        for word in words:
            name, equals, kind = word.partition("=")
            if equals and name.isidentifier():
                kwargs[name] = _drawn(kind, chance)
            else:
                args.append(_drawn(word, chance))
        return method.removeprefix("~"), tuple(args), kwargs


def _drawn(words: str, chance: random.Random) -> Value:
    word = chance.choice(words.split("|"))
    kind = KINDS.get(word)
    if kind is None:
        return ast.literal_eval(word)
    return chance.choice(kind) if isinstance(kind, list) else kind(chance)


def subjects(table: str) -> list[Subject]:
    """Read a table of classes."""
    text = (Path(__file__).parent / f"{table}.toml").read_text(encoding="utf-8")
    return [_subject(line) for line in tomllib.loads(text)["class"]]


def _subject(line: dict[str, Value]) -> Subject:
    lists = {name: tuple(line.pop(name)) for name in ("args", "allow") if name in line}
    return Subject(**line, **lists)
