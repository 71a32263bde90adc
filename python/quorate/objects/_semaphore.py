"""Semaphores."""

from __future__ import annotations

import quorate
from quorate.objects._line import calling
from quorate.objects._rendezvous import Rendezvous


class Semaphore(Rendezvous[None]):
    """A number of permits, with the methods of `threading.Semaphore`.

    Permits that a session has acquired belong to it: when it ends, they are free. As in `threading`, a
    release by who has none makes one permit more; `BoundedSemaphore` refuses it.

    >>> permits = Semaphore(2)
    >>> permits.acquire(), permits.acquire(), permits.acquire(blocking=False)
    (1, 2, 0)
    >>> permits.release(), permits.value()
    (None, 1)
    """

    def __init__(self, value: int = 1) -> None:
        """Raises ValueError for a number below 0."""
        super().__init__()
        if value < 0:
            raise ValueError("semaphore initial value must be >= 0")
        self._value = value

    def acquire(self, blocking: bool = True, timeout: float | None = None) -> int:
        """Take a permit; a fencing token, or 0 where none is free, or not within `timeout` seconds."""
        return self._ask(None, blocking, timeout, 0)

    def release(self, n: int = 1) -> None:
        """Give permits back, to who waits longest. Raises ValueError for less than one."""
        if n < 1:
            raise ValueError("n must be one or more")
        self._recount(calling().session, -n)
        self._value += n
        self._serve()

    def value(self) -> int:
        """How many permits are free."""
        return self._value

    def __enter__(self) -> int:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()

    def _grant(self, caller: quorate.Caller, wanted: None) -> int | None:
        if self._value == 0:
            return None
        self._value -= 1
        return self._hold(caller)

    def _drop(self, session: int) -> None:
        held = self._held.pop(session, None)
        if held is not None:
            self._value += held.count


class BoundedSemaphore(Semaphore):
    """A number of permits that never grows, with the methods of `threading.BoundedSemaphore`.

    >>> BoundedSemaphore().release()
    Traceback (most recent call last):
    ...
    ValueError: Semaphore released too many times
    """

    def release(self, n: int = 1) -> None:
        """Give permits back. Raises ValueError for less than one, or more than this session holds."""
        held = self._held.get(calling().session)
        if held is None or n > held.count:
            raise ValueError("Semaphore released too many times")
        super().release(n)
