"""Inside a method: who calls, and calls that return later.

A method that returns `park()` leaves its caller waiting; what it changed stays. A later call answers it by
`Caller.wake` or `Caller.fail`, on every replica alike. All of it is part of the object's state.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from quorate import _names, _native, _raised, _spans
from quorate._errors import CallerGone, NotInCall, ParkTimeout

TENANCY_SHIFT = 40
"""The upper part of a sequence is the number of its tenancy."""

RAISES: Any = object()
"""A call whose time is over raises."""


@dataclass(frozen=True, slots=True, eq=False)
class Caller:
    """Who makes a call. It can be kept in the object, and stays in its group: it does not travel.

    `session` and `sequence` name the call; `token` is the place of the call in the log and grows from
    call to call, so it serves as a fencing token.

    >>> one, other = Caller(7, 1, 65536), Caller(7, 2, 131072)
    >>> one == other, one == Caller(7, 1, 65536), one.token < other.token
    (False, True, True)
    """

    session: int
    sequence: int
    token: int

    @property
    def tenancy(self) -> int:
        """Counts the processes that have had the session, one after another, from 0: `connect(resume=)`."""
        return self.sequence >> TENANCY_SHIFT

    @property
    def is_waiting(self) -> bool:
        """Whether the call is parked and not answered. False once its client's session is over."""
        return _native.is_parked(self.session, self.sequence)

    def wake(self, value: object = None) -> None:
        """Answer the parked call with a value, which must be one that travels; it is copied at once.

        Raises `CallerGone` if the call is not parked: it was answered, or its client's session is over.
        """
        if not _native.answer_parked(self.session, self.sequence, False, value):
            raise self._gone()

    def fail(self, error: BaseException) -> None:
        """Answer the parked call with an exception, which its caller sees raised.

        Raises `CallerGone` if the call is not parked.
        """
        if not isinstance(error, BaseException):
            raise TypeError(f"fail takes an exception, not {type(error).__name__}: use wake for values")
        described = list(_raised.describe(error))
        if not _native.answer_parked(self.session, self.sequence, True, described):
            raise self._gone()

    def _gone(self) -> CallerGone:
        return CallerGone(
            f"call {self.sequence} of session {self.session} is not parked: it was answered, or its client's "
            "session is over; ask `is_waiting` first"
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Caller):
            return NotImplemented
        return (self.session, self.sequence) == (other.session, other.sequence)

    def __hash__(self) -> int:
        return hash((self.session, self.sequence))


def caller() -> Caller:
    """Who makes the call that is being executed.

    The object is told of the end of that session from now on, if it has a method `on_session_end`.

    >>> caller()
    Traceback (most recent call last):
    ...
    quorate.NotInCall: quorate.caller() is for methods that are called: nobody calls here
    """
    found = _native.current_call()
    if found is None:
        raise _not_in_call("caller")
    return Caller(*found)


def park(
    timeout: float | None = None, default: object = RAISES, *, error: BaseException | None = None
) -> Any:
    """Let the caller wait: `return quorate.park()`. A later call answers it by `Caller.wake` or `fail`.

    What the method changed stays. With a `timeout` in seconds of agreed time the caller waits for that long
    at most, and is answered `default` then, or gets `error` raised, or `ParkTimeout` where none is given;
    `Caller.is_waiting` is false from there on. At most 10,000 calls of a group wait; one more is
    `Overloaded`.

    >>> park()
    Traceback (most recent call last):
    ...
    quorate.NotInCall: quorate.park() is for methods that are called: nobody calls here
    """
    wait_ns = None if timeout is None else _spans.nanoseconds("timeout", timeout)
    parked = _native.park(wait_ns, *when_over(timeout, default, error))
    if parked is None:
        raise _not_in_call("park")
    return parked


def when_over(timeout: float | None, default: object, error: BaseException | None) -> tuple[bool, object]:
    """Whether a call raises when its time is over, and what it is answered then."""
    if error is not None and not isinstance(error, BaseException):
        raise TypeError(f"error is an exception, not {type(error).__name__}: use default for values")
    if error is not None and default is not RAISES:
        raise TypeError("default and error exclude each other: a call has one answer")
    if timeout is None:
        return False, None
    if default is not RAISES:
        return False, default
    return True, list(_raised.describe(error or ParkTimeout(f"nobody answered within {timeout:g} s")))


def _not_in_call(name: str) -> NotInCall:
    return NotInCall(f"quorate.{name}() is for methods that are called: nobody calls here")


# Its package is not one whose classes are kept.
_names.keep(Caller)
