"""A lock that its owner can acquire again."""

from __future__ import annotations

from typing import Any

import quorate
from quorate.objects._line import calling
from quorate.objects._rendezvous import Rendezvous


class RLock(Rendezvous[Any]):
    """A lock with the methods of `threading.RLock`, which its owner can acquire several times.

    The owner is the session together with `owner`, a label: a lock cannot know the threads of its clients.
    Threads of one connection that are to exclude each other say who they are by it. Labels are compared by
    `==`. When a session ends, what it holds goes to the next.

    >>> lock = RLock()
    >>> lock.acquire(owner="mia"), lock.acquire(owner="mia"), lock.acquire(blocking=False, owner="ben")
    (1, 1, 0)
    >>> lock.release(owner="mia"), lock.release(owner="mia"), lock.locked()
    (None, None, False)
    """

    def __init__(self) -> None:
        super().__init__()
        self._holder: tuple[int, Any] | None = None
        self._count = 0

    def acquire(self, blocking: bool = True, timeout: float | None = None, *, owner: Any = None) -> int:
        """Take the lock; its fencing token, the same each time until it is free, or 0 as of `Lock`."""
        if self._is_held_by(owner):
            self._count += 1
            return self._last_token
        return self._ask(owner, blocking, timeout, 0)

    def release(self, *, owner: Any = None) -> None:
        """Undo one `acquire`; the last one gives the lock to who waits longest.

        Raises RuntimeError if this owner does not hold it.
        """
        if not self._is_held_by(owner):
            raise RuntimeError("this owner does not hold the lock")
        self._count -= 1
        if self._count == 0:
            self._holder = None
            self._serve()

    def locked(self) -> bool:
        """Whether somebody holds the lock."""
        return self._holder is not None

    def __enter__(self) -> int:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()

    def _is_held_by(self, owner: Any) -> bool:
        return self._holder is not None and self._holder == (calling().session, owner)

    def _grant(self, caller: quorate.Caller, wanted: Any) -> int | None:
        if self._holder is not None:
            return None
        self._holder, self._count = (caller.session, wanted), 1
        return self._token(caller)

    def _drop(self, session: int) -> None:
        if self._holder is not None and self._holder[0] == session:
            self._holder, self._count = None, 0
