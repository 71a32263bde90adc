"""Random operations on an object of `quorate.objects` and on its twin among Python's own types."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from quorate import _native

ROUNDS = 3000
SEEDS = range(3)


def outcome(act: Callable[[], Any]) -> Any:
    """What it returns, or the class of what it raises."""
    try:
        return act()
    except Exception as error:
        return type(error)


def restored(thing: Any) -> Any:
    """The object that a replica has after a snapshot."""
    image = _native.dump_state(thing)
    copy = _native.load_state(image)
    assert _native.dump_state(copy) == image
    return copy


def compare(thing: Any, twin: Any, draw: random.Random, moves: list[Callable[[Any, int], Any]]) -> None:
    """Make the same random moves on both; in the middle one is restored from its image."""
    for number in range(ROUNDS):
        move, value = draw.choice(moves), draw.randrange(-20, 20)
        mine, theirs = outcome(lambda: move(thing, value)), outcome(lambda: move(twin, value))  # noqa: B023
        assert mine == theirs, (number, moves.index(move), value)
        assert len(thing) == len(twin)
        if number % 1000 == 500:
            thing = restored(thing)
            assert list(thing) == list(twin)


def answered(act: Callable[[], Any]) -> None:
    """Calls of which Python's types return None and ours tell something."""
    act()
