"""Types with arguments: `Box[int]`, which an instance made by it refers to, `Optional[int]`, `int | None`.

They are kept by what they are made of, and made again in the same way.
"""

from __future__ import annotations

import functools
import operator
import types
import typing
from typing import Any

from quorate._errors import MalformedValue

Parts = tuple[str, tuple[Any, ...], Any]

_Alias: Any = vars(typing)["_GenericAlias"]
_SpecialForm: Any = vars(typing)["_SpecialForm"]
_UNION = "|"


def is_alias(cls: type) -> bool:
    """Whether instances of a class are types with arguments.

    >>> is_alias(type(int | None)), is_alias(type(typing.Optional[int])), is_alias(int)
    (True, True, False)
    """
    return cls is types.UnionType or issubclass(cls, _Alias)


def take_apart(value: Any) -> Parts | str:
    """What has the arguments, by its name in `typing` or as the class that it is, and the arguments."""
    arguments = [None if each is type(None) else each for each in value.__args__]
    maker = _UNION if type(value) is types.UnionType else _name_of(value) or value.__origin__
    if _made(maker, arguments) != value:
        return f"{value!r} is not supported, for it is not made again by its arguments"
    return "alias", (maker, arguments), None


def _name_of(value: Any) -> str | None:
    """Under which `typing` has what takes the arguments; `Optional` is told as the union that it is."""
    origin = value.__origin__
    name = getattr(origin if isinstance(origin, _SpecialForm) else value, "_name", None)
    return name if isinstance(name, str) else None


def _made(maker: Any, arguments: list[Any]) -> Any:
    if maker == _UNION:
        return functools.reduce(operator.or_, arguments)
    origin: Any = getattr(typing, maker) if isinstance(maker, str) else maker
    return origin[arguments[0] if len(arguments) == 1 else tuple(arguments)]


def make(maker: Any, arguments: list[Any]) -> Any:
    """The type again."""
    if isinstance(maker, str) and maker != _UNION and maker not in typing.__all__:
        raise MalformedValue(f"typing has no {maker}: a snapshot refers to it")
    return _made(maker, arguments)
