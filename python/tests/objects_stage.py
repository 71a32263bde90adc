"""A stage on which an object is called by many sessions, whose calls wait, without a group.

It stands for the host: it says who calls, keeps the calls that wait, ends sessions and timeouts, and runs
timers. Every call that waits is answered at most once, or the stage says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from objects_twins import restored

import quorate
from quorate import _native

PARKED = object()
NOTHING = object()


class ParkTimeout(TimeoutError):
    """Stands for the exception of a call whose timeout is over."""


@dataclass(eq=False)
class Call:
    """A call, and how it ended."""

    session: int
    sequence: int
    what: Any = None
    is_waiting: bool = False
    answer: Any = NOTHING
    error: Any = None
    timeout: float | None = None
    default: Any = NOTHING
    failure: BaseException | None = None
    timers: list[int] = field(default_factory=list)

    @property
    def is_over(self) -> bool:
        """Whether its caller has heard something."""
        return self.answer is not NOTHING or self.error is not None


class Stage:
    """One object and all calls that were made."""

    def __init__(self, thing: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.thing = thing
        self.calls: list[Call] = []
        self._now: Call | None = None
        self._asks = False
        self.timers: dict[int, tuple[str, tuple[Any, ...]]] = {}
        self._timers_set = 0
        monkeypatch.setattr(_native, "current_call", self._current)
        monkeypatch.setattr(_native, "is_parked", lambda *who: self._waiting(*who) is not None)
        monkeypatch.setattr(_native, "answer_parked", self._answered)
        monkeypatch.setattr(_native, "cancel_timer", lambda number: self.timers.pop(number, None) is not None)
        monkeypatch.setattr(quorate, "park", self._park)
        monkeypatch.setattr(quorate, "after", self._after)

    def call(self, session: int, act: Callable[[Any], Any], what: Any = None) -> Call:
        """A call of a session; it waits if the object says so."""
        call = self._now = Call(session, len(self.calls) + 1, what)
        self.calls.append(call)
        self._asks = False
        try:
            result = act(self.thing)
        except Exception as error:
            call.error = error
        else:
            assert (result is PARKED) == self._asks, "a park was lost"
            if self._asks:
                call.is_waiting = True
            else:
                call.answer = result
        self._now = None
        return call

    def end(self, session: int) -> None:
        """A session is over: nobody of it waits, and the object hears of it."""
        for call in self.waiting():
            if call.session == session:
                call.is_waiting, call.error = False, EOFError()
        if hasattr(self.thing, "on_session_end"):
            self.thing.on_session_end(session)

    def expire(self, call: Call) -> None:
        """The timeout of a waiting call is over: it is answered, then its timer runs."""
        if not call.timers or call.default is not NOTHING:
            call.is_waiting = False
            if call.default is NOTHING:
                call.error = call.failure or ParkTimeout()
            else:
                call.answer = call.default
        for number in call.timers:
            self._run(number)

    def waiting(self) -> list[Call]:
        """All calls that wait, in the order in which they were made."""
        return [call for call in self.calls if call.is_waiting]

    def restart(self) -> None:
        """The object is restored from its image, as on a replica that starts again."""
        self.thing = restored(self.thing)

    def over(self) -> Iterator[Call]:
        """All calls that were answered."""
        return (call for call in self.calls if call.answer is not NOTHING)

    def _current(self) -> tuple[int, int, int] | None:
        now = self._now
        return None if now is None else (now.session, now.sequence, now.sequence * 10)

    def _park(
        self, timeout: float | None = None, default: Any = NOTHING, *, error: BaseException | None = None
    ) -> Any:
        if self._now is None:
            raise quorate.NotInCall("nobody calls")
        self._asks = True
        self._now.timeout, self._now.default, self._now.failure = timeout, default, error
        return PARKED

    def _after(self, seconds: float, method: Any, *args: Any) -> quorate.Timer:
        assert self._now is not None
        if method.__self__ is not self.thing:
            raise TypeError("quorate.after() takes a method of the object that is served")
        self._timers_set += 1
        self.timers[self._timers_set] = method.__name__, args
        self._now.timers.append(self._timers_set)
        self._now.timeout = seconds
        return quorate.Timer(self._timers_set)

    def _run(self, number: int) -> None:
        if number in self.timers:
            name, args = self.timers.pop(number)
            getattr(self.thing, name)(*args)

    def _waiting(self, session: int, sequence: int) -> Call | None:
        call = self.calls[sequence - 1] if sequence else None
        return call if call is not None and call.is_waiting and call.session == session else None

    def _answered(self, session: int, sequence: int, is_error: bool, value: Any) -> bool:
        call = self._waiting(session, sequence)
        if call is None:
            return False
        assert not call.is_over, "a call was answered twice"
        call.is_waiting = False
        if is_error:
            call.error = value
        else:
            call.answer = value
        return True
