"""A limit on how long code runs in a thread of this process, where no signal may be used for it.

Ends loops in Python, not those in C.
"""

from __future__ import annotations

import ctypes
import threading
import types

TICK_SECONDS = 0.1
"""So exact is the limit. No clock is read: within calls it tells the agreed time."""


TICKS_BETWEEN = 10
"""Before it is raised again: code that gives things back on its way out must not be hit once more."""


class TimeIsUp(BaseException):
    """Raised in the thread whose time is up, and again until it leaves the limit."""


class Limit:
    """Limits what its thread does inside.

    >>> with Limit(5) as limit:
    ...     limit.begin(is_limited=True)
    """

    def __init__(self, seconds: float) -> None:
        self._ticks_max = int(seconds / TICK_SECONDS)
        self._ticks, self._is_limited = 0, False
        self._lock, self._over = threading.Lock(), threading.Event()
        self._ident = threading.get_ident()

    def begin(self, *, is_limited: bool) -> None:
        """What runs next has its own time, or is not limited."""
        self._ticks, self._is_limited = 0, is_limited

    def __enter__(self) -> Limit:
        threading.Thread(target=self._watch, name="quorate-limit", daemon=True).start()
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: types.TracebackType | None,
    ) -> None:
        while True:
            try:
                with self._lock:
                    self._over.set()
                    # One that is on its way would come up behind the limit.
                    _raise_in(self._ident, None)
            except TimeIsUp:
                continue
            else:
                return

    def _watch(self) -> None:
        while not self._over.wait(TICK_SECONDS):
            with self._lock:
                self._ticks += 1
                is_up = self._is_limited and self._ticks > self._ticks_max
                if is_up and not self._over.is_set():
                    _raise_in(self._ident, TimeIsUp)
                    self._ticks -= TICKS_BETWEEN


def _raise_in(ident: int, error: type[BaseException] | None) -> None:
    """Has the interpreter raise an exception in a thread soon, or none after all."""
    told = ctypes.py_object(error) if error is not None else None
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(ident), told)
