"""Which methods of a live object are reads: declared ones, and those that are shown to change nothing.

Only the host asks here. A proof rests on the types of some attributes and on the classes that there are; both
are looked at again before every read, and the method is read anew when they have changed.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from quorate import _ambient, _data_model, _options
from quorate._effects import Proof
from quorate._purity import Hook, NotProven

Kind = Literal["declared", "proven", ""]

PROOFS_MAX = 64
"""Attempts for one method: where types change all the time, proofs would cost more than reads save."""

_UNLIKELY = (RecursionError, AttributeError, TypeError, ValueError, KeyError, OSError)


@dataclass(frozen=True, slots=True)
class Finding:
    """What reading the source of a method has shown.

    >>> Finding("", "assigns `self.balance`", "bank.py", 7).is_read
    False
    """

    kind: Kind
    reason: str = ""
    file: str = ""
    line: int = 0
    hook: Hook | None = None
    guards: dict[tuple[str, ...], type] = field(default_factory=dict)

    @property
    def is_read(self) -> bool:
        """Whether the method changes nothing."""
        return self.kind != ""


def public_methods(cls: type) -> list[str]:
    """The methods that clients can call.

    >>> public_methods(int)[:2]
    ['as_integer_ratio', 'bit_count']
    """
    hidden = _data_model.ON_SESSION_END
    names = [name for name in dir(cls) if not name.startswith("_") and name != hidden]
    return [
        name
        for name in names
        if callable(getattr(cls, name, None)) and not isinstance(inspect.getattr_static(cls, name), type)
    ]


def find(target: Any, method: str) -> Finding:
    """Whether a method of a live object is a read, and why not.

    >>> find(object(), "describe").reason
    'is not a plain method'
    """
    if _options.is_readonly(type(target), method):
        return Finding("declared")
    proof = Proof(target)
    try:
        proof.prove(method)
    except NotProven as why:
        return Finding("", why.reason, why.file, why.line, why.hook)
    except _UNLIKELY as error:
        # What is odd in a class is no reason to serve it less well than without this search.
        return Finding("", f"could not be read: {type(error).__name__}: {error}")
    return Finding("proven", guards=proof.guards)


@dataclass(slots=True)
class _Known:
    finding: Finding
    mark: tuple[int, str, int]
    attributes: Callable[[Any], Any] | None
    types: tuple[type, ...]


class _Tried:
    """What was found about a method of a class, for objects whose attributes have other types."""

    def __init__(self) -> None:
        self.known: list[_Known] = []
        self.attempts = 0


class Reads:
    """What is known about the methods of the classes of one host.

    A proof holds for every object of the class whose attributes have the same types, as long as they do.

    >>> Reads().kind(object(), "describe")
    ''
    """

    def __init__(self) -> None:
        self._tried: dict[tuple[type, str], _Tried] = {}

    def kind(self, target: Any, method: str) -> Kind:
        """Whether the method of an object is a read as things are now."""
        if not hasattr(type(target), method.removeprefix(".")):
            return ""
        # Some objects change their own class.
        tried = self._tried.setdefault((type(target), method), _Tried())
        for each in tried.known:
            if self._holds(each, target):
                return each.finding.kind
        if tried.attempts >= PROOFS_MAX:
            return ""
        tried.attempts += 1
        finding = find(target, method)
        mark = _ambient.mark()
        paths = [".".join(path) for path in finding.guards]
        attributes = operator.attrgetter(*paths) if paths else None
        # Proofs in which something else was loaded hold never again.
        tried.known = [each for each in tried.known if each.mark == mark]
        tried.known.append(_Known(finding, mark, attributes, tuple(finding.guards.values())))
        return finding.kind

    def _holds(self, known: _Known, target: Any) -> bool:
        if known.finding.kind != "proven":
            return True
        if known.mark != _ambient.mark():
            return False
        if known.attributes is None:
            return True
        try:
            values = known.attributes(target)
        except AttributeError:
            return False
        if len(known.types) == 1:
            return type(values) is known.types[0]
        return tuple(map(type, values)) == known.types
