"""Objects in snapshots: class name, arguments to make the object, and state to fill it.

Allowed are the classes of the replicated class's package, and the containers of the standard library that
are listed here. Nothing is unpickled. Locks are inert: calls are executed one after the other, so a lock
comes back free.
"""

from __future__ import annotations

import collections
import random
import sys
import threading
import types
from collections.abc import Callable
from typing import Any

from quorate import _content, _names
from quorate._errors import MalformedValue

Parts = tuple[str, tuple[Any, ...], Any]

_Lock: type = type(threading.Lock())
_RLock: type = type(threading.RLock())
_Random = random.Random
# Of Random it is another name of getstate, which is the content of its root.
_NO_STATE_OF_ITS_OWN = (None, getattr(object, "__getstate__", None), _Random.__getstate__)
_FACTORIES: dict[str, type] = {
    cls.__name__: cls for cls in (int, float, str, bytes, bool, list, dict, set, tuple, frozenset)
} | {"deque": collections.deque, "Counter": collections.Counter, "OrderedDict": collections.OrderedDict}


def take_apart(value: Any) -> Parts | str:
    """The parts of an object, or why it cannot be kept."""
    cls = type(value)
    standard = _STANDARD.get(cls)
    if standard is not None:
        return standard(value)
    if cls is _Random:
        return "random.Random", (), value.getstate()
    if isinstance(value, type):
        return _reference("class", value)
    if isinstance(value, types.FunctionType):
        return _reference("function", value)
    if not _names.is_allowed(cls):
        return _not_allowed(cls)
    root = _content.root_of(cls)
    if root is None:
        return _unknown_content(cls)
    try:
        return _instance(value, cls, root)
    except Exception as error:
        return f"{cls.__name__} cannot be taken apart: {type(error).__name__}: {error}"


def _instance(value: Any, cls: type, root: type) -> Parts:
    carrier = _content.ROOTS[root]
    name, arguments = _names.name_of(cls), carrier.arguments(value)
    if root is tuple:
        arguments = arguments[0]
    items = None if carrier.items is None else carrier.items(value)
    if getattr(cls, "__getstate__", None) not in _NO_STATE_OF_ITS_OWN:
        state = value.__getstate__()
        return name, arguments, [state] if items is None else [state, items, "state"]
    if items is not None and getattr(value, "__dict__", None) is value:
        return name, arguments, [{}, items, "itself"]
    fields = _content.fields_of(value)
    if items is None:
        return name, arguments, fields if fields or root is object else None
    return name, arguments, [fields, items]


def _not_allowed(cls: type) -> str:
    name = cls.__name__
    if "<locals>" in cls.__qualname__:
        return (
            f"{name} is not supported, for it is a class inside a function: move it to the top of its module"
        )
    package = cls.__module__.partition(".")[0]
    if package in sys.stdlib_module_names:
        return f"{name} is not supported"
    return f"{name} is not supported, for its package {package} is not allowed: quorate.register({name})"


def _unknown_content(cls: type) -> str:
    keeper = next(base for base in cls.__mro__ if not _content.adds_fields_only(base))
    if keeper is cls:
        return f"{cls.__name__} is not supported: it keeps content in C that cannot be read"
    return (
        f"{cls.__name__} is not supported: its base {keeper.__name__} keeps content in C that cannot be read"
    )


def _reference(kind: str, value: Any) -> Parts | str:
    short: str = value.__name__
    if _FACTORIES.get(short) is value:
        return kind, (short,), None
    name = f"{value.__module__}.{value.__qualname__}"
    if _names.find(name) is value:
        return kind, (name,), None
    return (
        f"{type(value).__name__} {value.__qualname__} is not supported: no allowed module has it by this name"
    )


_STANDARD: dict[type, Callable[[Any], Parts]] = {
    collections.deque: lambda v: ("collections.deque", (v.maxlen,), list(v)),
    collections.defaultdict: lambda v: (
        "collections.defaultdict",
        (),
        [v.default_factory, [list(pair) for pair in v.items()]],
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
    root = _content.root_of(cls)
    if root is None:
        raise MalformedValue(f"class {name} has changed: it now keeps content in C")
    return _content.ROOTS[root].new(cls, *((arguments,) if root is tuple else arguments))


def fill(value: Any, state: Any) -> None:
    """Give an object its state."""
    if state is None:
        return
    if type(value) in _STANDARD:
        _fill_items(value, state)
    elif isinstance(value, _Random) and isinstance(state, tuple):
        value.setstate(state)
    elif isinstance(state, dict):
        _content.set_fields(value, state)
    elif len(state) == 1:
        _set_state(value, state[0])
    else:
        fields, items, *way = state
        _fill_items(value, items)
        if way == ["itself"]:
            value.__dict__ = value
        elif way == ["state"]:
            _set_state(value, fields)
        else:
            _content.set_fields(value, fields)


def _fill_items(value: Any, items: Any) -> None:
    cls = type(value)
    root = _content.root_of(cls)
    carrier = _content.ROOTS[root] if root is not None else None
    if carrier is None or carrier.fill is None:
        raise MalformedValue(f"a snapshot has items of a {cls.__name__}, which has none")
    carrier.fill(value, items)


def _set_state(value: Any, state: Any) -> None:
    if hasattr(value, "__setstate__"):
        value.__setstate__(state)
    elif isinstance(state, tuple) and len(state) == 2:
        # The default __getstate__ of a class with slots.
        for fields in state:
            _content.set_fields(value, fields or {})
    elif state is not None:
        _content.set_fields(value, state)
