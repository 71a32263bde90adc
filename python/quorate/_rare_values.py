"""Values of kinds that programs use now and then, as they travel: containers with a rule, paths, exceptions.

Only between caller and object: in states the same kinds go in parts, which keep identity and sharing.
"""

from __future__ import annotations

import datetime
import fractions
import io
import ipaddress
import os
import pathlib
import sys
import types
import zoneinfo
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator, MappingView
from typing import Any

from quorate import _names, _numbers, _raised
from quorate._errors import MalformedValue

DRAWN, PLAIN = 0, 1
"""Not written: what is drawn item by item into a list, and what travels as a plain value in its place."""

BYTE_ARRAY, TIME, DEQUE, MAP_OF, RECORD, EXTENDED, TEXTED, RANGE = range(60008, 60016)
SLICE, SINGLETON, EXCEPTION, NUMBERS = range(60024, 60028)

Reduced = tuple[int, Any] | str


class _Itself:
    """What a method returned that returned its object; proxies put themselves in its place."""

    def __repr__(self) -> str:
        return "<the object itself>"


ITSELF = _Itself()

_SINGLETONS: dict[str, Any] = {"self": ITSELF, "NotImplemented": NotImplemented, "Ellipsis": Ellipsis}

_FACTORIES: dict[type, str] = {
    **{cls: f"builtins.{cls.__name__}" for cls in (bool, int, float, str, bytes, list, tuple, dict, set)},
    **{cls: f"collections.{cls.__name__}" for cls in (Counter, OrderedDict, deque)},
}

_EXTENDABLE: tuple[type[Any], ...] = (
    *(int, float, str, bytes, bytearray, tuple, list, dict, set, frozenset),
    *(deque, OrderedDict, Counter),
)
"""Kinds whose subclasses travel, when what they hold is all they are."""


_CONTAINERS: list[Any] = [[], (), {}, {}.values(), {}.items(), set(), "", "\xe9", b"", range(0), deque()]

_OWN_ITERATORS = frozenset(
    {type(iter(container)) for container in _CONTAINERS}
    | {type(reversed(container)) for container in _CONTAINERS if hasattr(container, "__reversed__")}
)


def is_own_iterator(value: Any) -> bool:
    """Whether it is an iterator of a builtin container: it changes nothing but itself."""
    return type(value) in _OWN_ITERATORS


def reduce(value: Any) -> Reduced | None:
    """Tag and plain content of a value, or why it cannot be sent; None where there is nothing to be said."""
    cls = type(value)
    known = _REDUCERS.get(cls)
    if known is not None:
        return known(value)
    if hasattr(cls, "_quorate_flow"):
        return "a proxy is not supported: objects do not call each other"
    if isinstance(value, MappingView | Iterator) and not isinstance(value, io.IOBase):
        return DRAWN, value
    if isinstance(value, BaseException):
        return EXCEPTION, _raised.describe(value)
    numbers = _numbers.reduce(value)
    if numbers is not None:
        return (PLAIN, numbers) if not isinstance(numbers, tuple) else (NUMBERS, numbers)
    if isinstance(value, tuple) and hasattr(cls, "_fields"):
        return _reduce_record(value, cls)
    if isinstance(value, _EXTENDABLE):
        return _reduce_extended(value, cls)
    return _advice(cls)


def _reduce_time(value: datetime.time) -> Reduced:
    zone, offset = value.tzinfo, value.utcoffset()
    if zone is not None and not isinstance(zone, datetime.timezone | zoneinfo.ZoneInfo):
        return "a time in a zone of its own kind is not supported: use datetime.timezone or zoneinfo"
    microseconds = ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond
    name = zone.key if isinstance(zone, zoneinfo.ZoneInfo) else None
    span = None if offset is None else offset // datetime.timedelta(microseconds=1)
    return TIME, [microseconds, span, name, bool(value.fold)]


def _reduce_default(value: defaultdict[Any, Any]) -> Reduced:
    factory: Any = value.default_factory
    name = _FACTORIES.get(factory) if isinstance(factory, type) else None
    if name is None and isinstance(factory, type) and _names.is_allowed(factory):
        name = _names.name_of(factory)
    return MAP_OF, ("default", dict(value), name)


def _reduce_record(value: Any, cls: type) -> Reduced:
    if not _names.is_allowed(cls):
        return _not_registered(cls)
    return RECORD, (_names.name_of(cls), dict(zip(value._fields, tuple(value), strict=True)))


def _reduce_extended(value: Any, cls: type) -> Reduced:
    if not _names.is_allowed(cls):
        return _not_registered(cls)
    kind = next(base for base in cls.__mro__ if base in _EXTENDABLE)
    if getattr(value, "__dict__", None):
        return f"{cls.__name__} is not supported, for it has fields beside its content: make it a data class"
    content = kind(value)
    try:
        again: Any = cls(content)
        is_same = type(again) is cls and kind(again) == content
    except Exception:
        is_same = False
    if not is_same:
        return f"{cls.__name__} is not supported, for its class cannot make it from its content alone"
    return EXTENDED, (_names.name_of(cls), content)


def _singleton(name: str) -> Callable[[Any], Reduced]:
    return lambda _: (SINGLETON, name)


TEXT_BYTES_MAX = 4096


def _texted(name: str, text: Callable[[Any], str] = str) -> Callable[[Any], Reduced]:
    def reduce_texted(value: Any) -> Reduced:
        try:
            told = text(value)
        except ValueError:
            told = " " * TEXT_BYTES_MAX * 2
        if len(told.encode(errors="surrogatepass")) > TEXT_BYTES_MAX:
            return f"{name} of more than {TEXT_BYTES_MAX} bytes of text is not supported"
        return TEXTED, [name, told]

    return reduce_texted


_TEXTED: dict[type, Callable[[Any], Reduced]] = {
    **{
        cls: _texted(cls.__name__)
        for cls in (
            *(pathlib.PurePosixPath, pathlib.PosixPath, pathlib.PureWindowsPath, pathlib.WindowsPath),
            *(ipaddress.IPv4Address, ipaddress.IPv6Address, ipaddress.IPv4Network, ipaddress.IPv6Network),
        )
    },
    complex: _texted("complex", repr),
    # With the stroke, also where the denominator is one.
    fractions.Fraction: _texted("Fraction", lambda value: f"{value.numerator}/{value.denominator}"),
}

_REDUCERS: dict[type, Callable[[Any], Reduced]] = {
    **_TEXTED,
    bytearray: lambda value: (BYTE_ARRAY, bytes(value)),
    memoryview: lambda value: (PLAIN, bytes(value)),
    types.MappingProxyType: lambda value: (PLAIN, dict(value)),
    datetime.time: _reduce_time,
    deque: lambda value: (DEQUE, (list(value), value.maxlen)),
    OrderedDict: lambda value: (MAP_OF, ("ordered", dict(value), None)),
    Counter: lambda value: (MAP_OF, ("counter", dict(value), None)),
    defaultdict: _reduce_default,
    range: lambda value: (RANGE, [value.start, value.stop, value.step]),
    slice: lambda value: (SLICE, [value.start, value.stop, value.step]),
    type(NotImplemented): _singleton("NotImplemented"),
    type(Ellipsis): _singleton("Ellipsis"),
    _Itself: _singleton("self"),
    zoneinfo.ZoneInfo: lambda value: (
        (TEXTED, ["ZoneInfo", value.key]) if value.key else "a time zone without a name is not supported"
    ),
    _raised.Told: lambda value: (EXCEPTION, value.parts),
}


def _not_registered(cls: type) -> str:
    return f"{cls.__name__} is not registered: allow it with quorate.register"


def _advice(cls: type) -> str | None:
    if cls.__module__.partition(".")[0] in sys.stdlib_module_names:
        return None
    if hasattr(cls, "__dataclass_fields__"):
        return _not_registered(cls)
    return f"{cls.__name__} is not supported: make it a data class, or send what is needed of it"


def build(tag: int, content: Any) -> Any:
    """The value of a tag and its plain content."""
    match tag, content:
        case 60008, bytes():
            return bytearray(content)
        case 60009, [int() as microseconds, offset, name, bool() as fold]:
            return _build_time(microseconds, offset, name, fold)
        case 60010, [list() as items, longest]:
            return deque(items, longest)
        case 60011, [str() as kind, dict() as entries, str() | None as factory]:
            return _build_map(kind, entries, factory)
        case 60012, [str() as class_name, dict() as fields]:
            return _build_record(_names.expect(class_name), fields)
        case 60013, [str() as class_name, plain]:
            return _build_extended(_names.expect(class_name), plain)
        case 60014, [str() as kind, str() as text]:
            return _build_texted(kind, text)
        case 60015, [int() as start, int() as stop, int() as step]:
            return range(start, stop, step)
        case 60024, [start, stop, step]:
            return slice(start, stop, step)
        case 60025, str():
            return _SINGLETONS[content]
        case 60026, list():
            return _raised.exception_of(content, may_construct=False)
        case 60027, [str() as form, shape, bytes() as data]:
            return _numbers.build(form, shape, data)
    raise MalformedValue(f"no value has tag {tag} with a {type(content).__name__}")


def _build_time(microseconds: int, offset: int | None, name: str | None, fold: bool) -> datetime.time:
    zone: datetime.tzinfo | None = None
    if name is not None:
        zone = zoneinfo.ZoneInfo(name)
    elif offset is not None:
        zone = datetime.timezone(datetime.timedelta(microseconds=offset))
    seconds, microsecond = divmod(microseconds, 1_000_000)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    return datetime.time(hour, minute, second, microsecond, zone, fold=int(fold))


def _build_map(kind: str, entries: dict[Any, Any], factory: Any) -> Any:
    match kind:
        case "ordered":
            return OrderedDict(entries)
        case "counter":
            return Counter(entries)
        case "default":
            # A factory that is not known here is left out: a copy needs it only to grow.
            found = next((cls for cls, name in _FACTORIES.items() if name == factory), None)
            return defaultdict(found or (_names.find(factory) if factory else None), entries)
    raise MalformedValue(f"no map is called {kind!r}")


def _build_record(cls: type, fields: dict[str, Any]) -> Any:
    if not (issubclass(cls, tuple) and tuple(fields) == getattr(cls, "_fields", None)):
        raise MalformedValue(f"{_names.name_of(cls)} is not a named tuple of these fields")
    return cls(**fields)


def _build_extended(cls: type, plain: Any) -> Any:
    if type(plain) not in _EXTENDABLE or not issubclass(cls, type(plain)):
        raise MalformedValue(f"{_names.name_of(cls)} does not extend {type(plain).__name__}")
    return cls(plain)


_READERS: dict[str, Callable[[str], Any]] = {
    "PurePosixPath": pathlib.PurePosixPath,
    "PosixPath": pathlib.PurePosixPath if os.name == "nt" else pathlib.PosixPath,
    "PureWindowsPath": pathlib.PureWindowsPath,
    "WindowsPath": pathlib.WindowsPath if os.name == "nt" else pathlib.PureWindowsPath,
    "complex": complex,
    "IPv4Address": ipaddress.IPv4Address,
    "IPv6Address": ipaddress.IPv6Address,
    "IPv4Network": ipaddress.IPv4Network,
    "IPv6Network": ipaddress.IPv6Network,
    "ZoneInfo": zoneinfo.ZoneInfo,
}


def _build_texted(kind: str, text: str) -> Any:
    if kind == "Fraction":
        # Not by its own reader, which takes exponents and makes integers of any size of them.
        above, _, below = text.partition("/")
        return fractions.Fraction(int(above), int(below))
    return _READERS[kind](text)
