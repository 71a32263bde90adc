"""What a caller may choose, as plain data."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

Level = Literal["ordered", "confirmed", "lease", "any"]
"""How fresh a read is: the first three are linearizable, `any` says slot and age."""


@dataclass(frozen=True, slots=True)
class Options:
    """How calls through one proxy are made.

    >>> Options().level is None
    True
    """

    level: Level | None = None
    """None: calls are ordered and executed by every replica. Else: a read, executed by one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """The certificates that a client brings to nodes that speak TLS: three PEM files.

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
    """What an answer reflects.

    >>> Freshness(slot=12, age=0.0)
    Freshness(slot=12, age=0.0)
    """

    slot: int
    """All slots up to this one."""
    age: float
    """Seconds since the replica last knew itself current; 0 for linearizable levels."""


_MARK = "__quorate_readonly__"


def readonly(method: Callable[P, R]) -> Callable[P, R]:
    """Mark a method that changes nothing: proxies then call it as a confirmed read, which is cheaper.

    >>> class Account:
    ...     @readonly
    ...     def balance(self) -> int:
    ...         return 0
    >>> is_readonly(Account, "balance")
    True
    """
    setattr(method, _MARK, True)
    return method


def is_readonly(cls: type | None, name: str) -> bool:
    """Whether the class says that the method changes nothing: by mark, or in `__quorate_reads__`."""
    method: Any = getattr(cls, name, None)
    return bool(getattr(method, _MARK, False)) or name in getattr(cls, "__quorate_reads__", ())
