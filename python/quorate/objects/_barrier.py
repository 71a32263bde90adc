"""A barrier."""

from __future__ import annotations

import threading
import time

import quorate
from quorate import Holder
from quorate.objects._line import Line, patience


class BrokenBarrierError(threading.BrokenBarrierError):
    """A barrier was reset while callers waited at it, or is broken, by `abort` or by the timeout of a caller.

    >>> barrier = Barrier(2)
    >>> barrier.abort()
    >>> barrier.wait()
    Traceback (most recent call last):
    ...
    quorate.objects._barrier.BrokenBarrierError: the barrier is broken
    """


class Barrier:
    """Lets callers go on when `parties` of them wait, again and again, as `threading.Barrier` does.

    A caller whose timeout is over breaks the barrier for all. One that is gone, because its session is over,
    does not: it leaves its seat to another one.

    >>> barrier = Barrier(1)
    >>> barrier.wait(), barrier.wait()
    (0, 0)
    """

    def __init__(self, parties: int, *, timeout: float | None = None) -> None:
        """Raises ValueError for less than one. The timeout is for those that give none when they wait."""
        if parties < 1:
            raise ValueError("parties must be > 0")
        self.parties = parties
        self.broken = False
        """Whether the barrier was broken by `abort` or a timeout; `reset` mends it."""
        self._timeout = timeout
        self._line: Line[float] = Line()

    def wait(self, timeout: float | None = None) -> int:
        """Wait until all are here; the number of one's seat, from 0 on.

        Raises BrokenBarrierError, also after `timeout` seconds, which break the barrier. With a timeout the
        barrier must be the object that is served, not a part of one: else TypeError.
        """
        seconds = patience(True, self._timeout if timeout is None else timeout)
        if self.broken:
            raise BrokenBarrierError("the barrier is broken")
        if self._line.size() + 1 < self.parties:
            if seconds == 0:
                self._break()
                raise BrokenBarrierError("not all are here")
            taken: int = self._line.wait_and_tell(time.time(), seconds, self._wait_is_over)
            return taken
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
        self._break()

    def __quorate_holders__(self) -> list[Holder]:
        return [Holder(seat.session, since, what="seat") for seat, since in self._line.waiting()]

    def _wait_is_over(self, *name: int) -> None:
        if quorate.Caller(*name).is_waiting:
            self._break()

    def _break(self) -> None:
        self.broken = True
        self._line.fail_all(BrokenBarrierError("the barrier is broken"))
