"""Objects in snapshots: class name, arguments to make the object, and state to fill it.

Allowed are the classes of the replicated class's package and of the packages that were allowed beside it, and
what `quorate._standard` lists. Nothing is unpickled. Calls are executed one after the other: a lock is held
after a restore if it was held before, and nobody waits for it.
"""

from __future__ import annotations

import copyreg
import datetime
import enum
import io
import sys
import types
import uuid
import weakref
from decimal import Decimal
from typing import Any, ParamSpec, TypeVar, TypeVarTuple

from quorate import _aliases, _arrays, _callables, _constants, _content, _nameless, _names, _standard, _values
from quorate._errors import MalformedValue

Parts = tuple[str, tuple[Any, ...], Any]

_plain: dict[type, str] = {}
"""Classes of which an instance is its fields and nothing else: most instances are of a few such classes."""
_runs_nothing: dict[type, bool] = {}
"""Whether an instance is taken apart, and made again, without code of its class."""
_RUN = frozenset(
    f"__{name}__"
    for name in (
        *("class", "getattr", "getattribute", "getstate", "setstate"),
        *("reduce", "reduce_ex", "getnewargs", "getnewargs_ex"),
    )
)
_TAGGED = (datetime.date, datetime.datetime, datetime.timedelta, Decimal, uuid.UUID)
"""Kinds with tags of their own."""
SMALL_DECIMAL_BYTES = 16 << 10
SMALL_FIELDS = 4096
"""Of a state that is written between two calls."""
_BY_REDUCE = "by reduce"
_TYPE_VARIABLES = (TypeVar, ParamSpec, TypeVarTuple)


def take_apart(value: Any) -> Parts | str:
    """The parts of an object, or why it cannot be kept."""
    cls = type(value)
    plain = _plain.get(cls)
    if plain is not None and cls not in _constants.marked:
        return plain, (), _content.fields_of(value)
    standard = _standard.STANDARD.get(cls) or _arrays.MARKS.get(cls)
    constant = _constants.name_of(value, cls)
    if constant is not None:
        return "global", (constant,), None
    try:
        if standard is not None:
            return _standard_parts(value, standard(value))
        return _take_apart(value, cls)
    except Exception as error:
        return f"{cls.__name__} cannot be taken apart: {type(error).__name__}: {error}"


def _standard_parts(value: Any, parts: Parts) -> Parts:
    """With the fields that somebody gave to an instance of the standard library."""
    name, arguments, state = parts
    fields = _standard.fields_of(value)
    return (name, arguments, [fields, state]) if fields else parts


def _stands_for_more(cls: type) -> bool:
    """Whether an instance is a key to what its class keeps."""
    return issubclass(cls, weakref.finalize)


def _take_apart(value: Any, cls: type) -> Parts | str:
    if _aliases.is_alias(cls):
        return _aliases.take_apart(value)
    named = _named(value, cls)
    if named is not None:
        return named
    if cls is object or cls in _TYPE_VARIABLES:
        return _callables.global_value(value)
    if _stands_for_more(cls):
        return f"{cls.__name__} is not supported, for what it will call is kept by its class"
    standard = _standard.class_name(cls)
    if standard is not None:
        return _instance(value, cls, standard)
    is_ours = _names.is_allowed_module(_names.package_of(cls)) or _names.is_allowed(cls)
    if not is_ours and not _standard.is_harmless_module(cls.__module__):
        return _not_allowed(cls)
    name = _names.name_of(cls)
    reduced = _arrays.take_apart(value) or _callables.reduction(value)
    if reduced is _callables.COPIED and _names.is_allowed(cls):
        return _copied(value, _content.root_of(cls) or object, name)
    if isinstance(reduced, tuple | str):
        return reduced
    if not _names.is_allowed(cls):
        return _not_allowed(cls)
    has_hooks = any(_callables.says_its_state(cls, hook) for hook in ("__getstate__", "__setstate__"))
    if _content.root_of(cls) is object and not has_hooks and not _constants.may_be(cls):
        _plain[cls] = name
    return _instance(value, cls, name)


def parts_without_code(value: Any) -> tuple[int, Any] | Parts | None:
    """What `reduce` or `take_apart` say of a value; None where code of its class may run for that."""
    cls = type(value)
    # A metaclass may say what is equal to its classes.
    if type(cls) is not type:
        return None
    if cls in _TAGGED:
        if cls is Decimal and value.__sizeof__() > SMALL_DECIMAL_BYTES:
            return None
        zone = value.tzinfo if cls is datetime.datetime else None
        reduced = _values.reduce(value, True) if zone is None or type(zone) is datetime.timezone else None
        return reduced if isinstance(reduced, tuple) else None
    runs_nothing = _runs_nothing.get(cls)
    if runs_nothing is None:
        runs_nothing = _runs_nothing[cls] = _is_without_code(cls)
    if not runs_nothing or not _content.has_few_fields(value, SMALL_FIELDS):
        return None
    parts = take_apart(value)
    return parts if cls in _plain and isinstance(parts, tuple) else None


def _is_without_code(cls: type) -> bool:
    """Whether an instance is its fields alone, and no code runs for these."""
    return (
        cls not in copyreg.dispatch_table
        and cls not in _standard.STANDARD
        and cls not in _arrays.MARKS
        and cls is not object
        and _content.root_of(cls) is object
        and not _constants.may_be(cls)
        and not any(map(_has_code, cls.__mro__[:-1]))
        and _names.is_allowed(cls)
    )


def _has_code(cls: type) -> bool:
    """Whether this class itself defines what may run where an instance is taken apart."""
    return any(name in vars(cls) for name in _RUN) or vars(cls).get("__hash__") is not None


def choose(trust: _callables.Trust) -> None:
    """Choose whose word counts for the states of this process."""
    _callables.trust = trust
    _plain.clear()


def _named(value: Any, cls: type) -> Parts | str | None:
    """What is kept by a name, and a function by the place of its code; None for what has a state."""
    if isinstance(value, type):
        return _callables.reference(value)
    if cls in _callables.METHODS and not isinstance(value.__self__, types.ModuleType | None):
        return _callables.method(value)
    if isinstance(value, types.ModuleType):
        return _callables.module(value)
    if cls is types.CellType:
        return _nameless.take_cell_apart(value)
    if isinstance(value, enum.Enum):
        return _callables.member(value)
    if isinstance(value, io.IOBase):
        return _callables.stream(value)
    if cls in _callables.DESCRIPTORS:
        return _callables.descriptor(value)
    if callable(value) and not _names.is_allowed(cls) and hasattr(value, "__qualname__"):
        return _callables.reference(value)
    return None


def _instance(value: Any, cls: type, name: str) -> Parts | str:
    root = _content.root_of(cls)
    if root is None:
        return _unknown_content(cls)
    arguments, items = _content_of(value, root)
    if _callables.says_its_state(cls, "__getstate__"):
        state = value.__getstate__()
        return name, arguments, [state] if items is None else [state, items, "state"]
    if _callables.says_its_state(cls, "__setstate__") and (fields := _content.fields_of(value)):
        return name, arguments, [fields] if items is None else [fields, items, "state"]
    return _copied(value, root, name)


def _copied(value: Any, root: type, name: str) -> Parts:
    """An instance by content and fields, whatever its class says."""
    arguments, items = _content_of(value, root)
    if items is not None and getattr(value, "__dict__", None) is value:
        return name, arguments, [{}, items, "itself"]
    fields = _content.fields_of(value)
    if items is None:
        return name, arguments, fields if fields or root is object else None
    return name, arguments, [fields, items]


def _content_of(value: Any, root: type) -> tuple[Any, Any]:
    carrier = _content.ROOTS[root]
    arguments = carrier.arguments(value)
    if root is tuple:
        arguments = arguments[0]
    return arguments, None if carrier.items is None else carrier.items(value)


def _not_allowed(cls: type) -> str:
    name, package = cls.__name__, _names.package_of(cls)
    if package in sys.stdlib_module_names:
        return f"{name} is not supported"
    if "<locals>" in cls.__qualname__:
        return f"{name} is not supported, for it is a class in a function: move it to the top of its module"
    if _names.is_allowed_module(package):
        return f"{name} is not supported, for {cls.__module__} does not have it as {cls.__qualname__}"
    return (
        f"{name} is not supported, for its package is not allowed: run with --allow {package}, "
        f"or call quorate.register({name})"
    )


def _unknown_content(cls: type) -> str:
    name = cls.__name__
    keeper = next(base for base in cls.__mro__ if not _content.adds_fields_only(base))
    whose = "it" if keeper is cls else f"its base {keeper.__name__}"
    return f"{name} is not supported: {whose} keeps content in C that cannot be read"


def make(name: str, arguments: tuple[Any, ...]) -> Any:
    """A new object without its state."""
    maker = _standard.MAKERS.get(name) or _KINDS.get(name)
    if maker is not None:
        return maker(*arguments)
    cls = _names.find(name) or _standard.find_class(name)
    if not isinstance(cls, type):
        raise MalformedValue(f"class {name} is gone: a snapshot still holds instances of it")
    root = _content.root_of(cls)
    if root is None:
        raise MalformedValue(f"class {name} has changed: it now keeps content in C")
    return _content.ROOTS[root].new(cls, *((arguments,) if root is tuple else arguments))


_KINDS: dict[str, Any] = {
    "class": _callables.find,
    "function": _callables.find,
    "function in": _nameless.find,
    "code": _nameless.make,
    "cell": types.CellType,
    "descriptor": _callables.find_descriptor,
    "module": _callables.find_module,
    "member": _callables.find_member,
    "stream": _callables.find_stream,
    "random": _callables.find_random,
    "global": _constants.find,
    "method": _callables.make_method,
    "bound": _callables.make_bound,
    "reduce": _callables.make_reduced,
    "new": _callables.make_new,
    "alias": _aliases.make,
    "numpy.dtype": _arrays.make_dtype,
    "numpy.view": _arrays.make_view,
    "numpy.read-only": _arrays.make_read_only,
}


def fill(value: Any, state: Any) -> None:
    """Give an object its state."""
    if state is None:
        return
    if isinstance(state, list) and len(state) == 4 and state[3] == _BY_REDUCE:
        _fill_reduced(value, state)
    elif type(value) is types.FunctionType:
        _nameless.fill(value, state)
    elif isinstance(value, io.IOBase):
        value.__setstate__(state)  # type: ignore[attr-defined]
    elif type(value) in _standard.STANDARD:
        _fill_standard(value, state)
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


def _fill_standard(value: Any, state: Any) -> None:
    # Items are lists, and the state of a generator is a tuple: a dict in front is of fields.
    has_fields = (
        type(value) in _standard.WITH_FIELDS
        and isinstance(state, list)
        and len(state) == 2
        and isinstance(state[0], dict)
    )
    fields, items = state if has_fields else ({}, state)
    if items is not None:
        _fill_items(value, items)
    _content.set_fields(value, fields)


def _fill_reduced(value: Any, state: list[Any]) -> None:
    own, items, pairs, _ = state
    for item in items:
        value.append(item)
    for key, item in pairs:
        value[key] = item
    if own is not None:
        _set_state(value, own)


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
