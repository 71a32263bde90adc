"""A barrier."""

from __future__ import annotations

import threading

from quorate.objects._line import Line, patience


class BrokenBarrierError(threading.BrokenBarrierError):
    """A barrier was reset while callers waited at it, or is broken.

    >>> barrier = Barrier(2)
    >>> barrier.abort()
    >>> barrier.wait()
    Traceback (most recent call last):
    ...
    quorate.objects._barrier.BrokenBarrierError: the barrier is broken
    """


class Barrier:
    """Lets callers go on when `parties` of them wait, again and again, as `threading.Barrier` does.

    A caller that is gone, because its session is over or its timeout, leaves its seat to another one: it does
    not break the barrier.

    >>> barrier = Barrier(1)
    >>> barrier.wait(), barrier.wait()
    (0, 0)
    """

    def __init__(self, parties: int) -> None:
        """Raises ValueError for less than one."""
        if parties < 1:
            raise ValueError("parties must be > 0")
        self.parties = parties
        self.broken = False
        """Whether the barrier was broken by `abort`; `reset` mends it."""
        self._line: Line[None] = Line()

    def wait(self, timeout: float | None = None) -> int:
        """Wait until all are here; the number of one's seat, from 0 on.

        Raises BrokenBarrierError, and `quorate.ParkTimeout` after `timeout` seconds.
        """
        if self.broken:
            raise BrokenBarrierError("the barrier is broken")
        if self._line.size() + 1 < self.parties:
            parked: int = self._line.wait(None, patience(True, timeout))
            return parked
        seat = 0
        while self._line.wake_first(seat):
            seat += 1
        return seat

    @property
    def n_waiting(self) -> int:
        """How many wait."""
        return self._line.size()

    def reset(self) -> None:
        """Begin anew; callers that wait get BrokenBarrierError."""
        self.broken = False
        self._line.fail_all(BrokenBarrierError("the barrier was reset"))

    def abort(self) -> None:
        """Break the barrier: who waits or comes gets BrokenBarrierError, until `reset`."""
        self.broken = True
        self._line.fail_all(BrokenBarrierError("the barrier is broken"))
