"""Classes by name: only these may be sent or kept in snapshots.

A class is allowed when it was registered, or when its module lies in the package of a registered class.
Names from the wire are looked up here; nothing is imported because a peer named it.
"""

from __future__ import annotations

import sys
import types
from typing import Any, TypeVar

C = TypeVar("C")

_classes: dict[str, type] = {}
_packages: set[str] = set()


def register(cls: type[C]) -> type[C]:
    """Allow instances of a class, and of the classes of its package, to be sent and kept.

    >>> import enum
    >>> class Colour(enum.Enum):
    ...     RED = 1
    >>> register(Colour) is Colour
    True
    """
    _classes[name_of(cls)] = cls
    allow_package(cls.__module__)
    return cls


def allow_package(module: str) -> None:
    """Allow all classes of the module's top package."""
    top = module.partition(".")[0]
    if top not in ("builtins", "quorate"):
        _packages.add(top)


def name_of(cls: type) -> str:
    """The name of a class on the wire."""
    return f"{cls.__module__}.{cls.__qualname__}"


def is_allowed(cls: type) -> bool:
    """Whether instances of the class may be sent or kept."""
    return _classes.get(name_of(cls)) is cls or (
        cls.__module__.partition(".")[0] in _packages and find(name_of(cls)) is cls
    )


def find(name: str) -> Any:
    """The class (or function) of that name in an allowed module that is loaded; None if there is none.

    Only what the module itself defines counts: what it has imported is reached through its attributes too.
    """
    known = _classes.get(name)
    if known is not None:
        return known
    if name.partition(".")[0] not in _packages:
        return None
    module_name, _, rest = name.rpartition(".")
    path = [rest]
    while module_name:
        module = sys.modules.get(module_name)
        if module is not None:
            return _own(module, path)
        module_name, _, rest = module_name.rpartition(".")
        path.insert(0, rest)
    return None


def _own(module: Any, path: list[str]) -> Any:
    found: Any = module
    for step in path:
        if found is not module and not isinstance(found, type):
            return None
        found = getattr(found, step, None)
    is_own = isinstance(found, type | types.FunctionType) and (
        (found.__module__, found.__qualname__) == (module.__name__, ".".join(path))
    )
    return found if is_own else None
