"""Classes by name: only these may be sent or kept in snapshots.

A class is allowed when it was registered, or when its module lies in the package of a registered class.
Names from the wire are looked up here; nothing is imported because a client named it. A snapshot may name
modules that a method had imported: those of allowed packages are imported again while it is read.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
import threading
import types
import typing
from collections.abc import Iterator
from typing import Any, TypeVar

from quorate._errors import MalformedValue

C = TypeVar("C")

OBJECTS = "quorate.objects"
"""The one part of this package whose classes are users' classes: it counts as a package of its own."""

_classes: dict[str, type] = {}
_packages: set[str] = {OBJECTS}


class _Restoring(threading.local):
    """Whether this thread reads what a replica wrote: the threads of a worker do so side by side."""

    is_on = False


_restoring = _Restoring()


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


def keep(cls: type[C]) -> type[C]:
    """Allow instances of one class alone to be kept in states."""
    _classes[name_of(cls)] = cls
    return cls


def class_of(value: Any) -> Any:
    """The class that a type with arguments is made of; everything else is what it is.

    >>> class_of(list[int]), class_of(int), class_of(3)
    (<class 'list'>, <class 'int'>, 3)
    """
    origin = typing.get_origin(value)
    return origin if isinstance(origin, type) else value


def allow_package(module: str) -> None:
    """Allow all classes of the module's top package."""
    top = top_of(module)
    if top not in ("builtins", "quorate"):
        _packages.add(top)


def top_of(name: str) -> str:
    """The top package of a module, or of what lies in one.

    >>> top_of("bank.accounts"), top_of("quorate._names"), top_of("quorate.objects._stack")
    ('bank', 'quorate', 'quorate.objects')
    """
    return OBJECTS if f"{name}.".startswith(f"{OBJECTS}.") else name.partition(".")[0]


def package_of(cls: type) -> str:
    """The top package of a class."""
    return top_of(home_of(cls.__module__))


def home_of(module: str) -> str:
    """Where a module is loaded that calls itself so: some C extensions leave their package out."""
    if module in sys.modules:
        return module
    beneath = f".{module}"
    homes = (name for name in sorted(sys.modules) if name.endswith(beneath) and is_allowed_module(name))
    return next(homes, module)


def packages() -> set[str]:
    """The packages that are allowed."""
    return _packages


def is_allowed_module(module: str) -> bool:
    """Whether the module lies in an allowed package."""
    return top_of(module) in _packages


def names_of(value: Any) -> Iterator[str]:
    """The names that loaded modules of allowed packages, and their classes, have for a value."""
    return (name for name, member in global_values() if member is value)


def global_values() -> Iterator[tuple[str, Any]]:
    """Names and values of the variables of loaded modules of allowed packages, and of the classes in them."""
    for module_name, module in sorted(sys.modules.items()):
        if module is not None and is_allowed_module(module_name):
            yield from values_of(module_name, module)


def values_of(module_name: str, module: types.ModuleType) -> Iterator[tuple[str, Any]]:
    """Names and values of the variables of a module, and of the classes that it defines."""
    for name, member in list(vars(module).items()):
        yield f"{module_name}.{name}", member
        # Not what a member says of itself: that may be code of its class.
        if issubclass(type(member), type) and member.__module__ == module_name:
            for inner, value in list(vars(member).items()):
                yield f"{module_name}.{name}.{inner}", value


def name_of(cls: type) -> str:
    """The name of a class on the wire."""
    return f"{home_of(cls.__module__)}.{cls.__qualname__}"


def is_allowed(cls: type) -> bool:
    """Whether instances of the class may be sent or kept."""
    return _classes.get(name_of(cls)) is cls or (package_of(cls) in _packages and find(name_of(cls)) is cls)


def find(name: str) -> Any:
    """The class (or function) of that name in an allowed module that is loaded; None if there is none.

    Only what the module itself defines counts: what it has imported is reached through its attributes too.
    """
    known = _classes.get(name)
    if known is not None:
        return known
    if top_of(name) not in _packages:
        return None
    found = _find_loaded(name)
    return _find_loaded(name) if found is None and import_for(name) else found


def expect(name: str) -> type:
    """The class of that name; refuses bytes that name none."""
    found = find(name)
    if not isinstance(found, type):
        raise MalformedValue(f"class {name} is not known here: register it with quorate.register")
    return found


@contextlib.contextmanager
def restoring() -> Iterator[None]:
    """While a snapshot is read that this or another replica wrote."""
    _restoring.is_on = True
    try:
        yield
    finally:
        _restoring.is_on = False


def import_for(name: str) -> bool:
    """Import the module of a name in a snapshot, if its package is allowed. Says whether there is one."""
    module_name = name.rpartition(".")[0]
    while _restoring.is_on and module_name and is_allowed_module(module_name):
        with contextlib.suppress(ImportError):
            importlib.import_module(module_name)
            return True
        module_name = module_name.rpartition(".")[0]
    return False


def _find_loaded(name: str) -> Any:
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
    # Functions of C extensions have types of their own.
    is_function = isinstance(found, types.FunctionType | types.BuiltinFunctionType) or (
        type(found).__name__ == "cython_function_or_method"
    )
    is_own = (isinstance(found, type) or is_function) and (
        found.__qualname__ == ".".join(path)
        and isinstance(found.__module__, str)
        and home_of(found.__module__) == module.__name__
    )
    return found if is_own else None
