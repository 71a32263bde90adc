"""What of an instance lies in memory that C code laid out, and how it is read and given back.

A class made by a `class` statement adds fields that Python can list: its `__dict__` and its `__slots__`.
Where an instance is larger than these explain, some base keeps content in C. That base is the instance's
*root*. The roots below are known, everything else in C is not: an instance of it is not taken for empty.
"""

from __future__ import annotations

import _random
import array
import ast
import collections
import datetime
import functools
import random
import sys
import threading
import types
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from quorate import _native

_HEAP_TYPE, _MANAGED_WEAKREF, _MANAGED_DICT = 1 << 9, 1 << 3, 1 << 4
_POINTER = 8
_ENTRY_BYTES = 32
"""Of a dict, for each field that it has or had, at most."""


@dataclass(frozen=True, slots=True)
class Root:
    """How the content of one C type is carried.

    >>> ROOTS[int].new(bool.__base__, *ROOTS[int].arguments(True))
    1
    """

    arguments: Callable[[Any], tuple[Any, ...]]
    """Content that cannot change: it is there from the beginning."""
    new: Callable[..., Any]
    """Makes an instance of a class from these, without running its `__new__` or `__init__`."""
    items: Callable[[Any], Any] | None = None
    """Content that can change, and may refer to the instance itself."""
    fill: Callable[[Any, Any], None] | None = None
    """Gives that content to a new instance."""


_DEFAULT_FACTORY: Any = vars(collections.defaultdict)["default_factory"]
_set_partial: Any = vars(functools.partial)["__setstate__"]


def _nothing(_value: Any) -> tuple[Any, ...]:
    return ()


def _fill_dict(value: dict[Any, Any], items: Any) -> None:
    # Not the class's own __setitem__, which may do more than set.
    for key, item in items:
        dict.__setitem__(value, key, item)


def _fill_ordered(value: Any, items: Any) -> None:
    for key, item in items:
        collections.OrderedDict.__setitem__(value, key, item)


def _fill_set(value: set[Any], items: Any) -> None:
    if isinstance(items, set):
        # Of an image that does not hold the layout.
        set.update(value, items)
        return
    shape, elements = items
    set.update(value, elements)
    _native.lay_out_set(value, shape, elements)


def _new_frozenset(cls: type, content: Any, elements: Any = None) -> Any:
    made: Any = frozenset.__new__(cls, content if elements is None else elements)
    if elements:
        _native.lay_out_set(made, content, elements)
    return made


def _default_items(value: Any) -> Any:
    return [value.default_factory, [list(pair) for pair in dict.items(value)]]


def _fill_default(value: Any, content: Any) -> None:
    _DEFAULT_FACTORY.__set__(value, content[0])
    _fill_dict(value, content[1])


def _new_deque(cls: type, maxlen: int | None = None) -> Any:
    made: Any = collections.deque.__new__(cls)
    collections.deque.__init__(made, (), maxlen)
    return made


def _new_time(make: Callable[..., Any]) -> Callable[..., Any]:
    def new(cls: type, *arguments: Any) -> Any:
        return make(cls, *arguments[:-1], fold=arguments[-1])

    return new


def _exception_items(value: BaseException) -> Any:
    return [value.args, value.__cause__, value.__context__, value.__suppress_context__]


def _fill_exception(value: BaseException, items: Any) -> None:
    value.args, value.__cause__, value.__context__, value.__suppress_context__ = items


def _raised_root(cls: type) -> Root:
    """Of an exception whose class keeps more than arguments: what it keeps are attributes that can be set."""
    names = sorted(
        name
        for name, member in vars(cls).items()
        if type(member) is types.MemberDescriptorType or name == "characters_written"
    )

    def items(value: BaseException) -> Any:
        return [*_exception_items(value), [getattr(value, name, None) for name in names]]

    def fill(value: BaseException, content: Any) -> None:
        *rest, own = content
        _fill_exception(value, rest)
        for name, item in zip(names, own, strict=True):
            if item is not None:
                setattr(value, name, item)

    return Root(_nothing, cls.__new__, items, fill)


def _new_partial(cls: type) -> Any:
    return functools.partial.__new__(cls, _nothing)


def _partial_items(value: Any) -> Any:
    return [value.func, value.args, value.keywords]


def _fill_partial(value: Any, items: Any) -> None:
    function, arguments, keywords = items
    _set_partial(value, (function, arguments, keywords, None))


class _Gone:
    """What a reference referred to that refers to nothing any more."""

    __slots__ = ("__weakref__",)


def new_reference(cls: type, referred: Any = None, callback: Any = None) -> Any:
    """A weak reference, dead if what it referred to is gone."""
    return weakref.ref.__new__(cls, _Gone() if referred is None else referred, callback)


_DATE = ("year", "month", "day")
_TIME = ("hour", "minute", "second", "microsecond", "tzinfo", "fold")


def _fields_of(*names: str) -> Callable[[Any], tuple[Any, ...]]:
    return lambda value: tuple(getattr(value, name) for name in names)


_RAISED = (
    *(AttributeError, NameError, ImportError, StopIteration, SystemExit, OSError, SyntaxError),
    *(UnicodeEncodeError, UnicodeDecodeError, UnicodeTranslateError),
)

ROOTS: dict[type, Root] = {
    object: Root(_nothing, object.__new__),
    ast.AST: Root(_nothing, ast.AST.__new__),
    int: Root(lambda v: (int.__int__(v),), int.__new__),
    float: Root(lambda v: (float.__float__(v),), float.__new__),
    complex: Root(_fields_of("real", "imag"), complex.__new__),
    str: Root(lambda v: (str.__str__(v),), str.__new__),
    bytes: Root(lambda v: (bytes.__getitem__(v, slice(None)),), bytes.__new__),
    tuple: Root(lambda v: (tuple(tuple.__iter__(v)),), tuple.__new__),
    frozenset: Root(_native.set_parts, _new_frozenset),
    Decimal: Root(lambda v: (Decimal.__str__(v),), Decimal.__new__),
    datetime.date: Root(_fields_of(*_DATE), datetime.date.__new__),
    datetime.datetime: Root(_fields_of(*_DATE, *_TIME), _new_time(datetime.datetime.__new__)),
    datetime.time: Root(_fields_of(*_TIME), _new_time(datetime.time.__new__)),
    datetime.timedelta: Root(_fields_of("days", "seconds", "microseconds"), datetime.timedelta.__new__),
    datetime.tzinfo: Root(_nothing, datetime.tzinfo.__new__),
    list: Root(_nothing, list.__new__, lambda v: list(list.__iter__(v)), list.extend),
    dict: Root(_nothing, dict.__new__, lambda v: [list(pair) for pair in dict.items(v)], _fill_dict),
    set: Root(_nothing, set.__new__, lambda v: list(_native.set_parts(v)), _fill_set),
    bytearray: Root(_nothing, bytearray.__new__, bytes, bytearray.extend),
    array.array: Root(
        lambda v: (v.typecode,), array.array.__new__, array.array.tobytes, array.array.frombytes
    ),
    collections.deque: Root(
        lambda v: (v.maxlen,),
        _new_deque,
        lambda v: list(collections.deque.__iter__(v)),
        collections.deque.extend,
    ),
    collections.OrderedDict: Root(
        _nothing,
        collections.OrderedDict.__new__,
        lambda v: [list(pair) for pair in collections.OrderedDict.items(v)],
        _fill_ordered,
    ),
    collections.defaultdict: Root(_nothing, collections.defaultdict.__new__, _default_items, _fill_default),
    _random.Random: Root(_nothing, random.Random.__new__, random.Random.getstate, random.Random.setstate),
    functools.partial: Root(_nothing, _new_partial, _partial_items, _fill_partial),
    BaseException: Root(_nothing, BaseException.__new__, _exception_items, _fill_exception),
    # Its members cannot be set later.
    BaseExceptionGroup: Root(
        _fields_of("message", "exceptions"), BaseExceptionGroup.__new__, _exception_items, _fill_exception
    ),
    **{cls: _raised_root(cls) for cls in _RAISED},
    # Calls are executed in one thread.
    threading.local: Root(_nothing, threading.local.__new__),
    weakref.ref: Root(lambda v: (weakref.ref.__call__(v), v.__callback__), new_reference),
    types.SimpleNamespace: Root(_nothing, types.SimpleNamespace.__new__),
}

_roots: dict[type, type | None] = {}
_slots: dict[type, dict[str, Any]] = {}


def root_of(cls: type) -> type | None:
    """The base that keeps content in C, `object` when none does, None when it is not known how to read it.

    >>> class Money(Decimal): ...
    >>> root_of(Money)
    <class 'decimal.Decimal'>
    """
    try:
        return _roots[cls]
    except KeyError:
        pass
    base: type | None = cls
    while base not in ROOTS:
        if base is None or not adds_fields_only(base):
            base = None
            break
        base = base.__base__
    _roots[cls] = base
    return base


def adds_fields_only(cls: type) -> bool:
    """Whether the instances are larger than those of the base only by fields that Python can list."""
    base = cls.__base__
    if base is None or cls.__itemsize__ != base.__itemsize__:
        return False
    added = cls.__basicsize__ - base.__basicsize__
    if not cls.__flags__ & _HEAP_TYPE:
        return added == 0
    listed = len(_own_slots(cls))
    own = vars(cls)
    if "__weakref__" in own and not cls.__flags__ & _MANAGED_WEAKREF:
        listed += 1
    if "__dict__" in own and not cls.__flags__ & _MANAGED_DICT:
        listed += 1
    return added <= listed * _POINTER


def _own_slots(cls: type) -> dict[str, Any]:
    own = vars(cls)
    if "__slots__" not in own:
        return {}
    return {name: slot for name, slot in own.items() if type(slot) is types.MemberDescriptorType}


def slots_of(cls: type) -> dict[str, Any]:
    """The slots of a class and of its bases, under the names by which they are kept."""
    found = _slots.get(cls)
    if found is None:
        found = {}
        for base in cls.__mro__:
            for name, slot in _own_slots(base).items():
                # A slot that a derived class has again is another place with the same name.
                found[name if name not in found else f"{base.__qualname__}.{name}"] = slot
        _slots[cls] = found
    return found


def fields_of(value: Any) -> dict[str, Any]:
    """What the `__dict__` and the slots of an instance hold.

    >>> class Slotted:
    ...     __slots__ = ("__hidden",)
    ...     def __init__(self): self.__hidden = 1
    >>> fields_of(Slotted())
    {'_Slotted__hidden': 1}
    """
    fields = dict(_own_dict(value))
    for name, slot in slots_of(type(value)).items():
        try:
            fields[name] = slot.__get__(value)
        except AttributeError:
            continue
    return fields


def _own_dict(value: Any) -> Any:
    return getattr(value, "__dict__", ()) if _has_plain_dict(type(value)) else _dict_of(value)


def has_few_fields(value: Any, most: int) -> bool:
    """Whether `fields_of` tells them soon, and without code of what the `__dict__` or a name is of."""
    own = _own_dict(value)
    if type(own) is not dict:
        return type(own) is tuple
    if slots_of(type(value)) and not all(type(name) is str for name in own):
        return False
    return bool(own.__sizeof__() <= most * _ENTRY_BYTES)


def set_fields(value: Any, fields: dict[str, Any]) -> None:
    """Give an instance what `fields_of` told, past properties and `__setattr__` of its class."""
    cls = type(value)
    ways = _ways.setdefault(cls, {})
    texts = _texts.get(cls)
    if texts is None:
        texts = _texts[cls] = _texts_of(cls)
    for name, item in fields.items():
        if type(item) is str:
            item = texts.get(item, item)  # noqa: PLW2901
        way = ways.get(name)
        if way is None:
            way = ways[name] = _way(cls, name)
        way(value, name, item)


_texts: dict[type, dict[str, str]] = {}


def _texts_of(cls: type) -> dict[str, str]:
    """Texts that the modules of a class have by a name: some compare by being it (`is argparse.SUPPRESS`)."""
    modules = {base.__module__ for base in cls.__mro__ if base is not object}
    variables = [vars(sys.modules[name]) for name in sorted(modules) if name in sys.modules]
    return {text: text for each in variables for text in list(each.values()) if type(text) is str}


_ways: dict[type, dict[str, Callable[[Any, str, Any], None]]] = {}


def _way(cls: type, name: str) -> Callable[[Any, str, Any], None]:
    slot = slots_of(cls).get(name)
    if slot is not None:
        return lambda value, _, item: slot.__set__(value, item)
    root: Any = root_of(cls) or object
    is_free = root.__setattr__ is object.__setattr__
    if is_free and isinstance(name, str) and not any(name in vars(base) for base in cls.__mro__):
        # Instances keep their fields smaller as long as nobody asks for their __dict__.
        return object.__setattr__
    return _set_in_dict


def _set_in_dict(value: Any, name: str, item: Any) -> None:
    fields: Any = value.__dict__ if _has_plain_dict(type(value)) else _dict_of(value)
    fields[name] = item


_DICT_OF_INSTANCES = (types.GetSetDescriptorType, types.MemberDescriptorType)
_has_dict: dict[type, bool] = {}


def _has_plain_dict(cls: type) -> bool:
    """Whether `__dict__` of instances is theirs, and no property that a class has under this name."""
    found = _has_dict.get(cls)
    if found is None:
        member = next((vars(base)["__dict__"] for base in cls.__mro__ if "__dict__" in vars(base)), None)
        found = _has_dict[cls] = member is None or type(member) in _DICT_OF_INSTANCES
    return found


def _dict_of(value: Any) -> Any:
    """The fields of an instance whose class tells something else about them."""
    for base in type(value).__mro__:
        member: Any = vars(base).get("__dict__")
        if type(member) in _DICT_OF_INSTANCES:
            return member.__get__(value)
    if type(value).__dictoffset__ == 0:
        return {}
    raise TypeError("its class has another __dict__ than its instances")
