"""Inside a method: calls that an object makes of itself when agreed time has come so far.

Timers are part of the object's state: they survive kills, restarts, new leaders and snapshots.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from quorate import _names, _native, _spans
from quorate._errors import NotInCall

EVERY_MIN = 0.01
"""Seconds between two runs of a timer at least: each is a command."""


@dataclass(frozen=True, slots=True)
class Timer:
    """A call to come. It can be kept in the object, and stays in its group: it does not travel.

    ::

        def renew(self):
            self.timer.cancel()
            self.timer = quorate.after(30, self.expire)
    """

    number: int

    @property
    def is_set(self) -> bool:
        """Whether it is still to come."""
        found = _native.is_timer_set(self.number)
        if found is None:
            raise _nothing_runs("Timer.is_set")
        return found

    def cancel(self) -> bool:
        """Take it back. Says whether it was still to come."""
        found = _native.cancel_timer(self.number)
        if found is None:
            raise _nothing_runs("Timer.cancel")
        return found


def after(seconds: float, method: Callable[..., object] | str, /, *args: object, **kwargs: object) -> Timer:
    """Have a method of this object called once, when so many seconds of agreed time have passed.

    `method` is a method of the object, or its name. Nobody calls it then: what it returns is dropped, and
    what it raises goes to the log. Its arguments must travel, and take at most 64 KiB. An object has 10,000
    timers at most; one more is `Overloaded`.

    >>> after(1, "expire")
    Traceback (most recent call last):
    ...
    quorate.NotInCall: quorate.after() is for methods of a served object: no such method runs here
    """
    first_ns = _spans.nanoseconds("seconds", seconds)
    return _set("after", (first_ns, 0), _native.dump_call(name_of("after", method), args, kwargs))


def every(seconds: float, method: Callable[..., object] | str, /, *args: object, **kwargs: object) -> Timer:
    """Have a method of this object called every so many seconds of agreed time, until it is cancelled.

    What was missed because no majority ran is made up for once. Otherwise like `after`.

    ::

        def begin(self):
            self.timer = quorate.every(60, self.forget_old)
    """
    span = _spans.nanoseconds("seconds", seconds)
    if seconds < EVERY_MIN:
        raise ValueError(f"every {seconds} s is too often: at least {EVERY_MIN} s lie between two runs")
    return _set("every", (span, span), _native.dump_call(name_of("every", method), args, kwargs))


def _set(asked: str, spans_ns: tuple[int, int], call: bytes) -> Timer:
    number = _native.set_timer(call, *spans_ns)
    if number is None:
        raise _nothing_runs(asked)
    return Timer(number)


def name_of(asked: str, method: Callable[..., object] | str) -> str:
    """The name of a method of the object that runs."""
    running = _native.running_object()
    if running is None:
        raise _nothing_runs(asked)
    if isinstance(method, str):
        if not hasattr(running, method):
            raise AttributeError(f"quorate.{asked}(): {type(running).__name__} has no method `{method}`")
        return method
    name = getattr(method, "__name__", None)
    if isinstance(name, str) and getattr(method, "__self__", None) is running:
        return name
    kind = type(running).__name__
    raise TypeError(
        f"quorate.{asked}() takes a method of the {kind} that is served, or its name, not {method!r}"
    )


def _nothing_runs(name: str) -> NotInCall:
    return NotInCall(f"quorate.{name}() is for methods of a served object: no such method runs here")


# Its package is not one whose classes are kept.
_names.keep(Timer)
