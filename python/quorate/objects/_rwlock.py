"""A lock for one writer or many readers."""

from __future__ import annotations

from typing import Literal

import quorate
from quorate.objects._line import calling
from quorate.objects._rendezvous import Rendezvous


class RWLock(Rendezvous[Literal["read", "write"]]):
    """A lock that many readers or one writer hold.

    All are served in the order in which they came: a reader waits behind a writer that waits, so neither
    readers nor writers wait for ever. A session may hold it for reading several times. When a session ends,
    what it holds is free. Fencing tokens are those of `Lock`.

    >>> lock = RWLock()
    >>> lock.acquire_read(), lock.acquire_read(), lock.acquire_write(blocking=False)
    (1, 2, 0)
    >>> lock.release_read(), lock.release_read(), lock.acquire_write()
    (None, None, 3)
    """

    def __init__(self) -> None:
        super().__init__()
        self._is_written = False

    def acquire_read(self, blocking: bool = True, timeout: float | None = None) -> int:
        """Hold the lock with other readers; the fencing token, or 0 as of `Lock.acquire`."""
        return self._ask("read", blocking, timeout, 0)

    def acquire_write(self, blocking: bool = True, timeout: float | None = None) -> int:
        """Hold the lock alone; the fencing token, or 0 as of `Lock.acquire`."""
        return self._ask("write", blocking, timeout, 0)

    def release_read(self) -> None:
        """Read no more. Raises RuntimeError if this session does not hold the lock for reading."""
        session = calling().session
        if self._is_written or session not in self._held:
            raise RuntimeError("this session does not hold the lock for reading")
        self._recount(session, -1)
        self._serve()

    def release_write(self) -> None:
        """Write no more. Raises RuntimeError if this session does not hold the lock for writing."""
        session = calling().session
        if not self._is_written or session not in self._held:
            raise RuntimeError("this session does not hold the lock for writing")
        self._drop(session)
        self._serve()

    def readers(self) -> int:
        """How often the lock is held for reading."""
        return 0 if self._is_written else sum(each.count for each in self._held.values())

    def is_written(self) -> bool:
        """Whether a writer holds the lock."""
        return self._is_written

    def _holds_up(self, wanted: Literal["read", "write"]) -> bool:
        return wanted == "write"

    def _grant(self, caller: quorate.Caller, wanted: Literal["read", "write"]) -> int | None:
        if self._is_written or (wanted == "write" and self._held):
            return None
        self._is_written = wanted == "write"
        return self._hold(caller, what=wanted)

    def _drop(self, session: int) -> None:
        if self._held.pop(session, None) is not None:
            self._is_written = False
