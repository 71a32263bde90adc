"""Calls that change the whole process: settings of modules, and what classes are registered with.

Another process does not have such a change after a restart, and no snapshot has it. The source is read only.
What the constructor changes is left aside: that runs at each start.
"""

from __future__ import annotations

import abc
import ast
import decimal
import functools
import inspect
import logging
import sys
import warnings
from collections.abc import Iterator
from typing import Any

from quorate._sources import UNKNOWN, Scope

_Place = tuple[Any, str, str]
"""Node, what is changed there, and how."""

_SETTINGS: dict[str, tuple[str, ...]] = {
    "setcontext": ("decimal",),
    "setfirstweekday": ("calendar",),
    "register_dialect": ("csv",),
    "unregister_dialect": ("csv",),
    "field_size_limit": ("csv",),
    "filterwarnings": ("warnings",),
    "simplefilter": ("warnings",),
    "resetwarnings": ("warnings",),
    "setlocale": ("locale",),
    "register_namespace": ("xml.etree.ElementTree",),
    "add_type": ("mimetypes",),
    "register": ("codecs", "atexit"),
    "register_error": ("codecs",),
    "pickle": ("copyreg",),
    "setrecursionlimit": ("sys",),
    "set_int_max_str_digits": ("sys",),
    "seterr": ("numpy",),
    "seterrcall": ("numpy",),
    "set_printoptions": ("numpy",),
    "set_option": ("pandas",),
    "reset_option": ("pandas",),
}
"""Functions that change a module for everybody, by name, and the modules that have them."""
_OF_WARNINGS = ("filterwarnings", "simplefilter", "resetwarnings")
_OF_LOGGERS = frozenset(("setLevel", "addHandler", "removeHandler", "addFilter", "removeFilter"))
_OF_LOGGING = (logging.basicConfig, logging.disable, logging.addLevelName, logging.setLoggerClass)


def settings(scope: Scope) -> Iterator[_Place]:
    """What a function changes for the whole process."""
    if scope.function.__name__ == "__init__":
        return
    called = {id(scope.named(node.func)) for node in scope.nodes() if isinstance(node, ast.Call)}
    for node in scope.nodes():
        if isinstance(node, ast.Call):
            name = _setting(scope.named(node.func))
            # Inside of this the filters are put back.
            is_put_back = name.rpartition(".")[2] in _OF_WARNINGS and id(warnings.catch_warnings) in called
            if name and not is_put_back:
                yield node, name, "called"
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) and node.attr == "register":
            name = _registry(scope, node.value)
            if name:
                yield node, name, "registered with"
        elif id(decimal.localcontext) not in called and _is_of_context(scope, node):
            yield node, "decimal.getcontext()", "changed"


def _setting(function: Any) -> str:
    """The name of a function that changes a module, or ''."""
    short = getattr(function, "__name__", "") if function is not UNKNOWN else ""
    modules = _SETTINGS.get(short, ()) if isinstance(short, str) else ()
    found = (module for module in modules if getattr(sys.modules.get(module), short, None) is function)
    return next((f"{module}.{short}" for module in found), "")


def _registry(scope: Scope, node: ast.expr) -> str:
    """The abstract class, or the function of several kinds, that an expression is, or ''."""
    value = scope.named(node)
    if scope.owner is not None and isinstance(node, ast.Attribute) and scope.is_self(node.value):
        value = inspect.getattr_static(scope.owner, node.attr, UNKNOWN)
    if isinstance(value, functools.singledispatchmethod):
        return ast.unparse(node)
    if isinstance(value, abc.ABCMeta):
        # Not a class method of that name.
        return "" if hasattr(value, "__mro__") and _has_own(value, "register") else value.__qualname__
    is_dispatched = callable(value) and hasattr(value, "registry") and hasattr(value, "dispatch")
    return str(getattr(value, "__name__", "")) if is_dispatched else ""


def _has_own(cls: type, name: str) -> bool:
    return any(name in vars(base) for base in cls.__mro__)


def _is_of_context(scope: Scope, node: Any) -> bool:
    """Whether a node stores into decimal.getcontext()."""
    if not isinstance(node, ast.Attribute | ast.Subscript) or not isinstance(node.ctx, ast.Store):
        return False
    base: Any = node
    while isinstance(base, ast.Attribute | ast.Subscript):
        base = base.value
    return isinstance(base, ast.Call) and scope.named(base.func) is decimal.getcontext


def of_loggers(scope: Scope, held: set[str]) -> Iterator[ast.Call]:
    """Calls that change what is logged, also of loggers that the instance holds under these names."""
    if scope.function.__name__ == "__init__":
        return
    for node in scope.nodes():
        if not isinstance(node, ast.Call):
            continue
        function = node.func
        is_of_one = isinstance(function, ast.Attribute) and function.attr in _OF_LOGGERS
        is_of_all = any(scope.named(function) is each for each in _OF_LOGGING)
        if is_of_all or (is_of_one and _is_logger(scope, function.value, held)):  # type: ignore[attr-defined]
            yield node


def _is_logger(scope: Scope, node: ast.expr, held: set[str]) -> bool:
    if isinstance(node, ast.Attribute) and scope.is_self(node.value):
        return node.attr in held
    if isinstance(node, ast.Call):
        return scope.named(node.func) is logging.getLogger
    return isinstance(scope.named(node), logging.Logger)
