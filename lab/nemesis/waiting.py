"""Waiting for something to become true, always with a bound and a name.

Used wherever a fault or a check needs the group in some state. It refuses to wait for ever and never guesses
that a time has been long enough: the condition is asked, not assumed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

ASK_EVERY_S = 0.02
"""How often a condition is asked: far below what is measured, cheap for two cores."""


class NeverHappened(Exception):
    """What was waited for did not come true within its bound."""


def wait_until(condition: Callable[[], T | None], seconds: float, what: str) -> T:
    """Ask until the condition answers with something true, and return that."""
    deadline = time.monotonic() + seconds
    while True:
        answer = condition()
        if answer:
            return answer
        if time.monotonic() >= deadline:
            raise NeverHappened(f"{what} did not happen within {seconds:g} s")
        time.sleep(ASK_EVERY_S)


def hold(seconds: float) -> None:
    """Let a fault last; the only place that sleeps without asking anything."""
    time.sleep(seconds)
