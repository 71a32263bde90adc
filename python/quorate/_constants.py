"""Constants of modules and classes: values that cannot change, kept by the name that a module has for them.

A method that stores the constant once more stores the same object again. After a restore it must still be the
same one, or a replica that was restored would have two where the others have one.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import fractions
import functools
import importlib
import ipaddress
import math
import pathlib
import re
import sys
import types
import uuid
from typing import Any

from quorate import _content, _names
from quorate._errors import MalformedValue

_KINDS = (
    *(tuple, frozenset, datetime.time, datetime.tzinfo, datetime.date, fractions.Fraction, re.Pattern),
    *(pathlib.PurePath, ipaddress.IPv4Address, ipaddress.IPv6Address, complex, range),
)

_FIXED = (
    *(type(None), bool, int, float, complex, str, bytes, decimal.Decimal, datetime.timedelta, uuid.UUID),
    *(type, types.FunctionType, types.BuiltinFunctionType, types.ModuleType, enum.Enum),
)
_DEPTH_MAX = 16

marked: set[type] = set()
"""Classes of markers: of `MISSING = Missing()`, without fields, one may only know that it is this one."""
_may_be: dict[type, bool] = {}
_imported_with: dict[int, dict[str, Any]] = {}
"""Fields of constants when their modules had been imported."""
_names_of: dict[int, tuple[Any, list[str]]] = {}
_by_name: dict[str, Any] = {}
_seen: set[str] = set()
_modules_seen = 0


def may_be(cls: type) -> bool:
    """Whether instances cannot change, as far as their class tells."""
    found = _may_be.get(cls)
    if found is None:
        parameters = getattr(cls, "__dataclass_params__", None)
        is_frozen = dataclasses.is_dataclass(cls) and bool(getattr(parameters, "frozen", False))
        # Some of these ask their subclasses, whose code is users' code.
        is_kind = any(base is kind for base in cls.__mro__ for kind in _KINDS)
        found = _may_be[cls] = (is_kind or is_frozen) and not issubclass(cls, enum.Enum)
    return found


def see(name: str, module: types.ModuleType) -> None:
    """Note what a module, which has just been imported, has under its names."""
    if name in _seen or name.partition(".")[0] in sys.stdlib_module_names:
        return
    _seen.add(name)
    for full, value in _names.values_of(name, module):
        is_marker = _is_marker(value)
        if is_marker:
            marked.add(type(value))
        is_nan = type(value) is float and math.isnan(value)
        if is_marker or is_nan or may_be(type(value)):
            _by_name[full] = value
            # Who defined it ends its import before those that have it from there.
            _names_of.setdefault(id(value), (value, []))[1].append(full)
            _imported_with.setdefault(id(value), _fields_of(value))


def _is_marker(value: Any) -> bool:
    """Whether nothing tells an instance from others but that it is this one."""
    cls = type(value)
    is_own = bool(cls.__flags__ & _content._HEAP_TYPE) and not _is_standard(cls)
    if not is_own or may_be(cls) or issubclass(cls, type) or _content.root_of(cls) is not object:
        return False
    has_hooks = any(hook in vars(base) for base in cls.__mro__[:-1] for hook in _HOOKS)
    return not has_hooks and not _fields_of(value)


_HOOKS = ("__getstate__", "__setstate__", "__reduce__", "__reduce_ex__", "__getattribute__")


def _fields_of(value: Any) -> dict[str, Any]:
    try:
        return _content.fields_of(value)
    except Exception:
        # Then it cannot be kept by fields either.
        return {}


def _see_all() -> None:
    """Note the modules that were imported while nobody looked."""
    global _modules_seen
    if len(sys.modules) != _modules_seen:
        _modules_seen = len(sys.modules)
        for name, module in sorted(sys.modules.items()):
            spec = getattr(module, "__spec__", None)
            if isinstance(module, types.ModuleType) and not getattr(spec, "_initializing", False):
                see(name, module)


def name_of(value: Any, cls: type) -> str | None:
    """The name of a constant; None for everything else."""
    _see_all()
    if not may_be(cls) and cls not in marked:
        return None
    known, names = _names_of.get(id(value), (None, []))
    if known is not value:
        return None
    allowed = next(filter(_names.is_allowed_module, names), None)
    return allowed if allowed is not None and _cannot_change(value) else None


def find(name: str) -> Any:
    """The value of a name of a module, or of a class in it."""
    _see_all()
    found = _find_loaded(name)
    if found is None and _names.import_for(name):
        _see_all()
        found = _find_loaded(name)
    if found is None:
        raise MalformedValue(f"{name} is gone: a snapshot still refers to it")
    return found


_NANS = ("math.nan", "numpy.nan")


def nan_name(value: float) -> str | None:
    """The name that `math`, `numpy` or a module of an allowed package has for a number that is none."""
    for name in _NANS:
        module, _, short = name.rpartition(".")
        if getattr(sys.modules.get(module), short, None) is value:
            return name
    _see_all()
    known, names = _names_of.get(id(value), (None, []))
    return next(filter(_names.is_allowed_module, names), None) if known is value else None


def find_nan(name: str) -> float:
    """The float of that name."""
    module, _, short = name.rpartition(".")
    found = getattr(importlib.import_module(module), short) if name in _NANS else find(name)
    if not isinstance(found, float) or not math.isnan(found):
        raise MalformedValue(f"{name} is a number now: a snapshot refers to it as none")
    return found


def _find_loaded(name: str) -> Any:
    if name in _by_name and _names.is_allowed_module(name):
        return _by_name[name]
    module_name, _, rest = name.rpartition(".")
    steps = [rest]
    while module_name and module_name not in sys.modules:
        module_name, _, rest = module_name.rpartition(".")
        steps.insert(0, rest)
    found: Any = sys.modules.get(module_name) if _names.is_allowed_module(module_name) else None
    for step in steps if found is not None else ():
        if step not in getattr(found, "__dict__", {}):
            return None
        found = vars(found)[step]
    return found if len(steps) <= 2 else None


def _cannot_change(value: Any) -> bool:
    """Whether it is as it was imported, and nothing inside it can change either."""
    # Its hash is not asked for: that may be an agreed number, which only calls give.
    return type(value).__hash__ is not None and _is_fixed(value, _DEPTH_MAX)


def _is_fixed(value: Any, depth: int) -> bool:
    cls = type(value)
    if depth == 0:
        return False
    if isinstance(value, tuple | frozenset):
        items = tuple.__iter__(value) if isinstance(value, tuple) else frozenset.__iter__(value)
        if not all(_is_fixed(item, depth - 1) for item in items):
            return False
    if isinstance(value, _FIXED) or _is_standard(cls):
        # Paths and such fill in what follows from the rest.
        return isinstance(value, _FIXED) or may_be(cls)
    if not may_be(cls) and cls not in marked:
        return False
    fields, before = _fields_of(value), _imported_with.get(id(value))
    known, _ = _names_of.get(id(value), (None, []))
    if known is value and before is not None and not _is_same(cls, fields, before):
        return False
    return (may_be(cls) or not fields) and all(_is_fixed(item, depth - 1) for item in fields.values())


def _is_standard(cls: type) -> bool:
    # Of some classes the module is a property, and no text.
    return str(getattr(cls, "__module__", "")).partition(".")[0] in sys.stdlib_module_names


def _is_same(cls: type, fields: dict[str, Any], before: dict[str, Any]) -> bool:
    """Whether fields are those of the import, except for properties that were calculated since."""
    missing = object()
    return all(fields.get(name, missing) is item for name, item in before.items()) and all(
        isinstance(getattr(cls, name, None), functools.cached_property) for name in fields.keys() - before
    )
