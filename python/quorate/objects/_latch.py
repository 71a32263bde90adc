"""A latch."""

from __future__ import annotations

from quorate.objects._line import Line, patience


class Latch:
    """Opens when it has been counted down to 0, and stays open.

    >>> latch = Latch(2)
    >>> latch.count_down(), latch.wait(timeout=0), latch.count_down(), latch.wait()
    (1, False, 0, True)
    """

    def __init__(self, count: int) -> None:
        """Raises ValueError for a count below 0."""
        if count < 0:
            raise ValueError("a latch counts down from 0 or more")
        self._count = count
        self._line: Line[None] = Line()

    def count_down(self, n: int = 1) -> int:
        """Count `n` down, to 0 at the least; what is left. Raises ValueError for less than one."""
        if n < 1:
            raise ValueError("n must be one or more")
        self._count = max(self._count - n, 0)
        if self._count == 0:
            self._line.wake_all(True)
        return self._count

    def count(self) -> int:
        """What is left to count down."""
        return self._count

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the latch is open; False where it is not within `timeout` seconds."""
        seconds = patience(True, timeout)
        if self._count == 0 or seconds == 0:
            return self._count == 0
        parked: bool = self._line.wait(None, seconds, False)
        return parked
