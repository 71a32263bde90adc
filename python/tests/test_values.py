"""Values travel by value, typed, and are refused with the path to what does not travel."""

from __future__ import annotations

import datetime
import enum
import math
import threading
import uuid
import zoneinfo
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pytest

import quorate
from quorate import _native


@quorate.register
class Colour(enum.Enum):
    RED = 1


@quorate.register
@dataclass(frozen=True)
class Point:
    x: int
    y: int = 2
    names: tuple[str, ...] = field(default=())


UTC = datetime.UTC
VALUES: list[Any] = [
    None,
    True,
    0,
    23,
    24,
    -1,
    -25,
    2**63 - 1,
    2**63,
    -(2**63),
    -(2**63) - 1,
    2**64,
    -(2**64),
    -(2**64) - 1,
    10**100,
    -(10**100),
    1.5,
    math.inf,
    "grüße",
    b"\x00\xff",
    [1, [2, []]],
    (1, ("a",)),
    {"a": 1, 2: (3,), None: [4]},
    {3, 1, 2},
    frozenset({"x", "y"}),
    datetime.datetime(2024, 2, 29, 12, 30, 1, 5),
    datetime.datetime(2024, 2, 29, tzinfo=UTC),
    datetime.datetime(2024, 10, 27, 1, 30, tzinfo=zoneinfo.ZoneInfo("Europe/Lisbon"), fold=1),
    datetime.date(1, 1, 1),
    datetime.timedelta(days=-3, microseconds=7),
    Decimal("-12.50"),
    uuid.UUID(int=7),
    Colour.RED,
    Point(1, names=("a", "b")),
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_value_comes_back_equal_and_of_its_own_type(value: Any) -> None:
    data = _native.dumps(value)
    copy = _native.loads(data)
    assert copy == value
    assert type(copy) is type(value)
    assert _native.dumps(copy) == data


def test_equal_sets_have_equal_bytes_and_dicts_keep_their_order() -> None:
    assert _native.dumps({"b", "a", "c"}) == _native.dumps({"c", "b", "a"})
    assert list(_native.loads(_native.dumps({"z": 1, "a": 2}))) == ["z", "a"]


def test_the_only_nan_is_canonical() -> None:
    assert math.isnan(_native.loads(_native.dumps(-math.nan)))
    assert _native.dumps(-math.nan) == _native.dumps(math.nan)


class Owner:
    def __init__(self) -> None:
        self.lock = threading.Lock()


@dataclass
class Unregistered:
    x: int = 1


def test_what_does_not_travel_is_named_by_its_path() -> None:
    with pytest.raises(quorate.UnsupportedValue, match=r"^args\[1\]: lock is not supported$"):
        _native.dump_call("put", (1, threading.Lock()), {})
    with pytest.raises(quorate.UnsupportedValue, match=r"^kwargs\[\"owner\"\]\['a'\]\[1\]: Owner is"):
        _native.dump_call("put", (), {"owner": {"a": [0, Owner()]}})
    with pytest.raises(TypeError, match="surrogates"):
        _native.dumps("\ud800")


def test_the_path_goes_through_fields_of_data_classes() -> None:
    with pytest.raises(quorate.UnsupportedValue, match=r"^args\[0\]\.x: lock is not supported$"):
        _native.dump_call("put", (Point(threading.Lock()),), {})  # type: ignore[arg-type]


def test_endless_nesting_is_refused() -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(quorate.UnsupportedValue, match="nesting"):
        _native.dumps(endless)
    with pytest.raises(quorate.MalformedValue, match="deep"):
        _native.loads(b"\x81" * 1000 + b"\x00")


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_cut_bytes_are_refused(value: Any) -> None:
    data = _native.dumps(value)
    for length in range(len(data)):
        with pytest.raises(quorate.MalformedValue):
            _native.loads(data[:length])
    with pytest.raises(quorate.MalformedValue):
        _native.loads(data + b"\x00")


@pytest.mark.parametrize(
    "data",
    [
        b"\x18\x01",  # not in its shortest form
        b"\xa2\x01\x01\x01\x02",  # a key twice
        b"\xd9\x01\x02\x82\x01\x01",  # an element twice
        b"\xd9\xea\x66\x82\x6eos.path.System\x61a",  # an Enum that is not known
        b"\xd9\xea\x67\x82\x6dposix.systemXX\xa0",  # a class that is not known
        b"\xd9\xff\xff\x01",  # an unknown tag
        b"\xd9\xea\x71\x00",  # a reference outside of a state
        b"\x9b\xff\xff\xff\xff\xff\xff\xff\xff",  # more items than bytes
        b"\xff",
    ],
)
def test_hostile_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(quorate.MalformedValue):
        _native.loads(data)


def test_a_data_class_arrives_through_its_checks() -> None:
    data = _native.dumps(Point(1)).replace(b"\x61x", b"\x61q")
    with pytest.raises(quorate.MalformedValue):
        _native.loads(data)


def test_a_class_of_no_registered_package_does_not_travel() -> None:
    assert Unregistered.__module__ == Point.__module__
    with pytest.raises(quorate.UnsupportedValue):
        _native.dumps(Exception())
