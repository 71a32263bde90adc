"""Who holds what of an object, and since when: objects say it by `__quorate_holders__`, for `describe`.

The method of an object that is served runs in a forked process, so whatever it does, the object stays as it
is, and the answer does not wait for it longer than `SECONDS`.
"""

from __future__ import annotations

import os
import resource
import select
import signal
from dataclasses import dataclass
from typing import Any, NoReturn

from quorate import _environment, _making, _names, _native
from quorate._errors import MalformedValue

HOOK = "__quorate_holders__"

SECONDS = 0.3
"""How long an object may take to say who holds what: less than clients wait before they ask another node."""

TOLD_MAX = 1000
"""Holders that are told of one object."""

WORD_MAX = 200
"""Characters of what is held, and of a label."""

BYTES_MAX = 4 << 20
"""More than what is told takes."""

BUSY_MAX = 8
"""Processes of objects that do not end in time."""

_busy: list[int] = []


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds something of an object: returned in a list by its method `__quorate_holders__`.

    ::

        class Desk:
            def take(self, name):
                self.owner = quorate.Holder(quorate.caller().session, time.time(), label=name)

            def __quorate_holders__(self):
                return [self.owner] if self.owner else []

    >>> Holder(7, 12.5, what="permit", count=2).token
    0
    """

    session: int
    since: float
    """In seconds, as `time.time()` tells in a method: agreed time."""
    what: str = ""
    """What is held, where there may be several things."""
    label: Any = None
    """The thread or task of the session; any value."""
    count: int = 1
    token: int = 0
    """The newest fencing token; 0 where there is none."""
    tenancy: int = 0
    """Which process of the session acquired it, as `Caller.tenancy` counts them."""


def told_by(number: int, target: Any) -> dict[str, Any]:
    """What an object that is served says of its holders, and what is wrong with that."""
    if getattr(type(target), HOOK, None) is None:
        return {"holders": [], "holders_problem": ""}
    try:
        holders, problem = _native.loads(_asked_apart(number, target))
    except MalformedValue:
        holders, problem = [], f"{HOOK} did not answer within {SECONDS:g} s"
    return {"holders": holders, "holders_problem": problem}


def holders_of(target: Any) -> tuple[list[dict[str, Any]], str]:
    """The holders as they are sent, and what is wrong with them.

    >>> class Desk:
    ...     def __quorate_holders__(self):
    ...         return 7
    >>> holders_of(Desk())
    ([], "__quorate_holders__ raised TypeError: 'int' object is not iterable")
    """
    try:
        found = list(getattr(type(target), HOOK)(target))
        told = [_told(each) for each in found[:TOLD_MAX]]
    except BaseException as error:
        return [], f"{HOOK} raised {_making.one_line(error)}"
    left = len(found) - len(told)
    return told, f"{left} more hold something" if left else ""


def _told(holder: Any) -> dict[str, Any]:
    if not isinstance(holder, Holder):
        raise TypeError(f"a holder is a quorate.Holder, not {type(holder).__name__}")
    label = holder.label
    shown = label if label is None or isinstance(label, str) else repr(label)
    return {
        "session": int(holder.session),
        "since": float(holder.since),
        "what": _making.plain(str(holder.what))[:WORD_MAX],
        "label": None if shown is None else _making.plain(shown)[:WORD_MAX],
        "count": int(holder.count),
        "token": int(holder.token),
    }


def _asked_apart(number: int, target: Any) -> bytes:
    """What the forked process says; nothing where it takes too long.

    This one waits meanwhile, so it removes none of the files that the state of the object refers to.
    """
    _busy[:] = [child for child in _busy if os.waitpid(child, os.WNOHANG) == (0, 0)]
    if len(_busy) >= BUSY_MAX:
        return b""
    parent = _environment.real_pid()
    _environment.refuse_effects(False)
    try:
        reader, writer, child = _environment.fork_with_pipe()
        if child == 0:
            _say(number, target, writer, parent)
    finally:
        _environment.refuse_effects(True)
    os.close(writer)
    try:
        return _read(reader)
    finally:
        os.close(reader)
        # A host may send no signals: the process ends by itself when its time is over.
        if os.waitpid(child, os.WNOHANG) == (0, 0):
            _busy.append(child)


def _read(reader: int) -> bytes:
    """All that is said until the process ends."""
    said = bytearray()
    while len(said) < BYTES_MAX:
        ready, _, _ = select.select([reader], [], [], 2 * SECONDS)
        part = os.read(reader, BYTES_MAX) if ready else b""
        if not part:
            break
        said += part
    return bytes(said)


def _say(number: int, target: Any, writer: int, parent: int) -> NoReturn:
    """Runs in the forked process."""
    try:
        _native.die_with_parent(parent)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, SECONDS)
        # For what takes the alarm back.
        resource.setrlimit(resource.RLIMIT_CPU, (2, 2))
        _environment.refuse_effects(True)
        _native.read_at(number)
        said = _native.dumps(list(holders_of(target)))
        while said:
            said = said[os.write(writer, said) :]
    finally:
        # Whatever was raised, and wherever: this process must not go on as a second host.
        os._exit(0)


Holder.__module__ = "quorate"
# Its package is not one whose classes are kept.
_names.keep(Holder)
