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
        self._readers: dict[int, int] = {}
        self._writer: int | None = None

    def acquire_read(self, blocking: bool = True, timeout: float | None = None) -> int:
        """Hold the lock with other readers; the fencing token, or 0 as of `Lock.acquire`."""
        return self._ask("read", blocking, timeout, 0)

    def acquire_write(self, blocking: bool = True, timeout: float | None = None) -> int:
        """Hold the lock alone; the fencing token, or 0 as of `Lock.acquire`."""
        return self._ask("write", blocking, timeout, 0)

    def release_read(self) -> None:
        """Read no more. Raises RuntimeError if this session does not hold the lock for reading."""
        session = calling().session
        if session not in self._readers:
            raise RuntimeError("this session does not hold the lock for reading")
        self._readers[session] -= 1
        if self._readers[session] == 0:
            del self._readers[session]
        self._serve()

    def release_write(self) -> None:
        """Write no more. Raises RuntimeError if this session does not hold the lock for writing."""
        if self._writer is None or self._writer != calling().session:
            raise RuntimeError("this session does not hold the lock for writing")
        self._writer = None
        self._serve()

    def readers(self) -> int:
        """How often the lock is held for reading."""
        return sum(self._readers.values())

    def is_written(self) -> bool:
        """Whether a writer holds the lock."""
        return self._writer is not None

    def _holds_up(self, wanted: Literal["read", "write"]) -> bool:
        return wanted == "write"

    def _grant(self, caller: quorate.Caller, wanted: Literal["read", "write"]) -> int | None:
        if self._writer is not None or (wanted == "write" and self._readers):
            return None
        if wanted == "write":
            self._writer = caller.session
        else:
            self._readers[caller.session] = self._readers.get(caller.session, 0) + 1
        return self._token(caller)

    def _drop(self, session: int) -> None:
        self._readers.pop(session, None)
        if self._writer == session:
            self._writer = None
