"""A condition variable."""

from __future__ import annotations

import quorate
from quorate.objects._line import Line, calling, named, patience
from quorate.objects._lock import Lock


class Condition(Lock):
    """A lock whose holders can wait to be notified, with the methods of `threading.Condition`.

    `wait` gives the lock back and returns when it has been notified and holds it again, with a new fencing
    token. After its timeout it holds the lock again too, as in `threading`, and returns 0: `token` tells the
    new token then. There is no `wait_for`: what is waited for is known to the caller alone, who looks again
    after each `wait`.

    >>> condition = Condition()
    >>> with condition:
    ...     condition.notify()
    0
    """

    def __init__(self) -> None:
        super().__init__()
        self._waiting: Line[None] = Line()
        self._notified: Line[bool] = Line()

    def wait(self, timeout: float | None = None) -> int:
        """Wait without the lock until notified; the token with which it is held again, 0 after the timeout.

        Raises RuntimeError if this session does not hold the lock, and TypeError for a timeout where the
        condition is a part of another object: timers call the object that is served.
        """
        self._check_held()
        seconds, caller = patience(True, timeout), calling()
        parked: int = quorate.park()
        timer = None if seconds is None else quorate.after(seconds, self._wait_is_over, *named(caller))
        self._held.clear()
        self._serve()
        # Last, for this call does not wait before it has returned.
        self._waiting.add(caller, None, timer)
        return parked

    def notify(self, n: int = 1) -> int:
        """Let those go on that wait longest, at most `n`, one by one; how many these are.

        Raises RuntimeError if this session does not hold the lock.
        """
        self._check_held()
        return self._move(n)

    def notify_all(self) -> int:
        """Let all go on, one by one; how many these are. Raises RuntimeError as `notify` does."""
        return self.notify(self._waiting.size())

    def _wait_is_over(self, *name: int) -> None:
        caller = quorate.Caller(*name)
        if caller.is_waiting:
            self._waiting.remove(caller)
            self._notified.add(caller, False)
            self._serve()

    def _move(self, count: int) -> int:
        moved = 0
        while moved < count and (first := self._waiting.pop()) is not None:
            self._notified.add(first[0], True)
            moved += 1
        return moved

    def _serve(self) -> None:
        # A notification of one that is gone before it had the lock is the next one's.
        self._move(sum(self._notified.clear_gone()))
        if (first := self._notified.first()) is not None:
            caller, is_notified = first
            token = self._grant(caller, None)
            if token is not None:
                self._notified.wake_first(token if is_notified else 0)
        super()._serve()
