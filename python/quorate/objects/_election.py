"""An election."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import quorate
from quorate.objects._line import Line, calling, patience
from quorate.objects._rendezvous import Rendezvous

C = TypeVar("C")


class Election(Rendezvous[C], Generic[C]):
    """One leader at a time: the candidate that came first, until it resigns or its session ends.

    A candidate is any value that says how to reach it, such as an address. The term of a leader is its
    fencing token: it grows from leader to leader.

    >>> election = Election[str]()
    >>> election.campaign("host-1"), election.leader(), election.resign(), election.leader()
    (1, 'host-1', None, None)
    """

    def __init__(self) -> None:
        super().__init__()
        self._told_term = 0
        self._watchers: Line[None] = Line()

    def campaign(self, candidate: C, blocking: bool = True, timeout: float | None = None) -> int:
        """Wait until the candidate leads; its term, or 0 where another one leads, or does for too long.

        A session that leads gets its term again; in a process that has resumed it, a larger term.
        """
        if term := self._taken_over(label=candidate):
            self._tell()
            return term
        if calling().session in self._held:
            return self._last_token
        return self._ask(candidate, blocking, timeout, 0)

    def resign(self) -> None:
        """Lead no more: the next candidate does. Raises RuntimeError if this session does not lead."""
        session = calling().session
        if session not in self._held:
            raise RuntimeError("this session does not lead")
        self._drop(session)
        self._serve()
        self._tell()

    def leader(self) -> C | None:
        """The candidate that leads; None if there is none."""
        return next((each.label for each in self._held.values()), None)

    def term(self) -> int:
        """The term of the leader; 0 if nobody leads."""
        return self._last_token if self._held else 0

    def watch(self, term: int, timeout: float | None = None) -> int:
        """Wait while the term is this one, which `term` gave; the term then, the same after the timeout."""
        seconds = patience(True, timeout)
        if term != self.term() or seconds == 0:
            return self.term()
        parked: int = self._watchers.wait(None, seconds, term)
        return parked

    def on_session_end(self, session: int) -> None:
        """The next candidate leads, if there is one."""
        super().on_session_end(session)
        self._tell()

    def _grant(self, caller: quorate.Caller, wanted: C) -> Any:
        if self._held:
            return None
        term = self._hold(caller, what="leadership", label=wanted)
        self._tell()
        return term

    def _drop(self, session: int) -> None:
        self._held.pop(session, None)

    def _tell(self) -> None:
        if self._told_term != self.term():
            self._told_term = self.term()
            self._watchers.wake_all(self._told_term)
