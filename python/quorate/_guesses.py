"""Arguments made up for methods: from annotations, defaults and what was seen before.

The same seed gives the same guesses. Where nothing is said about a parameter, kinds of values are tried, and
those with which calls end well are tried more often.
"""

from __future__ import annotations

import collections
import dataclasses
import datetime
import decimal
import enum
import inspect
import random
import types
import typing
import uuid
from collections.abc import Callable
from typing import Any, Literal, Union

_WORDS = ("a", "b", "c", "pear", "Zoë", "", "x" * 40)
_NUMBERS = (0, 1, 2, 3, 5, 7, 10, -1, 100)
_FLOATS = (0.0, 1.0, 2.5, -0.1, 1e6)
_KINDS: tuple[Any, ...] = (int, str, float, bool, list[int], list[str], dict[str, int], None)
_DEPTH_MAX = 3
_SEEN_MAX = 64
_REUSE = 0.5
"""How often a value is one that was used before: then keys are found that were stored."""

Arguments = tuple[list[Any], dict[str, Any]]


class NoGuess(Exception):
    """No value of that kind can be made up."""


class Guesser:
    """Makes up arguments.

    >>> Guesser(1).arguments(lambda n=3: n)[1]
    {}
    """

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._seen: dict[type, collections.deque[Any]] = {}
        self._weights: dict[tuple[str, str], list[float]] = {}
        self._chosen: list[tuple[tuple[str, str], int]] = []

    def arguments(self, function: Callable[..., Any], *, is_constructor: bool = False) -> Arguments:
        """Arguments of one call, of a constructor only those that it needs; raises NoGuess."""
        self._chosen = []
        hints = _hints(function)
        positional: list[Any] = []
        named: dict[str, Any] = {}
        for parameter in _parameters(function):
            if parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
                continue
            has_default = parameter.default is not parameter.empty
            if has_default and (is_constructor or named or self._random.random() < 0.5):
                continue
            value = self._argument(function, parameter, hints.get(parameter.name, parameter.empty))
            is_named = parameter.kind is parameter.KEYWORD_ONLY or bool(named)
            if is_named or (has_default and self._random.random() < 0.5):
                named[parameter.name] = value
            else:
                positional.append(value)
        return positional, named

    def saw(self, value: Any) -> None:
        """Keep a value that may be a key or a name somewhere."""
        if isinstance(value, str | int | uuid.UUID) and not isinstance(value, bool):
            self._seen.setdefault(type(value), collections.deque(maxlen=_SEEN_MAX)).append(value)
        elif isinstance(value, list | tuple):
            for item in value[:4]:
                self.saw(item)

    def ended(self, went_well: bool) -> None:
        """How the call with the newest arguments ended: kinds that do not fit are tried less often."""
        for place, kind in self._chosen:
            weights = self._weights[place]
            weights[kind] = max(weights[kind] * (1.5 if went_well else 0.3), 1e-3)

    def _argument(self, function: Callable[..., Any], parameter: inspect.Parameter, hint: Any) -> Any:
        default = parameter.default
        if hint is parameter.empty and default is not parameter.empty and default is not None:
            hint = type(default)
        if hint in (parameter.empty, Any, object):
            place = (getattr(function, "__qualname__", ""), parameter.name)
            weights = self._weights.setdefault(place, [1.0] * len(_KINDS))
            kind = self._random.choices(range(len(_KINDS)), weights)[0]
            self._chosen.append((place, kind))
            hint = _KINDS[kind]
        return self._value(hint, 0)

    def _value(self, hint: Any, depth: int) -> Any:
        if depth > _DEPTH_MAX:
            raise NoGuess("values inside each other can not be made up")
        if isinstance(hint, type) and self._seen.get(hint) and self._random.random() < _REUSE:
            return self._random.choice(self._seen[hint])
        if isinstance(hint, types.GenericAlias) or typing.get_origin(hint) is not None:
            return self._generic(typing.get_origin(hint), typing.get_args(hint), depth)
        if isinstance(hint, typing.TypeVar) or hint in (Any, object):
            return self._value(self._random.choice(_KINDS), depth)
        made = self._plain(hint)
        if made is not NoGuess:
            self.saw(made)
            return made
        if hint in (list, dict, set, tuple, frozenset):
            return self._generic(hint, (str, int) if hint is dict else (int,), depth)
        if isinstance(hint, type) and issubclass(hint, enum.Enum):
            return self._random.choice(list(hint))
        if dataclasses.is_dataclass(hint) and isinstance(hint, type):
            hints = _hints(hint)
            fields = [field for field in dataclasses.fields(hint) if field.init]
            return hint(
                **{field.name: self._value(hints.get(field.name, Any), depth + 1) for field in fields}
            )
        if isinstance(hint, type) and hint.__module__ not in ("builtins", "typing"):
            positional, named = self.arguments(hint)
            return hint(*positional, **named)
        raise NoGuess(f"no {getattr(hint, '__name__', hint)} can be made up")

    def _plain(self, hint: Any) -> Any:
        choose = self._random.choice
        makers: dict[Any, Callable[[], Any]] = {
            int: lambda: choose(_NUMBERS),
            str: lambda: choose(_WORDS),
            float: lambda: choose(_FLOATS),
            bool: lambda: choose((True, False)),
            bytes: lambda: choose((b"", b"ab")),
            None: lambda: None,
            types.NoneType: lambda: None,
            complex: lambda: 1j,
            decimal.Decimal: lambda: decimal.Decimal(choose(_NUMBERS)) / 4,
            uuid.UUID: lambda: uuid.UUID(int=choose(_NUMBERS) + 1),
            datetime.datetime: lambda: datetime.datetime(2024, 2, 29, 12, choose(_NUMBERS[:6])),
            datetime.date: lambda: datetime.date(2024, 2, 29),
            datetime.time: lambda: datetime.time(12, 30),
            datetime.timedelta: lambda: datetime.timedelta(seconds=choose(_NUMBERS)),
        }
        return makers[hint]() if hint in makers else NoGuess

    def _generic(self, origin: Any, inside: tuple[Any, ...], depth: int) -> Any:
        if origin in (Union, types.UnionType):
            return self._value(self._random.choice(inside), depth + 1)
        if origin is Literal:
            return self._random.choice(inside)
        if origin is typing.Annotated:
            return self._value(inside[0], depth)
        count = self._random.randrange(4)
        if origin is tuple:
            fixed = inside if inside[-1:] != (...,) else (inside[0],) * count
            return tuple(self._value(each, depth + 1) for each in fixed)
        name = getattr(origin, "__name__", "")
        if name in ("dict", "Mapping", "MutableMapping"):
            return {
                self._value(inside[0], depth + 1): self._value(inside[1], depth + 1) for _ in range(count)
            }
        is_list = name in ("list", "Sequence", "Iterable", "Collection", "MutableSequence")
        if not is_list and name not in ("set", "frozenset", "Set", "MutableSet"):
            raise NoGuess(f"no {name} can be made up")
        values = [self._value(inside[0] if inside else int, depth + 1) for _ in range(count)]
        if is_list:
            return values
        return frozenset(values) if name == "frozenset" else set(values)


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(function).parameters.values())
    except ValueError:
        # Methods in C that do not tell: none, or one that is not said, is what most take.
        return [inspect.Parameter("value", inspect.Parameter.POSITIONAL_ONLY, default=None)]


def _tells_fields(cls: type) -> bool:
    """Whether the annotations of the class are about what its constructor takes."""
    return dataclasses.is_dataclass(cls) or (issubclass(cls, tuple) and hasattr(cls, "_fields"))


def _hints(function: Any) -> dict[str, Any]:
    try:
        is_plain_class = isinstance(function, type) and not _tells_fields(function)
        return typing.get_type_hints(
            inspect.getattr_static(function, "__init__") if is_plain_class else function
        )
    except Exception:
        # Names in annotations that exist for type checkers only.
        return {}
