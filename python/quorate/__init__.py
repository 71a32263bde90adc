"""Replicate ordinary Python classes: they stay correct and available while machines fail."""

from __future__ import annotations

from quorate._errors import (
    MalformedValue,
    NoSuchMethod,
    NotExecuted,
    NotFound,
    OutcomeUnknown,
    Overloaded,
    QuorateError,
    Refused,
    RemoteError,
    SessionExpired,
    TimedOut,
    Unavailable,
    UnsupportedValue,
)
from quorate._names import register

__all__ = [
    "MalformedValue",
    "NoSuchMethod",
    "NotExecuted",
    "NotFound",
    "OutcomeUnknown",
    "Overloaded",
    "QuorateError",
    "Refused",
    "RemoteError",
    "SessionExpired",
    "TimedOut",
    "Unavailable",
    "UnsupportedValue",
    "register",
]
