"""Constants of modules and classes: values that cannot change, kept by the name that a module has for them.

A method that stores the constant once more stores the same object again. After a restore it must still be the
same one, or a replica that was restored would have two where the others have one.
"""

from __future__ import annotations

import dataclasses
import datetime
import enum
import fractions
import ipaddress
import pathlib
import re
import sys
import types
from typing import Any

from quorate import _names
from quorate._errors import MalformedValue

_KINDS = (
    *(tuple, frozenset, datetime.time, datetime.tzinfo, datetime.date, fractions.Fraction, re.Pattern),
    *(pathlib.PurePath, ipaddress.IPv4Address, ipaddress.IPv6Address, complex, range),
)

_may_be: dict[type, bool] = {}
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
        found = _may_be[cls] = (issubclass(cls, _KINDS) or is_frozen) and not issubclass(cls, enum.Enum)
    return found


def see(name: str, module: types.ModuleType) -> None:
    """Note what a module, which has just been imported, has under its names."""
    if name in _seen or name.partition(".")[0] in sys.stdlib_module_names:
        return
    _seen.add(name)
    for full, value in _names.values_of(name, module):
        if may_be(type(value)):
            _by_name[full] = value
            # Who defined it ends its import before those that have it from there.
            _names_of.setdefault(id(value), (value, []))[1].append(full)


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
    if not may_be(cls):
        return None
    _see_all()
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
    """Whether nothing inside it can change either: then it has a hash."""
    try:
        hash(value)
    except Exception:
        return False
    return True
