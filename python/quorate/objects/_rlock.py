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
    `==`. When a session ends, what it holds goes to the next. An owner in a process that has resumed the
    session holds it once, with a larger token, when it acquires it again.

    >>> lock = RLock()
    >>> lock.acquire(owner="mia"), lock.acquire(owner="mia"), lock.acquire(blocking=False, owner="ben")
    (1, 1, 0)
    >>> lock.release(owner="mia"), lock.release(owner="mia"), lock.locked()
    (None, None, False)
    """

    def acquire(self, blocking: bool = True, timeout: float | None = None, *, owner: Any = None) -> int:
        """Take the lock; its fencing token, the same each time until it is free, or 0 as of `Lock`."""
        held = self._held_by(owner)
        if held is not None:
            if token := self._taken_over():
                return token
            self._recount(held.session, 1)
            return self._last_token
        return self._ask(owner, blocking, timeout, 0)

    def release(self, *, owner: Any = None) -> None:
        """Undo one `acquire`; the last one gives the lock to who waits longest.

        Raises RuntimeError if this owner does not hold it.
        """
        held = self._held_by(owner)
        if held is None:
            raise RuntimeError("this owner does not hold the lock")
        self._recount(held.session, -1)
        if not self._held:
            self._serve()

    def locked(self) -> bool:
        """Whether somebody holds the lock."""
        return bool(self._held)

    def __enter__(self) -> int:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()

    def _held_by(self, owner: Any) -> quorate.Holder | None:
        held = self._held.get(calling().session)
        return held if held is not None and held.label == owner else None

    def _grant(self, caller: quorate.Caller, wanted: Any) -> int | None:
        return None if self._held else self._hold(caller, label=wanted)

    def _drop(self, session: int) -> None:
        self._held.pop(session, None)
