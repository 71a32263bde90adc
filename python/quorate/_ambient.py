"""What values of unknown type may do: special methods, methods and attributes of classes.

A value that a method finds in a container, or gets as an argument, is of a type of Python or of a class whose
package is allowed (`quorate._names`): no other is kept or sent. So what an operator or an attribute of
such a value runs is found by looking at these classes.
"""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Iterator
from typing import Any

from quorate import _names, _pure_names, _standard

_CARRIED = frozenset(
    [
        "builtins",
        "collections",
        "datetime",
        "decimal",
        "fractions",
        "uuid",
        "pathlib",
        "queue",
        "threading",
        "_thread",
        "_queue",
        "ipaddress",
        "re",
        "enum",
        "random",
        "statistics",
        "array",
        "itertools",
        "functools",
        "zoneinfo",
        "types",
        "logging",
        "weakref",
        "_weakref",
        "contextvars",
        "_contextvars",
        "operator",
        "_random",
        "_decimal",
        "_collections",
    ]
)
"""Modules of the standard library with classes that `_standard`, `_content` and `_callables` carry."""

_PLAIN_MEMBERS = (types.MemberDescriptorType, types.GetSetDescriptorType)


def mark() -> tuple[int, str, int]:
    """Changes when modules are loaded or packages are allowed, and with them the classes that there are."""
    return len(sys.modules), next(reversed(sys.modules)), len(_names.packages())


def classes() -> tuple[type, ...]:
    """All classes that exist now."""
    return _classes_at(mark())


@functools.lru_cache(maxsize=2)
def _classes_at(_mark: tuple[int, str, int]) -> tuple[type, ...]:
    found: dict[int, type] = {}
    waiting: list[type] = [object]
    while waiting:
        cls = waiting.pop()
        below: type
        for below in type.__subclasses__(cls):
            if id(below) not in found:
                found[id(below)] = below
                waiting.append(below)
    return tuple(found.values())


def is_own(cls: type) -> bool:
    """Whether values of the class can be in a state or in arguments, and its methods are read."""
    return _names.is_allowed_module(cls.__module__) or _names.is_allowed(cls)


def is_own_function(function: types.FunctionType) -> bool:
    """Whether a function is of an allowed package."""
    return _names.is_allowed_module(function.__module__ or "")


@functools.lru_cache(maxsize=2048)
def _holders(name: str, _mark: tuple[int, str, int]) -> tuple[tuple[type, Any], ...]:
    return tuple((cls, vars(cls)[name]) for cls in _classes_at(_mark) if name in vars(cls))


def own_members(name: str) -> Iterator[tuple[type, Any]]:
    """What the classes of allowed packages have under a name."""
    return ((cls, member) for cls, member in _holders(name, mark()) if is_own(cls))


def others_with_method(name: str) -> type | None:
    """A class outside of the allowed packages of which a method of that name may change its instance."""
    if name in _pure_names.HARMLESS:
        return None
    return next((cls for cls, _ in _holders(name, mark()) if not is_own(cls) and _counts(cls)), None)


def others_with_computed(name: str) -> type | None:
    """A class outside of the allowed packages of which an attribute of that name runs code."""
    if name in _pure_names.ATTRIBUTES:
        return None
    computed = (
        cls
        for cls, member in _holders(name, mark())
        if hasattr(type(member), "__get__")
        and not isinstance(member, (*_PLAIN_MEMBERS, types.FunctionType, types.BuiltinFunctionType))
        and not isinstance(member, types.MethodDescriptorType | classmethod | staticmethod | type)
    )
    return next((cls for cls in computed if not is_own(cls) and _counts(cls)), None)


def _counts(cls: type) -> bool:
    """Whether a state can hold instances: of the standard library only what snapshots carry."""
    top = _names.top_of(cls.__module__)
    if top not in sys.stdlib_module_names:
        return top != "quorate"
    return top in _CARRIED or cls in _standard.STANDARD or _standard.is_harmless_module(cls.__module__)


def lookup(cls: type, name: str, after: type | None = None) -> tuple[type, Any] | None:
    """The class that has a name for a class, and what it has; `after` skips as super() does."""
    order = cls.__mro__
    start = order.index(after) + 1 if after is not None and after in order else 0
    return next(((base, vars(base)[name]) for base in order[start:] if name in vars(base)), None)
