"""A limit on how long code runs in a thread of this process, where no signal may be used for it.

Ends loops in Python, not those in C.
"""

from __future__ import annotations

import ctypes
import os
import threading
import types

TICK_SECONDS = 0.1
"""So exact is the limit. No clock is read: within calls it tells the agreed time."""


TICKS_BETWEEN = 10
"""Before it is raised again: code that gives things back on its way out must not be hit once more."""


TICKS_IDLE_MAX = 20
"""Without a limit the thread ends then."""


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
        self._ident = threading.get_ident()

    def begin(self, *, is_limited: bool) -> None:
        """What runs next has its own time, or is not limited."""
        self._ticks, self._is_limited = 0, is_limited

    def tick(self) -> None:
        """Some time has passed."""
        self._ticks += 1
        if self._is_limited and self._ticks > self._ticks_max:
            _raise_in(self._ident, TimeIsUp)
            self._ticks -= TICKS_BETWEEN

    def __enter__(self) -> Limit:
        _clock.add(self)
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: types.TracebackType | None,
    ) -> None:
        while True:
            try:
                _clock.remove(self)
                # One that is on its way would come up behind the limit.
                _raise_in(self._ident, None)
            except TimeIsUp:
                continue
            else:
                return


class _Clock:
    """One thread for all limits, while there are any and a little longer."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._limits: set[Limit] = set()
        self._is_running = False

    def add(self, limit: Limit) -> None:
        with self._lock:
            self._limits.add(limit)
            if not self._is_running:
                threading.Thread(target=self._run, name="quorate-limits", daemon=True).start()
                self._is_running = True

    def remove(self, limit: Limit) -> None:
        with self._lock:
            self._limits.discard(limit)

    def _run(self) -> None:
        idle = 0
        while True:
            # Nobody sets it: what waits for it waits for time alone.
            threading.Event().wait(TICK_SECONDS)
            with self._lock:
                for limit in self._limits:
                    limit.tick()
                idle = 0 if self._limits else idle + 1
                if idle > TICKS_IDLE_MAX:
                    self._is_running = False
                    return


def _raise_in(ident: int, error: type[BaseException] | None) -> None:
    """Has the interpreter raise an exception in a thread soon, or none after all."""
    told = ctypes.py_object(error) if error is not None else None
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(ident), told)


_clock = _Clock()
os.register_at_fork(after_in_child=_clock.__init__)  # type: ignore[misc]
