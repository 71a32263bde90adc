"""Classes whose code runs wherever they are looked at: they spoil what is proven of others."""

from __future__ import annotations

import datetime
from typing import Any

RAN: list[str] = []


def ran(*_: Any) -> Any:
    RAN.append("code of a class")
    raise AssertionError(RAN)


class Zone(datetime.tzinfo):
    utcoffset = tzname = dst = ran


class WithGetstate:
    __getstate__ = ran


class WithSetstate:
    __setstate__ = ran


class WithReduce:
    __reduce__ = ran


class WithReduceEx:
    __reduce_ex__ = ran


class WithGetattr:
    __getattr__ = ran


class WithGetattribute:
    __getattribute__ = ran


class WithHash:
    __hash__ = ran


class Inherits(WithGetstate):
    pass
