"""Callers that wait in a line: what the objects that wait are made of."""

from __future__ import annotations

from collections import deque
from typing import Any, Generic, TypeVar

import quorate

W = TypeVar("W")

CLEARED_FROM = 64
"""Entries from which on those that are gone are looked for, each time that there are twice as many."""

NOBODY = 0
"""The session of what is done without Quorate running: one owner of everything."""


class Line(Generic[W]):
    """Callers in the order in which they came, each with what it wants.

    Who is gone, because its session is over or its time, keeps its place until it is looked for.

    >>> Line[str]().size()
    0
    """

    def __init__(self) -> None:
        self._entries: deque[tuple[quorate.Caller, W]] = deque()
        self._cleared_at = CLEARED_FROM

    def wait(self, wanted: W, seconds: float | None, *default: Any) -> Any:
        """Let the caller wait: `return line.wait(...)`. After these seconds it is answered the default.

        Without a default it is answered `quorate.ParkTimeout`. Raises NotInCall where nobody calls.
        """
        parked = park(seconds, *default)
        self.add(quorate.caller(), wanted)
        return parked

    def add(self, caller: quorate.Caller, wanted: W) -> None:
        """Put a caller at the end that waits already, or will when its call returns what `park` gave."""
        if len(self._entries) >= self._cleared_at:
            self.clear_gone()
            self._cleared_at = max(2 * len(self._entries), CLEARED_FROM)
        self._entries.append((caller, wanted))

    def first(self) -> tuple[quorate.Caller, W] | None:
        """The first caller that still waits, which stays first; None if nobody waits."""
        while self._entries:
            if self._entries[0][0].is_waiting:
                return self._entries[0]
            self._entries.popleft()
        return None

    def pop(self) -> tuple[quorate.Caller, W] | None:
        """The first caller that still waits, which leaves the line without an answer."""
        found = self.first()
        if found is not None:
            self._entries.popleft()
        return found

    def wake_first(self, value: object = None) -> bool:
        """Answer the first caller that still waits; False if nobody waits."""
        found = self.first()
        if found is None:
            return False
        found[0].wake(value)
        self._entries.popleft()
        return True

    def wake_all(self, value: object = None) -> int:
        """Answer all with the same value; how many there were."""
        self.clear_gone()
        for caller, _ in self._entries:
            caller.wake(value)
        return self._emptied()

    def fail_all(self, error: BaseException) -> int:
        """Answer all with an exception; how many there were."""
        self.clear_gone()
        for caller, _ in self._entries:
            caller.fail(error)
        return self._emptied()

    def waiting(self) -> list[tuple[quorate.Caller, W]]:
        """All callers that still wait, with what they want."""
        return [entry for entry in self._entries if entry[0].is_waiting]

    def clear_gone(self) -> int:
        """Take out who does not wait any more; how many these were."""
        before = len(self._entries)
        self._entries = deque(self.waiting())
        return before - len(self._entries)

    def size(self) -> int:
        """How many still wait."""
        return len(self.waiting())

    def _emptied(self) -> int:
        count = len(self._entries)
        self._entries.clear()
        return count


def park(seconds: float | None, *default: Any) -> Any:
    """What a call returns to wait; after these seconds it is answered the default, or ParkTimeout."""
    if seconds is None:
        return quorate.park()
    # Until `park` has a timeout, a call that gives one is refused.
    with_timeout: Any = quorate.park
    return with_timeout(timeout=seconds, **({"default": default[0]} if default else {}))


def calling() -> quorate.Caller:
    """Who calls; where nobody does, because Quorate does not run, one caller that stands for all.

    >>> calling().session == NOBODY
    True
    """
    try:
        return quorate.caller()
    except quorate.NotInCall:
        return quorate.Caller(NOBODY, 0, 0)


def patience(blocking: bool, timeout: float | None) -> float | None:
    """How many seconds a caller waits: 0 not at all, None for as long as it takes, as -1 of `threading`.

    >>> patience(True, None), patience(True, -1), patience(True, 2.5), patience(False, None)
    (None, None, 2.5, 0.0)
    """
    if timeout is None or timeout == -1:
        return None if blocking else 0.0
    if not blocking:
        raise ValueError("can't specify a timeout for a non-blocking call")
    if timeout < 0:
        raise ValueError("timeout value must be a non-negative number")
    return float(timeout)
