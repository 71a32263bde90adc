"""A membership service."""

from __future__ import annotations

import time
from typing import Generic, TypeVar

from quorate import Holder
from quorate.objects._line import Line, calling, patience

T = TypeVar("T")


class Membership(Generic[T]):
    """Who is there: members by name, each with what is known of it, until it leaves or its session ends.

    >>> members = Membership[str]()
    >>> members.join("host-1", "10.0.0.1"), members.join("host-2", "10.0.0.2"), members.leave("host-1")
    (1, 2, 3)
    >>> members.members(), members.wait_for_change(2)
    ({'host-2': '10.0.0.2'}, 3)
    """

    def __init__(self) -> None:
        self._held: dict[str, Holder] = {}
        self._known: dict[str, T] = {}
        self._version = 0
        self._watchers: Line[None] = Line()

    def join(self, name: str, known: T) -> int:
        """Add a member, or say something else of it; the version of the members then.

        Raises ValueError if a member of that name belongs to another session.
        """
        session = calling().session
        held = self._held.setdefault(name, Holder(session, time.time(), what=name))
        if held.session != session:
            raise ValueError(f"there is a member {name}")
        self._known[name] = known
        return self._changed()

    def leave(self, name: str) -> int:
        """Remove a member, whoever asks; the version then. Raises KeyError if there is none of that name."""
        del self._held[name], self._known[name]
        return self._changed()

    def members(self) -> dict[str, T]:
        """What is known of each member, the oldest first."""
        return dict(self._known)

    def version(self) -> int:
        """A number that grows with each change."""
        return self._version

    def wait_for_change(self, version: int, timeout: float | None = None) -> int:
        """Wait until the version is another one, and return it; the same one after `timeout` seconds."""
        seconds = patience(True, timeout)
        if version != self._version or seconds == 0:
            return self._version
        parked: int = self._watchers.wait(None, seconds, version)
        return parked

    def on_session_end(self, session: int) -> None:
        """Members of the session are gone."""
        gone = [name for name, held in self._held.items() if held.session == session]
        for name in gone:
            del self._held[name], self._known[name]
        if gone:
            self._changed()

    def __quorate_holders__(self) -> list[Holder]:
        return list(self._held.values())

    def _changed(self) -> int:
        self._version += 1
        self._watchers.wake_all(self._version)
        return self._version
