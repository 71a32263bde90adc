"""Agreed hashes and orders in the host process: of what Python hashes by its address, and of constants.

Installed by `_environment` before objects' modules are imported. What was hashed earlier is put where it is
found from then on, and constant sets do not tell how the file with the compiled code was written.
"""

from __future__ import annotations

import collections
import functools
import gc
import types
from collections.abc import Callable
from importlib import machinery
from typing import Any

from quorate import _constants, _native


def install() -> None:
    """Replace the hashes of this process by agreed ones."""
    # Their entries hold hashes of their own; one that is not found any more is freed twice.
    for each in gc.get_objects():
        if isinstance(each, functools._lru_cache_wrapper):
            each.cache_clear()
    containers = _containers()
    # An OrderedDict finds its items by their hashes.
    items = {id(each): _items(each) for each in containers if isinstance(each, collections.OrderedDict)}
    _native.install_agreed_hash()
    # Sets first: the hash of a frozenset follows from its elements.
    for container in containers:
        if isinstance(container, set | frozenset) and not _finds_all(container):
            _native.rehash_set(container)
    for container in containers:
        if isinstance(container, dict) and not _finds_all(container):
            _refill(container, items.get(id(container)) or list(dict.items(container)))
    for loader in (machinery.SourceFileLoader, machinery.ExtensionFileLoader):
        _watch(loader)
    _settle(machinery.SourceFileLoader)


def _containers() -> list[Any]:
    """All dicts and sets, also those that the garbage collector does not look at, which others refer to."""
    tracked = gc.get_objects()
    kinds = (dict, set, frozenset)
    found = {id(each): each for each in gc.get_referents(*tracked) if isinstance(each, kinds)}
    found.update((id(each), each) for each in tracked if isinstance(each, kinds))
    return list(found.values())


def _finds_all(container: Any) -> bool:
    finds = next(kind for kind in (dict, set, frozenset) if isinstance(container, kind)).__contains__
    return all(type(key) is str or finds(container, key) for key in _keys(container))


def _keys(container: Any) -> list[Any]:
    if isinstance(container, dict):
        return list(dict.keys(container))
    return _native.set_parts(container)[1]


def _items(container: collections.OrderedDict[Any, Any]) -> list[tuple[Any, Any]]:
    return list(collections.OrderedDict.items(container))


def _refill(container: dict[Any, Any], items: list[tuple[Any, Any]]) -> None:
    of = collections.OrderedDict if isinstance(container, collections.OrderedDict) else dict
    of.clear(container)
    of.update(container, items)


def _watch(loader: Any) -> None:
    run: Callable[[Any, types.ModuleType], None] = loader.exec_module

    def exec_module(self: Any, module: types.ModuleType) -> None:
        # A module may be imported in a call by one replica, and earlier by another that was restored.
        _native.begin_import(module.__name__)
        try:
            run(self, module)
            _constants.see(module.__name__, module)
        finally:
            _native.end_import()

    loader.exec_module = exec_module


def _settle(loader: Any) -> None:
    read: Callable[[Any, str], Any] = loader.get_code
    loader.get_code = lambda self, name: settled(read(self, name))


def settled(code: Any) -> Any:
    """Code whose constant sets do not tell whether it was compiled now or read from a file.

    >>> code = compile("for one in {'a', 'b', 'c'}: pass", "", "exec")
    >>> settled(code) == code
    True
    """
    if not isinstance(code, types.CodeType):
        return code
    constants = tuple(_settled_constant(each) for each in code.co_consts)
    if all(new is old for new, old in zip(constants, code.co_consts, strict=True)):
        return code
    return code.replace(co_consts=constants)


def _settled_constant(constant: Any) -> Any:
    if isinstance(constant, types.CodeType):
        return settled(constant)
    if type(constant) is frozenset:
        return frozenset(
            sorted(map(_settled_constant, constant), key=lambda one: (str(type(one)), repr(one)))
        )
    if type(constant) is tuple:
        inner = tuple(map(_settled_constant, constant))
        return constant if all(map(lambda new, old: new is old, inner, constant)) else inner
    return constant
