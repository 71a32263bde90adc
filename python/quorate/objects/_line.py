"""Callers that wait in a line: what the objects that wait are made of."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import quorate

W = TypeVar("W")

CLEARED_FROM = 64
"""Entries from which on those that are gone are looked for, each time that there are twice as many."""

LONGEST = 9_223_372_036.0
"""`threading.TIMEOUT_MAX`, the same on every machine."""

ENDLESS = 3e9
"""Seconds from which on a timeout is none: 95 years."""

NOBODY = 0
"""The session of what is done without Quorate running: one owner of everything."""


class Line(Generic[W]):
    """Callers in the order in which they came, each with what it wants.

    Who is gone, because its session is over or its time, keeps its place until it is looked for. A timer that
    was set for a caller is cancelled when the caller leaves the line.

    >>> Line[str]().size()
    0
    """

    def __init__(self) -> None:
        self._entries: deque[tuple[quorate.Caller, W, quorate.Timer | None]] = deque()
        self._cleared_at = CLEARED_FROM

    def wait(
        self, wanted: W, seconds: float | None, *default: Any, error: BaseException | None = None
    ) -> Any:
        """Let the caller wait: `return line.wait(...)`. After these seconds it is answered the default.

        Without a default it gets the error, or `quorate.ParkTimeout`. Raises NotInCall where nobody calls.
        """
        parked = quorate.park(seconds, *default, error=error)
        self.add(quorate.caller(), wanted)
        return parked

    def wait_and_tell(self, wanted: W, seconds: float | None, method: Callable[..., object]) -> Any:
        """Let the caller wait; after these seconds the method answers it, which gets what names the caller.

        Raises TypeError unless it is a method of the object that is served.
        """
        caller, parked = quorate.caller(), quorate.park()
        timer = None if seconds is None else quorate.after(seconds, method, *named(caller))
        self.add(caller, wanted, timer)
        return parked

    def add(self, caller: quorate.Caller, wanted: W, timer: quorate.Timer | None = None) -> None:
        """Put a caller at the end that waits already, or will when its call returns what `park` gave."""
        if len(self._entries) >= self._cleared_at:
            self.clear_gone()
            self._cleared_at = max(2 * len(self._entries), CLEARED_FROM)
        self._entries.append((caller, wanted, timer))

    def first(self) -> tuple[quorate.Caller, W] | None:
        """The first caller that still waits, which stays first; None if nobody waits."""
        while self._entries:
            caller, wanted, _ = self._entries[0]
            if caller.is_waiting:
                return caller, wanted
            self._leave_first()
        return None

    def pop(self) -> tuple[quorate.Caller, W] | None:
        """The first caller that still waits, which leaves the line without an answer."""
        found = self.first()
        if found is not None:
            self._leave_first()
        return found

    def remove(self, caller: quorate.Caller) -> None:
        """Take out one caller that stands in this line."""
        index = next(index for index, entry in enumerate(self._entries) if entry[0] == caller)
        del self._entries[index]

    def wake_first(self, value: object = None) -> bool:
        """Answer the first caller that still waits; False if nobody waits."""
        found = self.first()
        if found is None:
            return False
        found[0].wake(value)
        self._leave_first()
        return True

    def wake_all(self, value: object = None) -> int:
        """Answer all with the same value; how many there were."""
        waiting = self.waiting()
        for caller, _ in waiting:
            caller.wake(value)
        self.clear_gone()
        return len(waiting)

    def fail_all(self, error: BaseException) -> int:
        """Answer all with an exception; how many there were."""
        waiting = self.waiting()
        for caller, _ in waiting:
            caller.fail(error)
        self.clear_gone()
        return len(waiting)

    def waiting(self) -> list[tuple[quorate.Caller, W]]:
        """All callers that still wait, with what they want."""
        return [(caller, wanted) for caller, wanted, _ in self._entries if caller.is_waiting]

    def clear_gone(self) -> list[W]:
        """Take out who does not wait any more; what these wanted."""
        before, self._entries = self._entries, deque()
        gone = []
        for entry in before:
            if entry[0].is_waiting:
                self._entries.append(entry)
            else:
                gone.append(entry[1])
                if entry[2] is not None:
                    entry[2].cancel()
        return gone

    def size(self) -> int:
        """How many still wait."""
        return len(self.waiting())

    def _leave_first(self) -> None:
        timer = self._entries.popleft()[2]
        if timer is not None:
            timer.cancel()


def named(caller: quorate.Caller) -> tuple[int, int, int]:
    """What a timer is given to name a caller, which does not travel itself.

    >>> quorate.Caller(*named(quorate.Caller(7, 1, 65536)))
    Caller(session=7, sequence=1, token=65536)
    """
    return caller.session, caller.sequence, caller.token


def calling() -> quorate.Caller:
    """Who calls; where nobody does, because Quorate does not run, one caller that stands for all.

    >>> calling().session == NOBODY
    True
    """
    try:
        return quorate.caller()
    except quorate.NotInCall:
        return quorate.Caller(NOBODY, 0, 0)


def labelled(owner: Any) -> Any:
    """Who calls within its session: the label that came with the call, or without Quorate this thread's.

    >>> labelled("mia"), labelled(None) == quorate.label()
    ('mia', True)
    """
    return quorate.label() if owner is None else owner


def patience(blocking: bool, timeout: float | None) -> float | None:
    """How many seconds a caller waits: 0 not at all, None for as long as it takes, as -1 of `threading`.

    Raises ValueError and OverflowError as `threading` does.

    >>> patience(True, None), patience(True, -1), patience(True, 2.5), patience(False, None)
    (None, None, 2.5, 0.0)
    """
    if timeout is None or timeout == -1:
        return None if blocking else 0.0
    if not blocking:
        raise ValueError("can't specify a timeout for a non-blocking call")
    if timeout < 0:
        raise ValueError("timeout value must be a non-negative number")
    if timeout > LONGEST:
        raise OverflowError("timeout value is too large")
    return None if timeout >= ENDLESS else float(timeout)
