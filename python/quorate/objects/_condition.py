"""A condition variable."""

from __future__ import annotations

from quorate.objects._line import Line, calling, park, patience
from quorate.objects._lock import Lock


class Condition(Lock):
    """A lock whose holders can wait to be notified, with the methods of `threading.Condition`.

    `wait` gives the lock back and returns when it has been notified and holds it again, with a new fencing
    token. A wait that ends by its timeout returns 0, and does not hold the lock. There is no `wait_for`:
    the condition is known to the caller alone, who asks it again after each `wait`.

    >>> condition = Condition()
    >>> with condition:
    ...     condition.notify()
    0
    """

    def __init__(self) -> None:
        super().__init__()
        self._waiting: Line[None] = Line()
        self._notified: Line[None] = Line()

    def wait(self, timeout: float | None = None) -> int:
        """Wait without the lock until notified; the token with which it is held again, 0 after the timeout.

        Raises RuntimeError if this session does not hold the lock.
        """
        self._check_held()
        parked: int = park(patience(True, timeout), 0)
        self._holder = None
        self._serve()
        # Last, for this call does not wait before it has returned.
        self._waiting.add(calling(), None)
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

    def _move(self, count: int) -> int:
        moved = 0
        while moved < count and (first := self._waiting.pop()) is not None:
            self._notified.add(*first)
            moved += 1
        return moved

    def _serve(self) -> None:
        # A notification of one that is gone before it had the lock is the next one's.
        self._move(self._notified.clear_gone())
        if (first := self._notified.first()) is not None:
            token = self._grant(*first)
            if token is not None:
                self._notified.wake_first(token)
        super()._serve()
