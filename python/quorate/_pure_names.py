"""Which functions and methods of Python itself change nothing that they are given.

The search for methods that only read trusts these and no others. Left out on purpose is everything that draws
(`random`, `next`), tells the time, imports, opens or prints, and methods that change some type under a name
that is harmless for another (`get` of a queue, `replace` of a path).
"""

from __future__ import annotations

import bisect
import collections
import copy
import datetime
import decimal
import enum
import fractions
import functools
import itertools
import math
import statistics
import types
import uuid
from typing import Any

from quorate import _on_disk

CONVERTING: frozenset[Any] = frozenset(
    [abs, bin, bool, callable, chr, complex, divmod, float, format, hash, hex, int, isinstance]
    + [issubclass, len, oct, ord, pow, repr, round, str, type, decimal.Decimal, fractions.Fraction, uuid.UUID]
    + [datetime.date, datetime.datetime, datetime.time, datetime.timedelta, datetime.timezone]
    + [_on_disk.content_of]
    + [datetime.date.fromisoformat, datetime.datetime.fromisoformat, datetime.datetime.strptime]
    + [
        member
        for name, member in vars(math).items()
        if callable(member) and name not in ("sumprod", "fsum", "prod", "dist")
    ]
)
"""Called with values of any kind; what they return is new or cannot change."""

GATHERING: frozenset[Any] = frozenset(
    (
        all,
        any,
        bytes,
        enumerate,
        filter,
        frozenset,
        list,
        map,
        max,
        min,
        reversed,
        set,
        sorted,
        sum,
        tuple,
        zip,
    )
).union(
    (bytearray, collections.Counter, collections.OrderedDict, collections.deque, functools.reduce),
    (itertools.accumulate, itertools.chain, itertools.combinations, itertools.compress, itertools.groupby),
    (itertools.dropwhile, itertools.filterfalse, itertools.islice, itertools.pairwise, itertools.takewhile),
    (itertools.permutations, itertools.product, itertools.zip_longest, dict.fromkeys, math.fsum, math.prod),
    (bisect.bisect, bisect.bisect_left, bisect.bisect_right, statistics.mean, statistics.fmean),
    (statistics.median, statistics.mode, statistics.pstdev, statistics.stdev, statistics.variance),
    (statistics.pvariance, statistics.quantiles),
)
"""They go through their arguments, so each of these must be known to be no iterator of the state."""

CONVERSIONS: tuple[str, ...] = tuple(
    f"__{name}__"
    for name in [
        "len",
        "bool",
        "str",
        "repr",
        "format",
        "int",
        "float",
        "index",
        "abs",
        "round",
        "hash",
        "complex",
        "bytes",
        "trunc",
        "ceil",
        "floor",
        "divmod",
        "pow",
        "eq",
        "lt",
        "gt",
        "le",
        "ge",
        "ne",
        "add",
        "radd",
    ]
)
"""What the functions above call of the classes of their arguments."""

COPYING: frozenset[Any] = frozenset([copy.copy, copy.deepcopy])

SCALARS: tuple[type, ...] = (
    int,
    float,
    complex,
    bool,
    str,
    bytes,
    types.NoneType,
    decimal.Decimal,
    fractions.Fraction,
    datetime.date,
    datetime.datetime,
    datetime.time,
    datetime.timedelta,
    datetime.timezone,
    uuid.UUID,
    range,
    types.EllipsisType,
    types.NotImplementedType,
)
"""Types whose instances never change."""

CONTAINERS: tuple[type, ...] = (
    list,
    dict,
    set,
    frozenset,
    tuple,
    bytearray,
    collections.deque,
    collections.OrderedDict,
    collections.Counter,
    collections.defaultdict,
    type({}.keys()),
    type({}.values()),
    type({}.items()),
)
"""Types that can be gone through again and again without being changed."""

MAPPINGS = (dict, collections.OrderedDict, collections.Counter, collections.defaultdict)

INDEXED = (*(each for each in CONTAINERS if each is not collections.defaultdict), str, bytes, range)
"""Types of which an item can be looked at: a defaultdict makes what it lacks."""

_WALK = frozenset(["keys", "values", "items", "copy", "get"])
_SETS = frozenset(
    [
        "copy",
        "difference",
        "intersection",
        "isdisjoint",
        "issubset",
        "issuperset",
        "symmetric_difference",
        "union",
    ]
)
_CLOCKS = frozenset(["now", "today", "utcnow"])
_BY_FORMAT = frozenset(["format", "format_map", "translate", "maketrans"])

METHODS: dict[type, frozenset[str]] = {
    dict: _WALK,
    collections.OrderedDict: _WALK,
    collections.defaultdict: _WALK,
    collections.Counter: _WALK | {"most_common", "elements", "total"},
    list: frozenset(["copy", "count", "index"]),
    tuple: frozenset(["count", "index"]),
    range: frozenset(["count", "index"]),
    collections.deque: frozenset(["copy", "count", "index"]),
    set: _SETS,
    frozenset: _SETS,
    bytearray: frozenset(["decode", "hex", "find", "count", "startswith", "endswith", "copy"]),
    type({}.keys()): frozenset(["isdisjoint"]),
    type({}.items()): frozenset(["isdisjoint"]),
}
for _scalar in SCALARS:
    METHODS[_scalar] = METHODS.get(_scalar, frozenset()) | {
        name
        for name in dir(_scalar)
        if not name.startswith("_") and name not in _CLOCKS and name not in _BY_FORMAT
    }

CONSUMING = frozenset(
    [
        "join",
        "from_bytes",
        "union",
        "difference",
        "intersection",
        "symmetric_difference",
        "issubset",
        "issuperset",
        "isdisjoint",
        "extend",
        "update",
        "elements",
        "extendleft",
    ]
)
"""Methods that go through their arguments."""

CHANGING: dict[type, frozenset[str]] = {
    list: frozenset(["append", "extend", "insert", "remove", "pop", "clear", "sort", "reverse"]),
    dict: frozenset(["setdefault", "update", "pop", "popitem", "clear"]),
    collections.defaultdict: frozenset(["setdefault", "update", "pop", "popitem", "clear"]),
    collections.OrderedDict: frozenset(["setdefault", "update", "pop", "clear", "move_to_end"]),
    set: frozenset(["add", "discard", "remove", "update", "clear", "pop", "difference_update"]),
    collections.deque: frozenset(["append", "appendleft", "extend", "extendleft", "pop", "popleft", "clear"]),
    collections.Counter: frozenset(["update", "subtract", "pop", "clear", "setdefault"]),
}
"""Methods that may be called on what the call itself has made."""

HARMLESS = frozenset(
    [
        "keys",
        "values",
        "items",
        "copy",
        "count",
        "index",
        "isoformat",
        "upper",
        "lower",
        "title",
        "strip",
        "lstrip",
        "rstrip",
        "startswith",
        "endswith",
        "split",
        "rsplit",
        "splitlines",
        "total",
        "weekday",
        "isdigit",
        "isalpha",
        "isalnum",
        "isspace",
        "isupper",
        "islower",
        "casefold",
        "capitalize",
        "date",
        "timestamp",
        "strftime",
        "total_seconds",
        "quantize",
        "bit_length",
        "is_integer",
        "conjugate",
        "most_common",
        "issubset",
        "issuperset",
        "isdisjoint",
        "encode",
        "isoweekday",
        "as_integer_ratio",
    ]
)
"""Methods that change no type of Python that has them."""

ATTRIBUTES = frozenset(["name", "value", "args", "parent", "stem", "suffix", "parts"])
"""Attributes that are computed by some type of Python, and that change none."""

METACLASSES: tuple[type, ...] = (type, type(collections.abc.Hashable), enum.EnumType)
"""What makes classes without doing anything when an instance is made."""
