"""A lock."""

from __future__ import annotations

import quorate
from quorate.objects._line import calling
from quorate.objects._rendezvous import Rendezvous


class Lock(Rendezvous[None]):
    """A lock with the methods of `threading.Lock`; it belongs to the session that acquired it.

    `with lock as token:` gives a fencing token, which only grows: send it to what the lock protects, which
    refuses smaller ones than it has seen. When a session ends, the lock that it holds goes to the next. A
    process that has resumed the session acquires what the one before held at once, with a larger token.

    >>> lock = Lock()
    >>> lock.acquire(blocking=False), lock.locked(), lock.acquire(blocking=False)
    (1, True, 0)
    >>> lock.release()
    """

    def acquire(self, blocking: bool = True, timeout: float | None = None) -> int:
        """Take the lock; its fencing token, or 0 where it is not free, or not within `timeout` seconds.

        None or -1 seconds are as long as it takes.
        """
        return self._taken_over() or self._ask(None, blocking, timeout, 0)

    def release(self) -> None:
        """Give the lock to who waits longest. Raises RuntimeError if this session does not hold it."""
        self._check_held()
        self._held.clear()
        self._serve()

    def locked(self) -> bool:
        """Whether somebody holds the lock."""
        return bool(self._held)

    def token(self) -> int:
        """The fencing token with which the lock is held; 0 if nobody holds it."""
        return self._last_token if self._held else 0

    def __enter__(self) -> int:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()

    def _check_held(self) -> None:
        if calling().session not in self._held:
            raise RuntimeError("this session does not hold the lock")

    def _grant(self, caller: quorate.Caller, wanted: None) -> int | None:
        return None if self._held else self._hold(caller)

    def _drop(self, session: int) -> None:
        self._held.pop(session, None)
