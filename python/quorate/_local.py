"""A whole group on this machine, for tests: real processes, gone when the block ends."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeVar, overload

from quorate import _constructor, _names
from quorate._errors import QuorateError
from quorate._local_group import LocalGroup, Plan
from quorate._program import program, start_group

__all__ = ["class_path", "find_class", "local", "program", "start_group"]

T = TypeVar("T")

NODES_MAX = 9
"""As many as `quorate up` starts."""

OPTIONS = ("args", "kwargs", "nodes", "persist", "timeout", "allow")
"""The names that `local` keeps for itself."""


@overload
def local(
    cls: type[T],
    /,
    *positional: Any,
    args: Sequence[Any] = ...,
    kwargs: Mapping[str, Any] | None = ...,
    nodes: int = ...,
    persist: Literal["memory", "disk"] = ...,
    timeout: float = ...,
    allow: Sequence[str] = ...,
    **named: Any,
) -> LocalGroup[T]: ...
@overload
def local(
    cls: str,
    /,
    *positional: Any,
    args: Sequence[Any] = ...,
    kwargs: Mapping[str, Any] | None = ...,
    nodes: int = ...,
    persist: Literal["memory", "disk"] = ...,
    timeout: float = ...,
    allow: Sequence[str] = ...,
    **named: Any,
) -> LocalGroup[Any]: ...
def local(
    cls: type[Any] | str,
    /,
    *positional: Any,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    nodes: int = 3,
    persist: Literal["memory", "disk"] = "memory",
    timeout: float = 10.0,
    allow: Sequence[str] = (),
    **named: Any,
) -> LocalGroup[Any]:
    """Run a group of real nodes for the length of a block, which gets its object's proxy.

    ::

        with quorate.local(Account, "A-1", balance=100) as account:
            assert account.deposit(10) == 110

        group = quorate.local("bank:Account", args=["A-1"], kwargs={"balance": 100}, persist="disk")
        with group as account:
            account.deposit(10)
            group.kill(group.leader)
            account.deposit(10)
            group.restart(group.stopped[0])
            assert group.compare().is_equal

    What `local` returns is the group's handle: it kills and restarts nodes, stops and continues them, takes
    snapshots and compares replicas. The class's arguments are any values that can be sent. A class that has
    a parameter of the same name as an option (`nodes`, `timeout`, ...) gets its arguments by `args` and
    `kwargs`. Instances of other packages may be in the object's state when `allow` names these packages.

    Raises TypeError or ValueError for wrong options, UnsupportedValue for arguments that cannot be sent, and
    QuorateError for a class that nodes cannot import.
    """
    found = find_class(cls) if isinstance(cls, str) else _names.class_of(cls)
    _check_options(nodes, persist, timeout, allow)
    if positional or named:
        if args or kwargs:
            raise TypeError("give the class's arguments either as they are, or by args and kwargs")
        _refuse_ambiguous(found, nodes=nodes, persist=persist, timeout=timeout, allow=allow)
        args, kwargs = positional, named
    path = class_path(found)
    _names.register(found)
    words = _constructor.words(args, kwargs or {})
    return LocalGroup(Plan(found, path, words, nodes, persist, timeout, tuple(allow)))


def _check_options(nodes: int, persist: str, timeout: float, allow: Sequence[str]) -> None:
    if isinstance(nodes, bool) or not isinstance(nodes, int):
        raise TypeError(f"nodes is a number, not {type(nodes).__name__}")
    if not 1 <= nodes <= NODES_MAX:
        raise ValueError(f"a local group has 1 to {NODES_MAX} nodes, not {nodes}")
    if persist not in ("memory", "disk"):
        raise ValueError(f'persist is "memory" or "disk", not {persist!r}')
    if isinstance(timeout, bool) or not isinstance(timeout, int | float):
        raise TypeError(f"timeout is a number of seconds, not {type(timeout).__name__}")
    if not timeout > 0:
        raise ValueError(f"timeout {timeout}: use seconds above 0")
    if isinstance(allow, str) or not all(isinstance(package, str) for package in allow):
        raise TypeError("allow is a list of the names of packages")


def _refuse_ambiguous(cls: type, **options: Any) -> None:
    """An option that the class has as a parameter too, and that was given: nobody knows which is meant."""
    try:
        parameters = inspect.signature(cls).parameters
    except (TypeError, ValueError):
        return
    defaults = {"nodes": 3, "persist": "memory", "timeout": 10.0, "allow": ()}
    for name, value in options.items():
        if name in parameters and value != defaults[name]:
            raise TypeError(
                f"`{name}` is an option of quorate.local and a parameter of {cls.__name__}: "
                "give the class's arguments by args= and kwargs="
            )


def find_class(path: str) -> type:
    """The class of MODULE:CLASS, as this process imports it.

    >>> find_class("collections:Counter")
    <class 'collections.Counter'>
    """
    module, colon, name = path.partition(":")
    if not module or not colon or not name:
        raise QuorateError(f"{path!r} is not MODULE:CLASS, such as bank:Account")
    try:
        found: Any = importlib.import_module(module)
        for step in name.split("."):
            found = getattr(found, step)
    except (ImportError, AttributeError) as error:
        raise QuorateError(f"there is no class {path}: {error}") from error
    found = _names.class_of(found)
    if not isinstance(found, type):
        raise QuorateError(f"{path} is a {type(found).__name__}, not a class")
    return found


def class_path(cls: type) -> str:
    """MODULE:CLASS of a class that other processes can import."""
    if not isinstance(cls, type):
        raise TypeError(f"give a class or MODULE:CLASS, not a {type(cls).__name__}")
    if cls.__module__ == "__main__" or "<locals>" in cls.__qualname__:
        raise QuorateError(f"{cls.__qualname__} cannot be imported by the nodes: move it to a module")
    return f"{cls.__module__}:{cls.__qualname__}"
