"""Inside a method: what is done outside of the object, by the worker of the node that leads.

A value from outside is captured before the call takes effect; an effect is done after it was decided.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar, overload

from quorate import _conditions, _names, _native, _outbox, _raised, _timers
from quorate._errors import NotInCall, Overloaded, UnsupportedValue

T = TypeVar("T")

KEY_BYTES_MAX = 255


@overload
def capture(f: Callable[..., Coroutine[Any, Any, T]], /, *args: object) -> T: ...
@overload
def capture(f: Callable[..., T], /, *args: object) -> T: ...
def capture(f: Callable[..., Any], /, *args: object) -> Any:
    """Return what a function returns outside of the object: a rate from a service, a file, a random choice.

    ::

        def convert(self, amount):
            return amount * quorate.capture(rates.today, "EUR")

    The first time the call leaves no trace and waits. The function is called once, in a process beside the
    node that leads; the call then runs again from its start, on every replica with that value. A node that
    ends meanwhile may have it called once more: one value counts. What the function raises is raised here.

    `f` is a function that a module of the objects' own packages defines, and is imported there. Arguments
    and value must travel, and take at most 60 KiB; a call captures at most 64 values, and where the object
    changed meanwhile so that the arguments are others, the function is called anew. Raises `CaptureFailed`
    when there is no value after two minutes.

    >>> capture(len, [1, 2])
    Traceback (most recent call last):
    ...
    quorate.NotInCall: quorate.capture() is for methods that are called: nobody calls here
    """
    _conditions.check_can_undo("capture")
    ordinal = _native.next_capture()
    call = _native.current_call()
    if ordinal is None or call is None:
        raise NotInCall("quorate.capture() is for methods that are called: nobody calls here")
    if ordinal >= _outbox.CAPTURES_MAX:
        raise Overloaded(f"one call captures at most {_outbox.CAPTURES_MAX} values: fetch more with each")
    path, encoded = path_of("capture", f), _encoded("capture", args)
    waiting = call[:2]
    outbox: Any = _native.object_of(_outbox.NUMBER)
    found = outbox._value_of(waiting, ordinal, path, encoded)
    if found is None:
        _check_room(outbox)
        asked = (_native.running_number(), list(waiting), ordinal, path, encoded)
        _native.send_message(_outbox.NUMBER, _native.dump_call("_ask", asked, {}), True)
        _conditions.leave_until_changed()
    if ordinal == 0:
        # It goes out if this is the try that takes effect.
        _native.send_message(_outbox.NUMBER, _native.dump_call("_forget", waiting, {}))
    is_error, value = found
    if is_error:
        raise _raised.exception_of(_native.loads(value))
    return _native.loads(value)


def effect(
    f: Callable[..., object],
    /,
    *args: object,
    key: str | None = None,
    then: Callable[..., object] | str | None = None,
) -> str:
    """Have a function called outside of the object, after this call was decided: a mail, a payment.

    ::

        def pay(self, amount):
            quorate.effect(bank.transfer, amount, then=self.paid)
            self.balance -= amount

        def paid(self, key, value, error): ...

    It is called at least once, in a process beside the node that leads: again if that node ends before the
    group knows what came of it. It gets the same `key=` each time, if it has a parameter of that name: give
    it to the service, so that it acts once. A function that raises is tried eight times in some six
    seconds. Then the object's method `then` is called with the key, and what the function returned or as a
    text what it raised last; nobody hears what that method returns. Effects are done side by side, in no
    order.

    Returns the key: `key`, or one that no other effect has. A call that leaves no trace has no effect. `f` is
    as for `capture`; arguments and value must travel, and take at most 60 KiB. 10,000 tasks of a group
    wait; one more is `Overloaded`: ask for an effect before you change anything.

    >>> effect(print, "hello")
    Traceback (most recent call last):
    ...
    quorate.NotInCall: quorate.effect() is for methods of a served object: no such method runs here
    """
    number = _native.running_number()
    if number is None:
        raise NotInCall("quorate.effect() is for methods of a served object: no such method runs here")
    if key is None:
        key = _native.agreed_bytes(16).hex()
    if not isinstance(key, str) or not 1 <= len(key.encode(errors="replace")) <= KEY_BYTES_MAX:
        raise ValueError(f"a key is a text of 1 to {KEY_BYTES_MAX} bytes, not {key!r:.80}")
    method = None if then is None else _timers.name_of("effect", then)
    asked = (number, path_of("effect", f), _encoded("effect", args), key, method)
    _check_room(_native.object_of(_outbox.NUMBER))
    _native.send_message(_outbox.NUMBER, _native.dump_call("_act", asked, {}))
    return key


def path_of(asked: str, f: Any) -> str:
    """MODULE:NAME by which the worker finds a function.

    >>> path_of("effect", print)
    Traceback (most recent call last):
    ...
    quorate.UnsupportedValue: quorate.effect() takes a function that a module of the objects' own packages ...
    """
    module, name = getattr(f, "__module__", None), getattr(f, "__qualname__", None)
    if isinstance(module, str) and isinstance(name, str) and _names.is_allowed_module(module):
        path = f"{module}:{name}"
        if callable(f) and function_at(path) is f:
            return path
    raise UnsupportedValue(
        f"quorate.{asked}() takes a function that a module of the objects' own packages defines, not "
        f"{f!r:.80}: write one at the top of such a module that does it, and give it arguments"
    )


def function_at(path: str) -> Any:
    """What is at MODULE:NAME; None when that module does not define it.

    >>> function_at("quorate._capturing:capture") is capture, function_at("quorate._capturing:importlib")
    (True, None)
    """
    module, _, name = path.partition(":")
    try:
        # It waits for a module that another thread is importing: until then not all of its names are there.
        found: Any = importlib.import_module(module)
        for step in name.split("."):
            found = getattr(found, step)
    except (ImportError, AttributeError):
        return None
    is_own = getattr(found, "__module__", None) == module and getattr(found, "__qualname__", None) == name
    return found if is_own else None


def _encoded(asked: str, args: tuple[object, ...]) -> bytes:
    encoded = _native.dumps(list(args))
    if len(encoded) > _outbox.VALUE_BYTES_MAX:
        raise UnsupportedValue(
            f"the arguments of quorate.{asked}() take {len(encoded)} bytes, and may take "
            f"{_outbox.VALUE_BYTES_MAX}: give the function the place of what it needs"
        )
    return encoded


def _check_room(outbox: Any) -> None:
    if not outbox.has_room:
        raise Overloaded(
            f"{_outbox.TASKS_MAX} tasks, or {_outbox.BYTES_MAX >> 20} MiB of them, are to be done outside of "
            "this group's objects already: try again when some are done"
        )
