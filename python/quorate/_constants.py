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
from typing import Any

from quorate import _names
from quorate._errors import MalformedValue

_KINDS = (
    *(tuple, frozenset, datetime.time, datetime.tzinfo, datetime.date, fractions.Fraction, re.Pattern),
    *(pathlib.PurePath, ipaddress.IPv4Address, ipaddress.IPv6Address, complex, range),
)

_may_be: dict[type, bool] = {}
_known: dict[int, tuple[str, Any]] = {}
_known_for: tuple[int, int] = (0, 0)


def may_be(cls: type) -> bool:
    """Whether instances cannot change, as far as their class tells."""
    found = _may_be.get(cls)
    if found is None:
        parameters = getattr(cls, "__dataclass_params__", None)
        is_frozen = dataclasses.is_dataclass(cls) and bool(getattr(parameters, "frozen", False))
        found = _may_be[cls] = (issubclass(cls, _KINDS) or is_frozen) and not issubclass(cls, enum.Enum)
    return found


def name_of(value: Any, cls: type) -> str | None:
    """The name of a constant; None for everything else."""
    if not may_be(cls):
        return None
    known = _constants().get(id(value))
    return known[0] if known is not None and known[1] is value else None


def find(name: str) -> Any:
    """The value of a name of a module, or of a class in it."""
    found = _find_loaded(name)
    if found is None and _names.import_for(name):
        found = _find_loaded(name)
    if found is None:
        raise MalformedValue(f"{name} is gone: a snapshot still refers to it")
    return found


def _find_loaded(name: str) -> Any:
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


def _constants() -> dict[int, tuple[str, Any]]:
    global _known, _known_for
    now = len(sys.modules), len(_names.packages())
    if now != _known_for:
        _known_for = now
        _known = {
            id(value): (name, value)
            for name, value in _names.global_values()
            if may_be(type(value)) and _cannot_change(value)
        }
    return _known


def _cannot_change(value: Any) -> bool:
    """Whether nothing inside it can change either: then it has a hash."""
    try:
        hash(value)
    except Exception:
        return False
    return True
