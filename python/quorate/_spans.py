"""Spans of time as users give them."""

from __future__ import annotations

CENTURY = 100 * 366 * 86_400
"""The longest span, in seconds."""


def nanoseconds(name: str, seconds: float) -> int:
    """Seconds as whole nanoseconds.

    >>> nanoseconds("timeout", 0.25)
    250000000
    >>> nanoseconds("timeout", -1)
    Traceback (most recent call last):
    ...
    ValueError: timeout must be 0 to 3162240000 seconds, not -1
    """
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)):
        raise TypeError(f"{name} is a number of seconds, not {type(seconds).__name__}")
    if not 0 <= seconds <= CENTURY:
        raise ValueError(f"{name} must be 0 to {CENTURY} seconds, not {seconds}")
    return int(seconds * 1_000_000_000)
