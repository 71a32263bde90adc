"""State outside of an object: class attributes, default arguments and globals that its methods change.

A snapshot holds the object. What its methods keep elsewhere would be gone after a restore, on one replica and
not on the others, so it is refused when the object is made. Sources are read and nothing is run: from the
methods of the class everything is followed that they name in the modules of the object's own package, and in
those that lie beside it.
"""

from __future__ import annotations

import array
import ast
import collections
import contextvars
import inspect
import io
import logging
import os
import queue
import sys
import threading
import types
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from quorate import _settings, _sources
from quorate._sources import UNKNOWN, Scope, package_of

_CONTAINERS = (
    *(list, dict, set, bytearray, collections.deque, collections.UserDict, collections.UserList),
    *(array.array, collections.ChainMap, type(os.environ)),
    *(weakref.WeakSet, weakref.WeakKeyDictionary, weakref.WeakValueDictionary),
)
_CHANGING_METHODS_OF: dict[type, frozenset[str]] = {
    io.StringIO: frozenset(("write", "writelines", "truncate")),
    io.BytesIO: frozenset(("write", "writelines", "truncate")),
    queue.Queue: frozenset(("put", "put_nowait", "get", "get_nowait")),
    threading.Event: frozenset(("set", "clear")),
    contextvars.ContextVar: frozenset(("set",)),
}
_CHANGING_METHODS = frozenset(
    [
        "append",
        "extend",
        "insert",
        "remove",
        "pop",
        "clear",
        "sort",
        "reverse",
        "add",
        "discard",
        "update",
        "setdefault",
        "popitem",
        "appendleft",
        "popleft",
        "extendleft",
        "rotate",
        "move_to_end",
        "subtract",
        "difference_update",
        "intersection_update",
        "symmetric_difference_update",
        "__setitem__",
        "__delitem__",
    ]
)
_COPYING_METHODS = frozenset(
    [
        *("extend", "extendleft", "update", "subtract", "difference_update"),
        *("intersection_update", "symmetric_difference_update"),
    ]
)
"""They take what is in a container, and do not keep the container."""
_FOLLOWED_MAX = 1000
"""Functions that are read: a second's work, and more than an object's own package has."""
_CHANGING_FUNCTIONS = frozenset(
    [
        "heappush",
        "heappop",
        "heapify",
        "heapreplace",
        "heappushpop",
        "insort",
        "insort_left",
        "insort_right",
        "shuffle",
        "iadd",
    ]
)


@dataclass(frozen=True, slots=True)
class Finding:
    """One place at which something outside of the object is changed.

    >>> str(Finding("Account.count", "changed", "Account.open", "bank.py", 7))
    'Account.count is changed in Account.open (bank.py:7)'
    """

    what: str
    how: str
    function: str
    file: str
    line: int
    path: str = ""

    def __str__(self) -> str:
        return f"{self.what} is {self.how} in {self.function} ({self.file}:{self.line})"

    @property
    def reason(self) -> str:
        """Why this is refused, and the way out."""
        if self.how == _MACHINE_TIME:
            return f"{self}, which differs between replicas; convert the time of datetime.datetime.now()"
        return f"{self}, {LOST}; keep it in the object, or run with --no-snapshot"


LOST = "and is no part of the object: a replica that restarts would not have the change"
_MACHINE_TIME = "the time of the machine"


def find(cls: type) -> Finding | None:
    """The first change to something outside that the methods of a class can reach by name."""
    return next(find_all(cls), None)


def find_all(cls: type) -> Iterator[Finding]:
    """All changes to something outside that the methods of a class can reach by name."""
    owners: dict[type, None] = {}
    for scope in scopes(cls):
        yield from _findings(scope)
        if scope.owner is not None and scope.owner not in owners:
            owners[scope.owner] = None
            yield from _descriptors(scope.owner)


def _descriptors(owner: type) -> Iterator[Finding]:
    """Attributes of a class that keep the values of all instances in themselves."""
    for name, member in vars(owner).items():
        cls = type(member)
        if not hasattr(cls, "__set__") or package_of(cls) != package_of(owner):
            continue
        scope = Scope.of(inspect.getattr_static(cls, "__set__"), cls)
        if scope is None:
            continue
        for node in scope.nodes():
            if is_change(scope, node):
                what = f"{owner.__qualname__}.{name}"
                yield Finding(what, "changed", scope.name, scope.file, node.lineno, scope.path)
                break


def scopes(cls: type) -> Iterator[Scope]:
    """The sources of all functions that the methods of a class can reach by name, the nearest first."""
    is_installed = _is_installed(cls)
    kept_closed = {function for function, _ in closed(cls).values()}

    def is_followed(found: Any) -> bool:
        # Of an installed package, which many use, only the module of the class is read.
        if is_installed:
            return bool(found.__module__ == cls.__module__)
        return package_of(found) == package_of(cls) or (
            home is not None and _sources.home_of(found.__module__) == home
        )

    home = _sources.home_of(cls.__module__)
    waiting: list[tuple[Any, type | None]] = [(cls, None)]
    seen: set[tuple[int, int]] = set()
    while waiting and len(seen) < _FOLLOWED_MAX:
        reached, owner = waiting.pop(0)
        if (id(reached), id(owner)) in seen:
            continue
        seen.add((id(reached), id(owner)))
        if isinstance(reached, type):
            functions = (each for each in _sources.functions_of(reached) if each not in kept_closed)
            waiting.extend((function, reached) for function in functions)
            continue
        scope = Scope.of(reached, owner)
        if scope is None:
            continue
        yield scope
        waiting.extend((found, None) for found in scope.reached() if is_followed(found))


def closed(cls: type) -> dict[str, tuple[types.FunctionType, Finding]]:
    """Public methods of an installed class that change something outside and that no others name.

    Of such a class only these cannot be called, for whoever uses it cannot mend it.
    """
    if not _is_installed(cls):
        return {}
    functions = list(_sources.functions_of(cls))
    found = {}
    for function in functions:
        name = function.__name__
        if name.startswith("_") or getattr(inspect.getattr_static(cls, name, None), "fget", None):
            continue
        scope = Scope.of(function, cls)
        finding = next(_findings(scope), None) if scope else None
        if finding is not None:
            found[name] = function, finding
    named = {""}
    while named:
        others = (each.__code__.co_names for each in functions if each.__name__ not in found)
        named = {name for names in others for name in names if name in found}
        found = {name: each for name, each in found.items() if name not in named}
    return found


def _is_installed(cls: type) -> bool:
    file = getattr(sys.modules.get(cls.__module__), "__file__", None) or ""
    return "site-packages" in file or package_of(cls) in sys.stdlib_module_names


def _findings(scope: Scope) -> Iterator[Finding]:
    places = [*_stores(scope), *_calls(scope), *_defaults(scope), *_settings.settings(scope)]
    undoing = {
        id(node) for each in scope.nodes() if isinstance(each, ast.Try) for node in _walk(each.finalbody)
    }
    undone = {what for node, what, _ in places if id(node) in undoing}
    for node, what, how in places:
        if what not in undone and not _is_cache(what):
            yield Finding(what, how, scope.name, scope.file, node.lineno, scope.path)


def _walk(body: list[ast.stmt]) -> Iterator[ast.AST]:
    for statement in body:
        yield from ast.walk(statement)


def _is_cache(what: str) -> bool:
    """What is called a cache is taken for one: nothing is lost with it."""
    last = what.rpartition(".")[2].lower()
    return "cache" in last or "memo" in last


_Place = tuple[Any, str, str]
"""Node, what is changed there, and how."""


def _stores(scope: Scope) -> Iterator[_Place]:
    for node in scope.nodes():
        if isinstance(node, ast.Global | ast.Nonlocal):
            where = scope.module if isinstance(node, ast.Global) else "the variable"
            for name in set(node.names) & scope.stored:
                # Variables of a method that a nested function binds live as long as the call.
                is_lasting = (
                    not scope.is_made_once(name)
                    if isinstance(node, ast.Global)
                    else name in scope.closed_over
                )
                if is_lasting:
                    yield node, f"{where}.{name}" if where == scope.module else f"{where} {name}", "assigned"
        context = getattr(node, "ctx", None)
        if not isinstance(context, ast.Store | ast.Del):
            continue
        if isinstance(node, ast.Attribute):
            value, label = scope.resolve(node.value)
            if label and value is not UNKNOWN:
                yield node, f"{label}.{node.attr}", "assigned"
        elif isinstance(node, ast.Subscript):
            value, label = scope.resolve(node.value)
            if label and isinstance(value, _CONTAINERS):
                yield node, label, "changed"


def _calls(scope: Scope) -> Iterator[_Place]:
    for node in scope.nodes():
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Attribute):
            # += changes a list of the class before it binds an attribute of the instance.
            value, label = scope.resolve(ast.Attribute(node.target.value, node.target.attr, ast.Load()))
            if label and isinstance(value, _CONTAINERS):
                yield node, label, "changed"
        yield from _methods(node, scope)
        if not isinstance(node, ast.Call):
            continue
        function, label = scope.resolve(node.func)
        yield from _numpy_calls(node, function, label)
        if isinstance(node.func, ast.Attribute):
            value, label = scope.resolve(node.func.value)
            if label and _changes(value, node.func.attr, scope):
                yield node, label, "changed"
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if not node.args:
            continue
        value, label = scope.resolve(node.args[0])
        if not label or value is UNKNOWN:
            continue
        is_unbound = _is_unbound(node, scope)
        if (called in _CHANGING_FUNCTIONS or is_unbound) and isinstance(value, _CONTAINERS):
            yield node, label, "changed"
        elif called == "next" and hasattr(value, "__next__"):
            yield node, label, "advanced"
        elif called in ("setattr", "delattr"):
            yield node, label, "changed"


def _methods(node: ast.AST, scope: Scope) -> Iterator[_Place]:
    """A method that changes a container: called, given on, or under another name."""
    if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
        value, label = scope.resolve(node.value)
        if label and isinstance(value, _CONTAINERS) and node.attr in _CHANGING_METHODS:
            yield node, label, "changed"


def _is_unbound(node: ast.Call, scope: Scope) -> bool:
    """Whether it is a call such as `list.append(items, 1)`."""
    return _is_changing_call(node) and isinstance(scope.named(node.func.value), type)  # type: ignore[attr-defined]


def _numpy_calls(node: ast.Call, function: Any, label: str) -> Iterator[_Place]:
    is_method = isinstance(function, types.MethodType | types.BuiltinMethodType)
    if label and is_method and _is_numpy_generator(function.__self__):
        # numpy.random.rand and such belong to one generator of the module.
        yield node, "numpy.random", "advanced"
    if getattr(function, "__name__", "") == "datetime64" and node.args:
        asked = getattr(node.args[0], "value", None)
        if asked in ("now", "today"):
            # C code of numpy asks the system for it.
            yield node, f"numpy.datetime64({asked!r})", _MACHINE_TIME


def _changes(value: Any, method: str, caller: Scope) -> bool:
    """Whether calling this method of a value outside changes it."""
    if isinstance(value, _CONTAINERS):
        return method in _CHANGING_METHODS
    for kind, methods in _CHANGING_METHODS_OF.items():
        if isinstance(value, kind):
            return method in methods and not _is_put_back(value, caller)
    if isinstance(value, logging.Logger):
        # No answer follows from what is logged.
        return False
    if hasattr(type(value), "getrandbits") or _is_numpy_generator(value):
        return True
    cls = type(value)
    if _sources.home_of(cls.__module__) != _sources.home_of(caller.module):
        return False
    scope = Scope.of(getattr(cls, method, None), cls)
    return scope is not None and any(is_change(scope, node) for node in scope.nodes())


def _is_put_back(value: Any, caller: Scope) -> bool:
    """Whether a context variable is reset in the same function."""
    calls = (node.func for node in caller.nodes() if isinstance(node, ast.Call))
    return isinstance(value, contextvars.ContextVar) and any(
        isinstance(func, ast.Attribute) and func.attr == "reset" and caller.resolve(func.value)[0] is value
        for func in calls
    )


def _is_numpy_generator(value: Any) -> bool:
    """Whether drawing from it changes it: a Generator or a RandomState."""
    return hasattr(type(value), "_bit_generator") or hasattr(type(value), "bit_generator")


def is_change(scope: Scope, node: Any) -> bool:
    """Whether a node changes the instance: binds an attribute, sets an item or calls a changing method."""
    if isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del):
        return scope.begins_with_self(node)
    return _is_changing_call(node) and scope.begins_with_self(node.func)


def _is_changing_call(node: Any) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in _CHANGING_METHODS
    )


def _defaults(scope: Scope) -> Iterator[_Place]:
    mutable = {name for name, value in scope.defaults.items() if isinstance(value, _CONTAINERS)}
    mutable -= scope.stored - scope.augmented

    def is_default(node: ast.AST | None) -> bool:
        return isinstance(node, ast.Name) and node.id in mutable

    for node in scope.nodes() if mutable else ():
        name: ast.AST | None = None
        how = "changed"
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.Return) and is_default(node.value):
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            if isinstance(node, ast.Return) or any(not isinstance(target, ast.Name) for target in targets):
                name, how = node.value, "kept or returned"
        elif isinstance(node, ast.AugAssign) and is_default(node.target):
            name = node.target
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del):
            name = node.value
        elif _is_changing_call(node):
            is_copied = node.func.attr in _COPYING_METHODS
            kept = None if is_copied else next((arg for arg in node.args if is_default(arg)), None)
            name, how = (kept, "kept") if kept is not None else (node.func.value, "changed")
        if is_default(name):
            yield node, f"the default of `{name.id}`", how  # type: ignore[union-attr]
