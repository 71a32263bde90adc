"""Inside a method: calls that wait until something holds.

A call that cannot go on leaves no trace. It runs again from its start, in the order in which such calls came,
after each step that may have changed the object.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable
from typing import Any, NoReturn

from quorate import _calling, _native, _spans
from quorate._errors import NotInCall, NotReadOnly

FUNCTIONS_MAX = 1_000
"""Functions that are looked through for one method."""

NAMES = frozenset(["wait_until", "capture"])
"""What methods call that wait so."""


class _NotYet(BaseException):
    """Ends a call that cannot go on: no `except Exception` keeps it."""


def wait_until(
    predicate: Callable[[], object],
    timeout: float | None = None,
    default: object = _calling.RAISES,
    *,
    error: BaseException | None = None,
) -> None:
    """Go on when the predicate holds; until then the caller waits.

    ::

        def take(self):
            quorate.wait_until(lambda: self.items)
            return self.items.pop(0)

    Where it does not hold, the call leaves no trace: what the method changed so far is undone, and it runs
    again from its start when the object may have changed, first come, first served. `timeout`, `default`
    and `error` are as in `quorate.park`. The predicate must change nothing (`NotReadOnly`); what it raises
    ends the call, which leaves no trace then either, and so does the `Overloaded` that it gets where 10,000
    calls of the group wait already. The state is encoded before each such call, and what changes the object
    has all that wait tried, 25 microseconds or more for each: park where it is large, or they are many.

    >>> wait_until(lambda: True)
    Traceback (most recent call last):
    ...
    quorate.NotInCall: quorate.wait_until() is for methods that are called: nobody calls here
    """
    check_can_undo("wait_until")
    wait_ns = None if timeout is None else _spans.nanoseconds("timeout", timeout)
    over = _calling.when_over(timeout, default, error)
    if not _holds(predicate):
        leave_until_changed(wait_ns, *over)


def check_can_undo(name: str) -> None:
    """Raise NotInCall where no call is executed, or none that can leave no trace."""
    can_undo = _native.can_undo()
    if can_undo is None:
        raise NotInCall(f"quorate.{name}() is for methods that are called: nobody calls here")
    if not can_undo:
        raise NotInCall(
            f"quorate.{name}() stands where the class does not show it: call it in a method of the class, "
            "or in one or a function that the method calls by its name"
        )


def leave_until_changed(
    wait_ns: int | None = None, is_error: bool = False, otherwise: object = None
) -> NoReturn:
    """End this try of the call, which leaves no trace; it runs again when the object may have changed."""
    _native.wait_again(wait_ns, is_error, otherwise)
    raise _NotYet


def _holds(predicate: Callable[[], object]) -> bool:
    target = _native.running_object()
    before = _native.dump_state(target)
    try:
        holds = bool(predicate())
    except BaseException:
        _native.undo_call()
        raise
    if _native.dump_state(target) != before:
        _native.undo_call()
        raise NotReadOnly("the predicate of quorate.wait_until() changes the object: let it only look")
    return holds


def waiters(cls: type) -> set[str]:
    """The methods of a class whose code may come to `wait_until` or `capture`, as far as names tell.

    >>> class Box:
    ...     def take(self): self.wait_for_item()
    ...     def wait_for_item(self): wait_until(lambda: self.item)
    ...     def put(self, item): self.item = item
    >>> sorted(waiters(Box))
    ['take', 'wait_for_item']
    """
    return {name for name in dir(cls) if _reaches(cls, name)}


def _reaches(cls: type, name: str) -> bool:
    found: list[Any] = [_function(inspect.getattr_static(cls, name, None))]
    seen: set[types.FunctionType] = set()
    while found and len(seen) < FUNCTIONS_MAX:
        function = found.pop()
        if not isinstance(function, types.FunctionType) or function in seen:
            continue
        seen.add(function)
        names = _names_in(function.__code__)
        if names & NAMES:
            return True
        for each in names:
            found.append(_function(inspect.getattr_static(cls, each, None)))
            found.append(function.__globals__.get(each))
    return False


def _function(member: Any) -> Any:
    if isinstance(member, property):
        return member.fget
    member = getattr(member, "__func__", member)
    return inspect.unwrap(member) if callable(member) else member


def _names_in(code: types.CodeType) -> set[str]:
    names = {*code.co_names, *code.co_freevars}
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _names_in(constant)
    return names
