"""A lock that its owner can acquire again."""

from __future__ import annotations

from typing import Any

import quorate
from quorate.objects._line import labelled
from quorate.objects._rendezvous import Rendezvous


class RLock(Rendezvous[Any]):
    """A lock with the methods of `threading.RLock`, which its owner can acquire several times.

    The owner is the thread that acquires it, or with asyncio the task: its proxy says which one calls. Who
    gives `owner` a value is known by that instead. A client that knows nothing of this class, and is not
    told apart so, is one owner with all its threads. When a session ends, what it holds goes to the next.
    Whoever acquires it first in a process that has resumed the session has what the one before held, once
    and with a larger token.

    >>> lock = RLock()
    >>> lock.acquire(), lock.acquire(), lock.acquire(blocking=False, owner="another thread")
    (1, 1, 0)
    >>> lock.release(), lock.release(), lock.locked()
    (None, None, False)
    """

    __quorate_label__ = "owner"

    def acquire(self, blocking: bool = True, timeout: float | None = None, *, owner: Any = None) -> int:
        """Take the lock; its fencing token, the same each time until it is free, or 0 as of `Lock`."""
        owner = labelled(owner)
        held = self._held_by(owner)
        if held is not None:
            self._recount(held.session, 1)
            return self._last_token
        return self._taken_over(label=owner) or self._ask(owner, blocking, timeout, 0)

    def release(self, *, owner: Any = None) -> None:
        """Undo one `acquire`; the last one gives the lock to who waits longest.

        Raises RuntimeError if this owner does not hold it.
        """
        held = self._held_by(labelled(owner))
        if held is None:
            raise RuntimeError("this owner does not hold the lock")
        self._recount(held.session, -1)
        if not self._held:
            self._serve()

    def locked(self) -> bool:
        """Whether somebody holds the lock."""
        return bool(self._held)

    def __enter__(self, *, owner: Any = None) -> int:
        return self.acquire(owner=owner)

    def __exit__(self, *_: object, owner: Any = None) -> None:
        self.release(owner=owner)

    def _grant(self, caller: quorate.Caller, wanted: Any) -> int | None:
        return None if self._held else self._hold(caller, label=wanted)

    def _drop(self, session: int) -> None:
        self._held.pop(session, None)
