"""Options of callers, as plain data."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, ParamSpec, TypeVar, cast, get_args

P = ParamSpec("P")
R = TypeVar("R")

Level = Literal["ordered", "confirmed", "broadcast", "lease", "any", "loose"]
"""How fresh a read is: the first three are linearizable. `any` may be stale and tells slot and age, but shows
nothing older than this client has read before; `loose` may."""


TIMEOUT_MAX = 366 * 24 * 3600.0
"""The longest timeout of a call: a year."""


def level_of(name: Any) -> Level:
    """The level of that name.

    >>> level_of("newest")
    Traceback (most recent call last):
    ...
    ValueError: no read level 'newest': use ordered, confirmed, broadcast, lease, any, loose
    """
    if isinstance(name, str) and name in get_args(Level):
        return cast(Level, name)
    raise ValueError(f"no read level {name!r:.80}: use {', '.join(get_args(Level))}")


@dataclass(frozen=True, slots=True)
class Options:
    """How calls through one proxy are made.

    >>> Options().level is None
    True
    """

    level: Level | None = None
    """None: every replica executes the call, in the agreed order. Else: one replica executes it as a read."""
    timeout: float | None = None
    """Seconds for each call; None: those of the connection."""
    retry: bool = True
    """Whether a call is sent again when it is refused for the moment, or its connection is lost."""
    session: int | None = None
    """Calls are for the session that follows so many ended ones alone; None: for the one that is there."""

    def __post_init__(self) -> None:
        if self.level is not None:
            level_of(self.level)
        if self.timeout is not None and not 0 < self.timeout < TIMEOUT_MAX:
            raise ValueError(f"timeout {self.timeout!r}: use seconds above 0 and below {TIMEOUT_MAX:.0f}")
        if not isinstance(self.retry, bool):
            raise TypeError(f"retry is a {type(self.retry).__name__}: use True or False")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """The certificates of a client of nodes that speak TLS: three PEM files.

    >>> Tls(ca="ca.pem", cert="client.pem", key="client.key").paths
    ('ca.pem', 'client.pem', 'client.key')
    """

    ca: str | os.PathLike[str]
    """The authority that signed the nodes' certificates."""
    cert: str | os.PathLike[str]
    """This client's certificate chain."""
    key: str | os.PathLike[str]
    """The private key of the certificate."""

    @property
    def paths(self) -> tuple[str, str, str]:
        """Authority, certificate and key, as text."""
        return (os.fspath(self.ca), os.fspath(self.cert), os.fspath(self.key))


@dataclass(frozen=True, slots=True)
class Freshness:
    """How current the answer of a read is.

    >>> Freshness(slot=12, age=0.0)
    Freshness(slot=12, age=0.0)
    """

    slot: int
    """The answer reflects all slots up to this one."""
    age: float
    """At most so many seconds ago nothing newer was decided; 0 for linearizable levels."""


_MARK = "__quorate_readonly__"


def readonly(method: Callable[P, R]) -> Callable[P, R]:
    """Mark a method that changes nothing: proxies then call it as a confirmed read, which is cheaper.

    Methods that the host can show to change nothing need no mark. The host checks a sample: a method that
    changes its object after all raises `NotReadOnly`, and the replica is rebuilt. `quorate.local` checks
    every read.

    >>> class Account:
    ...     @readonly
    ...     def balance(self) -> int:
    ...         return 0
    >>> is_readonly(Account, "balance")
    True
    """
    marked = method.fget if isinstance(method, property) else method
    setattr(marked, _MARK, True)
    return method


def is_marked(method: Any) -> bool:
    """Whether a function has the mark of `readonly`.

    >>> is_marked(len)
    False
    """
    return bool(getattr(method, _MARK, False))


def is_readonly(cls: type | None, name: str) -> bool:
    """Whether the class says that the method or property changes nothing."""
    method: Any = getattr(cls, name, None)
    if isinstance(method, property):
        method = method.fget
    return bool(getattr(method, _MARK, False)) or name in getattr(cls, "__quorate_reads__", ())
