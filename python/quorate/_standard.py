"""What the standard library has that an object may keep: containers, locks, times, iterators, functions.

A kind stands here when its content can be read and given back whole, and when nothing but the content comes
with it: no file, no socket, no running thread.
"""

from __future__ import annotations

import ast
import collections
import dataclasses
import datetime
import functools
import gc
import importlib
import io
import itertools
import logging
import operator
import pathlib
import random
import re
import sys
import threading
import types
import weakref
import zoneinfo
from collections.abc import Callable
from typing import Any, cast

from quorate import _content, _on_disk

Parts = tuple[str, tuple[Any, ...], Any]

_Lock: type = type(threading.Lock())
_RLock: type = type(threading.RLock())


def _pairs(value: Any) -> list[list[Any]]:
    return [list(pair) for pair in value.items()]


def _by_reduce(value: Any) -> Parts:
    """Iterators and such: what their own C code says of them."""
    made_by, arguments, *rest = value.__reduce__()
    if made_by is iter and not rest:
        # It is past its end, where it stays even if what it went over grows.
        return "builtins.iter past its end", arguments, None
    state = [rest[0], [], [], "by reduce"] if rest else None
    return "reduce", (_SAFE_NAMES[made_by], arguments), state


def _cycle(value: Any) -> Parts:
    """A cycle in its first round by how far it is; later by what comes, which it may hold in several ways."""
    made_by, (source,), (seen, is_later) = value.__reduce__()
    if not is_later:
        return "reduce", (_SAFE_NAMES[made_by], (source,)), [(seen, is_later), [], [], "by reduce"]
    _, (rest,), *index = source.__reduce__()
    turned = (index[0] if index and rest else 0) % (len(seen) or 1)
    return "itertools.cycle", (seen[turned:] + seen[:turned],), None


def _make_cycle(items: list[Any]) -> Any:
    made: Any = itertools.cycle(())
    made.__setstate__((items, 1))
    return made


def _past_its_end(over: Any) -> Any:
    iterator = iter(over)
    for _ in iterator:
        pass
    return iterator


def _open_lock(value: Any) -> Parts:
    return "threading.Lock", (True,) if value.locked() else (), None


def _held_lock(is_held: bool = False) -> Any:
    lock = threading.Lock()
    if is_held:
        lock.acquire()
    return lock


def _logger(value: logging.Logger) -> Parts:
    return "logging.Logger", () if value.name == "root" else (value.name,), None


def _compile(pattern: Any, flags: int) -> re.Pattern[Any]:
    """With the flags that were asked for, not those that follow: by these `re` knows what it has compiled."""
    plain = re.compile(pattern)
    return plain if plain.flags == flags else re.compile(pattern, flags & ~re.UNICODE)


def _buffer(value: Any) -> Parts:
    """A file in memory: content, place, and how it ends its lines."""
    name = f"io.{type(value).__name__}"
    return (name, (True,), None) if value.closed else (name, (), value.__getstate__())


def _make_buffer(kind: Callable[[], Any]) -> Callable[..., Any]:
    def make(is_closed: bool = False) -> Any:
        buffer = kind()
        if is_closed:
            buffer.close()
        return buffer

    return make


def _path(value: pathlib.PurePath) -> Parts:
    # A path fills its slots when they are asked for, so they are no state.
    return f"pathlib.{type(value).__name__}", value.parts, None


STANDARD: dict[type, Callable[[Any], Parts]] = {
    collections.deque: lambda v: ("collections.deque", (v.maxlen,), list(v)),
    collections.defaultdict: lambda v: ("collections.defaultdict", (), [v.default_factory, _pairs(v)]),
    collections.OrderedDict: lambda v: ("collections.OrderedDict", (), _pairs(v)),
    collections.Counter: lambda v: ("collections.Counter", (), _pairs(v)),
    bytearray: lambda v: ("builtins.bytearray", (), bytes(v)),
    complex: lambda v: ("builtins.complex", (v.real, v.imag), None),
    range: lambda v: ("builtins.range", (v.start, v.stop, v.step), None),
    slice: lambda v: ("builtins.slice", (v.start, v.stop, v.step), None),
    type(Ellipsis): lambda _: ("builtins.Ellipsis", (), None),
    type(NotImplemented): lambda _: ("builtins.NotImplemented", (), None),
    itertools.cycle: _cycle,
    _Lock: _open_lock,
    _RLock: lambda _: ("threading.RLock", (), None),
    random.Random: lambda v: ("random.Random", (), v.getstate()),
    weakref.ref: lambda v: ("weakref.ref", (v(), v.__callback__), None),
    # It has no state: what it gives comes from the call.
    random.SystemRandom: lambda _: ("random.SystemRandom", (), None),
    io.StringIO: _buffer,
    io.BytesIO: _buffer,
    logging.Logger: _logger,
    logging.RootLogger: _logger,
    re.Pattern: lambda v: ("re.Pattern", (v.pattern, v.flags), None),
    datetime.time: lambda v: (
        "datetime.time",
        (v.hour, v.minute, v.second, v.microsecond, v.tzinfo, v.fold),
        None,
    ),
    datetime.timezone: lambda v: ("datetime.timezone", v.__getinitargs__(), None),
    zoneinfo.ZoneInfo: lambda v: ("zoneinfo.ZoneInfo", (v.key,), None),
    # Other replicas, and a host that starts, have none of these files.
    _on_disk.OnDisk: lambda v: ("quorate.OnDisk", (_on_disk.content_of(v),), None),
}
WITH_FIELDS = (collections.OrderedDict, collections.Counter, random.Random, random.SystemRandom)
"""Kinds above whose instances can have fields beside their content."""


def fields_of(value: Any) -> dict[str, Any]:
    """What somebody has bound on an instance of a kind above.

    >>> generator = random.Random(1)
    >>> generator.name = "dice"
    >>> fields_of(generator)
    {'name': 'dice'}
    """
    if type(value) not in WITH_FIELDS:
        return {}
    # It is in what getstate tells.
    return {name: item for name, item in vars(value).items() if name != "gauss_next"}


_VIEWS: dict[type, str] = {type({}.keys()): "keys", type({}.values()): "values", type({}.items()): "items"}
# What a view or a proxy shows is the one thing that it refers to.
STANDARD |= dict.fromkeys(_VIEWS, lambda v: (f"dict.{_VIEWS[type(v)]}", (gc.get_referents(v)[0],), None))
STANDARD[types.MappingProxyType] = lambda v: ("types.MappingProxyType", (gc.get_referents(v)[0],), None)
STANDARD[type(dataclasses.MISSING)] = lambda _: ("dataclasses.MISSING", (), None)
STANDARD[types.GenericAlias] = lambda v: ("types.GenericAlias", (v.__origin__, v.__args__), None)
STANDARD |= dict.fromkeys(
    (pathlib.PurePosixPath, pathlib.PureWindowsPath, pathlib.PosixPath, pathlib.WindowsPath), _path
)
STANDARD |= dict.fromkeys(
    (
        *(itertools.count, itertools.repeat, enumerate, zip, reversed, type(reversed([]))),
        *(type(iter(of)) for of in cast("tuple[Any, ...]", ([], (), range(0), "", "ü", b""))),
        *(operator.itemgetter, operator.attrgetter, operator.methodcaller),
    ),
    _by_reduce,
)

MAKERS: dict[str, Callable[..., Any]] = {
    "dataclasses.MISSING": lambda: dataclasses.MISSING,
    "collections.deque": lambda maxlen: collections.deque(maxlen=maxlen),
    "collections.defaultdict": collections.defaultdict,
    "collections.OrderedDict": collections.OrderedDict,
    "collections.Counter": collections.Counter,
    "builtins.bytearray": bytearray,
    "builtins.complex": complex,
    "builtins.range": range,
    "builtins.slice": slice,
    "builtins.Ellipsis": lambda: ...,
    "builtins.NotImplemented": lambda: NotImplemented,
    "builtins.iter past its end": _past_its_end,
    "dict.keys": dict.keys,
    "dict.values": dict.values,
    "dict.items": dict.items,
    "types.MappingProxyType": types.MappingProxyType,
    "types.GenericAlias": types.GenericAlias,
    "itertools.cycle": _make_cycle,
    "threading.Lock": _held_lock,
    "threading.RLock": threading.RLock,
    "random.Random": lambda: random.Random(0),
    "random.SystemRandom": random.SystemRandom,
    "io.StringIO": _make_buffer(io.StringIO),
    "io.BytesIO": _make_buffer(io.BytesIO),
    "weakref.ref": lambda *of: _content.new_reference(weakref.ref, *of),
    "logging.Logger": logging.getLogger,
    "re.Pattern": _compile,
    "datetime.time": lambda *fields: datetime.time(*fields[:5], fold=fields[5]),
    "datetime.timezone": datetime.timezone,
    "zoneinfo.ZoneInfo": zoneinfo.ZoneInfo,
    "quorate.OnDisk": _on_disk.OnDisk,
    "pathlib.PurePosixPath": pathlib.PurePosixPath,
    "pathlib.PureWindowsPath": pathlib.PureWindowsPath,
    "pathlib.PosixPath": pathlib.PosixPath,
    "pathlib.WindowsPath": pathlib.WindowsPath,
}

_SAFE_CALLABLES: dict[str, Any] = {
    f"itertools.{name}": getattr(itertools, name) for name in ("count", "cycle", "repeat")
}
_SAFE_CALLABLES |= {f"builtins.{one.__name__}": one for one in (iter, enumerate, zip, reversed)}
_SAFE_CALLABLES |= {
    f"operator.{name}": getattr(operator, name) for name in ("itemgetter", "attrgetter", "methodcaller")
}
# attrgetter of several names says that it is a partial of itself.
_SAFE_CALLABLES["functools.partial"] = functools.partial
_SAFE_NAMES = {callable_: name for name, callable_ in _SAFE_CALLABLES.items()}


def safe_callable(name: str) -> Any:
    """What may be called to make an instance of a kind of the standard library; None for all else.

    >>> safe_callable("itertools.count"), safe_callable("os.system")
    (<class 'itertools.count'>, None)
    """
    return _SAFE_CALLABLES.get(name)


_CLASSES = frozenset(
    (
        *("queue.Queue", "queue.LifoQueue", "queue.PriorityQueue"),
        *("threading.Condition", "threading.Semaphore", "threading.BoundedSemaphore", "threading.Event"),
        *("threading.Barrier", "fractions.Fraction", "types.SimpleNamespace", "functools.partial"),
        *("collections.UserDict", "collections.UserList", "collections.UserString", "collections.ChainMap"),
        *("statistics.NormalDist", "string.Template", "graphlib.TopologicalSorter", "array.array"),
        *("ipaddress.IPv4Address", "ipaddress.IPv6Address", "ipaddress.IPv4Network", "ipaddress.IPv6Network"),
        *("ipaddress.IPv4Interface", "ipaddress.IPv6Interface", "datetime.datetime", "_weakrefset.WeakSet"),
        *("_thread._local",),
        *(
            f"ast.{name}"
            for name, node in vars(ast).items()
            if isinstance(node, type) and issubclass(node, ast.AST)
        ),
    )
)
"""Classes that say with __reduce__ how they are made, and are kept by their fields all the same."""

_HARMLESS = frozenset(
    (
        *("abc", "argparse", "ast", "base64", "bisect", "calendar", "cmath", "cmd", "codecs", "collections"),
        *(
            "colorsys",
            "configparser",
            "contextlib",
            "copy",
            "csv",
            "dataclasses",
            "datetime",
            "decimal",
            "difflib",
        ),
        *("email", "enum", "fnmatch", "fractions", "functools", "getopt", "gettext", "graphlib", "hashlib"),
        *("heapq", "hmac", "html", "http", "ipaddress", "itertools", "json", "keyword", "locale", "logging"),
        *("mailbox", "math", "mimetypes", "numbers", "operator", "optparse", "pathlib", "pprint", "queue"),
        *(
            "quopri",
            "random",
            "re",
            "reprlib",
            "sched",
            "shlex",
            "statistics",
            "string",
            "stringprep",
            "struct",
        ),
        *("textwrap", "time", "token", "tokenize", "traceback", "types", "typing", "unicodedata", "urllib"),
        *("uuid", "warnings", "weakref", "weakrefset", "xml", "zlib", "zoneinfo"),
    )
)
"""Packages of the standard library whose instances stand for nothing outside: no process, no thread."""

_MODULES = frozenset(
    [
        "_operator",
        "operator",
        "math",
        "_bisect",
        "bisect",
        "_heapq",
        "heapq",
        "itertools",
        "functools",
        "_functools",
        "statistics",
        "string",
        "json",
        "json.decoder",
        "json.encoder",
        "copy",
        "re",
        "textwrap",
        "time",
        "_statistics",
        "fractions",
        "numbers",
        "collections",
    ]
)
_BUILTINS = frozenset(
    [
        "abs",
        "aiter",
        "all",
        "anext",
        "any",
        "ascii",
        "bin",
        "callable",
        "chr",
        "dir",
        "divmod",
        "format",
        "hasattr",
        "hash",
        "hex",
        "id",
        "isinstance",
        "issubclass",
        "iter",
        "len",
        "max",
        "min",
        "next",
        "oct",
        "ord",
        "pow",
        "print",
        "repr",
        "round",
        "sorted",
        "sum",
    ]
)


def class_name(cls: type) -> str | None:
    """The name under which instances of a class of the standard library are kept.

    >>> import fractions
    >>> class_name(fractions.Fraction)
    'fractions.Fraction'
    """
    if issubclass(cls, BaseException) and cls.__module__ == "builtins":
        return f"builtins.{cls.__name__}"
    name = f"{cls.__module__}.{cls.__qualname__}"
    return name if name in _CLASSES or _is_kept_by_fields(cls) else None


@functools.cache
def _is_kept_by_fields(cls: type) -> bool:
    """Whether a class of a harmless module is written in Python, and leaves all to its fields."""
    if (
        not is_harmless_module(cls.__module__)
        or cls in STANDARD
        or _loaded(cls.__module__, cls.__qualname__) is not cls
    ):
        return False
    root = _content.root_of(cls)
    hooks = ("__reduce__", "__reduce_ex__", "__getnewargs__", "__getnewargs_ex__", "__del__")
    above = cls.__mro__[: cls.__mro__.index(root)] if root is not None and root is not cls else ()
    return bool(above) and not any(hook in vars(base) for base in above for hook in hooks)


def is_harmless_module(module: str) -> bool:
    """Whether it is one of the standard library that stands for nothing outside.

    >>> is_harmless_module("email.policy"), is_harmless_module("subprocess")
    (True, False)
    """
    # What is written in C lies in a module of the same name with an underscore.
    return module.partition(".")[0].removeprefix("_") in _HARMLESS


def _loaded(module: str, qualified: str) -> Any:
    found: Any = sys.modules.get(module)
    for step in qualified.split("."):
        found = vars(found).get(step) if isinstance(found, type | types.ModuleType) else None
    return found


def find_class(name: str) -> type | None:
    """The class of a name that `class_name` gave."""
    module, _, short = name.rpartition(".")
    while module and module not in sys.modules and (name in _CLASSES or is_harmless_module(module)):
        # Who wrote the snapshot may have imported it in a method.
        try:
            importlib.import_module(module)
        except ModuleNotFoundError:
            module, _, outer = module.rpartition(".")
            short = f"{outer}.{short}"
    found = _loaded(module, short)
    return found if isinstance(found, type) and class_name(found) == name else None


def find_reference(name: str) -> Any:
    """A class or function of a harmless module, which is referred to and not called; None for all else.

    >>> find_reference("decimal.Decimal"), find_reference("builtins.object")
    (<class 'decimal.Decimal'>, <class 'object'>)
    """
    module, _, qualified = name.rpartition(".")
    while module and module not in sys.modules and is_harmless_module(module):
        try:
            importlib.import_module(module)
        except ModuleNotFoundError:
            module, _, outer = module.rpartition(".")
            qualified = f"{outer}.{qualified}"
    if module != "builtins" and not is_harmless_module(module):
        return None
    found = _loaded(module, qualified)
    kinds = (type,) if module == "builtins" else (type, types.FunctionType, types.BuiltinFunctionType)
    is_own = getattr(found, "__module__", None) in (module, f"_{module}", None)
    return found if isinstance(found, kinds) and is_own else None


def find_function(name: str) -> Any:
    """A function of the standard library that touches nothing but its arguments; None for all else.

    >>> find_function("math.sqrt"), find_function("os.system"), find_function("builtins.eval")
    (<built-in function sqrt>, None, None)
    """
    module, _, short = name.rpartition(".")
    if module not in _MODULES and (module != "builtins" or short not in _BUILTINS):
        return None
    found = getattr(importlib.import_module(module), short, None)
    is_function = isinstance(found, types.FunctionType | types.BuiltinFunctionType | type)
    return found if is_function and getattr(found, "__module__", None) == module else None
