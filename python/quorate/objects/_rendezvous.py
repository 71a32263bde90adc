"""What belongs to sessions, and who waits for it: the base of locks, permits, terms and jobs."""

from __future__ import annotations

import dataclasses
import time
from typing import Any, Generic, TypeVar

import quorate
from quorate.objects._line import Line, calling, patience

W = TypeVar("W")
R = TypeVar("R")


class Rendezvous(Generic[W]):
    """Gives what is there to callers in the order in which they came, and takes it back when they are gone.

    A subclass says what is given by `_grant`, and what a session leaves by `_drop`; after a change that frees
    something it calls `_serve`.
    """

    def __init__(self) -> None:
        self._line: Line[W] = Line()
        self._last_token = 0
        self._held: dict[Any, quorate.Holder] = {}

    def on_session_end(self, session: int) -> None:
        """What the session had goes to who waits for it."""
        self._drop(session)
        self._serve()

    def _ask(self, wanted: W, blocking: bool, timeout: float | None, refused: R) -> R:
        """What is granted now or later; `refused` if the caller does not wait, or not long enough."""
        seconds = patience(blocking, timeout)
        self._serve()
        if self._is_next(wanted):
            granted: R | None = self._grant(calling(), wanted)
            if granted is not None:
                return granted
        if seconds == 0:
            return refused
        parked: R = quorate.park(seconds, refused)
        self._line.add(calling(), wanted, self._timer(wanted, seconds))
        return parked

    def _serve(self) -> None:
        """Answer those in front who can have what they want. Nobody overtakes."""
        while (first := self._line.first()) is not None:
            granted = self._grant(*first)
            if granted is None:
                return
            self._line.wake_first(granted)

    def _timer(self, wanted: W, seconds: float | None) -> quorate.Timer | None:
        """Serves those behind a caller once its time is over."""
        if seconds is None or not self._holds_up(wanted):
            return None
        try:
            return quorate.after(seconds, self._serve)
        except TypeError:
            # A part of the object that is served has no timers: there those behind wait for the next change.
            return None

    def _holds_up(self, wanted: W) -> bool:
        """Whether others may be served when a caller that wants this does not wait any more."""
        return False

    def _is_next(self, wanted: W) -> bool:
        """Whether nobody waits who is to be served before a caller that wants this."""
        return self._line.first() is None

    def _grant(self, caller: quorate.Caller, wanted: W) -> Any:
        """Give the caller what it wants and return its answer, or change nothing and return None."""
        raise NotImplementedError

    def _drop(self, session: int) -> None:
        """Free what a session has."""
        raise NotImplementedError

    def __quorate_holders__(self) -> list[quorate.Holder]:
        return list(self._held.values())

    def _hold(self, caller: quorate.Caller, **told: Any) -> int:
        """The session of the caller holds something from now on, or once more; its token."""
        token, before = self._token(caller), self._held.get(caller.session)
        if before is None:
            self._held[caller.session] = self._holder(caller, **told)
        else:
            self._held[caller.session] = dataclasses.replace(before, count=before.count + 1, token=token)
        return token

    def _taken_over(self, **told: Any) -> int:
        """Keep what the session held before this process resumed it; the new token, or 0 for nothing."""
        caller = calling()
        before = self._held.get(caller.session)
        if before is None or before.tenancy >= caller.tenancy:
            return 0
        token = self._token(caller)
        self._held[caller.session] = dataclasses.replace(
            before, count=1, token=token, tenancy=caller.tenancy, **told
        )
        return token

    def _held_by(self, label: Any) -> quorate.Holder | None:
        """What this process holds of its session for that label."""
        caller = calling()
        held = self._held.get(caller.session)
        is_theirs = held is not None and (held.label, held.tenancy) == (label, caller.tenancy)
        return held if is_theirs else None

    def _recount(self, session: int, by: int) -> None:
        """What a session holds it holds so many times more; not at all where none are left."""
        before = self._held.get(session)
        if before is not None and before.count + by > 0:
            self._held[session] = dataclasses.replace(before, count=before.count + by)
        else:
            self._held.pop(session, None)

    def _holder(self, caller: quorate.Caller, **told: Any) -> quorate.Holder:
        """The caller as one who holds something from now on, with the newest token."""
        return quorate.Holder(
            caller.session, time.time(), token=self._last_token, tenancy=caller.tenancy, **told
        )

    def _token(self, caller: quorate.Caller) -> int:
        """A fencing token, larger than all before: that of the call, as calls are served in their order."""
        self._last_token = max(self._last_token + 1, caller.token)
        return self._last_token
