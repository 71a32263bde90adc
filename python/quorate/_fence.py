"""Refuses the holders of a lock that are not the newest."""

from __future__ import annotations

from quorate import _names, _native
from quorate._errors import NotInCall, StaleToken

_ATTRIBUTE = "_quorate_fence"
_OWN_STATE = ("__getstate__", "__setstate__", "__reduce__", "__reduce_ex__")


class Fence:
    """The largest fencing token that something has seen: an attribute of an object that a lock protects.

    Its methods take the token of their caller, and check it before they change anything.

    >>> fence = Fence()
    >>> fence.check(7)
    >>> fence.check(7)
    >>> fence.check(6)
    Traceback (most recent call last):
    ...
    quorate.StaleToken: token 6 is older than 7, which was seen here: its holder has lost the lock
    """

    def __init__(self) -> None:
        self._newest = 0

    @property
    def newest(self) -> int:
        """The largest token so far; 0 before the first."""
        return self._newest

    def check(self, token: int) -> None:
        """Take the token for the newest one. Raises `StaleToken` if a larger one was here before."""
        if isinstance(token, bool) or not isinstance(token, int):
            raise TypeError(f"a fencing token is an int, not {type(token).__name__}")
        if token < 1:
            raise ValueError(
                f"token {token}: fencing tokens begin at 1, and 0 says that a lock was not acquired"
            )
        if token < self._newest:
            raise StaleToken(token, self._newest)
        self._newest = token

    def __repr__(self) -> str:
        return f"Fence(newest={self._newest})"


def check(token: int, /) -> None:
    """Refuse all but the newest holder that this object has seen; for its methods.

    The newest token is part of the object's state: a `Fence`, which the object gets as an
    attribute. An object that two locks protect needs a fence of its own for each.

    Raises StaleToken for a token that is older, and TypeError where the object has no place for a fence.

    ::

        def write(self, row, token):
            quorate.check(token)
            self.rows.append(row)

    >>> check(7)
    Traceback (most recent call last):
    ...
    quorate.NotInCall: quorate.check() is for methods of a served object: no such method runs here
    """
    served = _native.running_object()
    if served is None:
        raise NotInCall("quorate.check() is for methods of a served object: no such method runs here")
    fields = _fields(served)
    fence = fields.get(_ATTRIBUTE) or Fence()
    fence.check(token)
    fields[_ATTRIBUTE] = fence


def _fields(served: object) -> dict[str, Fence]:
    """The attributes of an object that are kept whatever they are."""
    cls = type(served)
    changed = [name for name in _OWN_STATE if getattr(cls, name, None) is not getattr(object, name, None)]
    if changed or not hasattr(served, "__dict__"):
        reason = f"`{changed[0]}` says what is kept of it" if changed else "it has only `__slots__`"
        raise TypeError(
            f"quorate.check() has no place for the newest token in {cls.__name__}: {reason}. "
            "Keep a quorate.Fence in an attribute, and call its `check`"
        )
    return vars(served)


Fence.__module__ = "quorate"
_names.keep(Fence)
