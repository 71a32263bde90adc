"""Objects in snapshots: class name, arguments to make the object, and state to fill it.

Allowed are the classes of the replicated class's package, and the containers of the standard library that
are listed here. Nothing is unpickled. Locks are inert: calls are executed one after the other, so a lock
comes back free.
"""

from __future__ import annotations

import collections
import random
import threading
import types
from collections.abc import Callable
from typing import Any

from quorate import _names
from quorate._errors import MalformedValue

Parts = tuple[str, tuple[Any, ...], Any]

_Lock: type = type(threading.Lock())
_RLock: type = type(threading.RLock())
_Random = random.Random
_FACTORIES: dict[str, type] = {
    cls.__name__: cls for cls in (int, float, str, bytes, bool, list, dict, set, tuple, frozenset)
} | {"deque": collections.deque, "Counter": collections.Counter, "OrderedDict": collections.OrderedDict}


def take_apart(value: Any) -> Parts | None:
    """The parts of an object, or None when its kind cannot be kept."""
    standard = _STANDARD.get(type(value))
    if standard is not None:
        return standard(value)
    if isinstance(value, _Random) and not isinstance(value, random.SystemRandom):
        return "random.Random", (), value.getstate()
    if isinstance(value, type):
        return _reference("class", value)
    if isinstance(value, types.FunctionType):
        return _reference("function", value)
    cls = type(value)
    if not _names.is_allowed(cls):
        return None
    name = _names.name_of(cls)
    if isinstance(value, tuple):
        return name, tuple(value), None
    if isinstance(value, (int, float, str, bytes)):
        return None
    return name, (), _instance_state(value)


def _instance_state(value: Any) -> Any:
    cls = type(value)
    if getattr(cls, "__getstate__", None) is not getattr(object, "__getstate__", None):
        return [value.__getstate__()]
    fields = dict(getattr(value, "__dict__", {}))
    for base in cls.__mro__:
        slots = base.__dict__.get("__slots__", ())
        for slot in (slots,) if isinstance(slots, str) else slots:
            if slot not in ("__dict__", "__weakref__") and hasattr(value, slot):
                fields[slot] = getattr(value, slot)
    if isinstance(value, dict):
        return [fields, [list(pair) for pair in dict.items(value)]]
    if isinstance(value, (list, set, collections.deque)):
        return [fields, list(value)]
    return fields


def _reference(kind: str, value: Any) -> Parts | None:
    short: str = value.__name__
    if _FACTORIES.get(short) is value:
        return kind, (short,), None
    name = f"{value.__module__}.{value.__qualname__}"
    return (kind, (name,), None) if _names.find(name) is value else None


_STANDARD: dict[type, Callable[[Any], Parts]] = {
    collections.deque: lambda v: ("collections.deque", (v.maxlen,), list(v)),
    collections.defaultdict: lambda v: (
        "collections.defaultdict",
        (v.default_factory,),
        [list(pair) for pair in v.items()],
    ),
    collections.OrderedDict: lambda v: ("collections.OrderedDict", (), [list(pair) for pair in v.items()]),
    collections.Counter: lambda v: ("collections.Counter", (), [list(pair) for pair in v.items()]),
    bytearray: lambda v: ("builtins.bytearray", (), bytes(v)),
    complex: lambda v: ("builtins.complex", (v.real, v.imag), None),
    range: lambda v: ("builtins.range", (v.start, v.stop, v.step), None),
    _Lock: lambda _: ("threading.Lock", (), None),
    _RLock: lambda _: ("threading.RLock", (), None),
}

_MAKERS: dict[str, Callable[..., Any]] = {
    "collections.deque": lambda maxlen: collections.deque(maxlen=maxlen),
    "collections.defaultdict": collections.defaultdict,
    "collections.OrderedDict": collections.OrderedDict,
    "collections.Counter": collections.Counter,
    "builtins.bytearray": bytearray,
    "builtins.complex": complex,
    "builtins.range": range,
    "threading.Lock": threading.Lock,
    "threading.RLock": threading.RLock,
    "random.Random": lambda: _Random(0),
}


def make(name: str, arguments: tuple[Any, ...]) -> Any:
    """A new object without its state."""
    maker = _MAKERS.get(name)
    if maker is not None:
        return maker(*arguments)
    if name in ("class", "function"):
        found = _FACTORIES.get(arguments[0]) or _names.find(arguments[0])
        if found is None:
            raise MalformedValue(f"{name} {arguments[0]} is gone: a snapshot still refers to it")
        return found
    cls = _names.find(name)
    if not isinstance(cls, type):
        raise MalformedValue(f"class {name} is gone: a snapshot still holds instances of it")
    if issubclass(cls, tuple):
        return tuple.__new__(cls, arguments)
    return cls.__new__(cls)


def fill(value: Any, state: Any) -> None:
    """Give an object its state."""
    if state is None:
        return
    if isinstance(value, _Random):
        value.setstate(state)
        return
    if type(value) in _STANDARD:
        _fill_container(value, state)
        return
    if isinstance(state, dict):
        _set_fields(value, state)
    elif len(state) == 1:
        _set_state(value, state[0])
    else:
        fields, items = state
        _set_fields(value, fields)
        _fill_container(value, items)


def _fill_container(value: Any, items: Any) -> None:
    if isinstance(value, collections.Counter | dict):
        # Not the class's own __setitem__, which may do more than set.
        base = collections.OrderedDict if isinstance(value, collections.OrderedDict) else dict
        for key, item in items:
            base.__setitem__(value, key, item)
    elif isinstance(value, set):
        set.update(value, items)
    elif isinstance(value, list):
        list.extend(value, items)
    else:
        value.extend(items)


def _set_state(value: Any, state: Any) -> None:
    if hasattr(value, "__setstate__"):
        value.__setstate__(state)
    else:
        _set_fields(value, state)


def _set_fields(value: Any, fields: dict[str, Any]) -> None:
    for name, item in fields.items():
        object.__setattr__(value, name, item)
