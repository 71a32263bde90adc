"""Values travel by value, typed, and are refused with the path to what does not travel."""

from __future__ import annotations

import argparse
import collections
import contextlib
import datetime
import enum
import fractions
import io
import ipaddress
import math
import pathlib
import sys
import threading
import types
import uuid
import zoneinfo
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, NamedTuple

import pytest

import quorate
from quorate import _native, _values


@quorate.register
class Colour(enum.Enum):
    RED = 1


@quorate.register
@dataclass(frozen=True)
class Point:
    x: int
    y: int = 2
    names: tuple[str, ...] = field(default=())


class Place(NamedTuple):
    row: int
    seat: str


@quorate.register
class Number(int):
    pass


class Words(list[str]):
    pass


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
    collections.Counter("abba"),
    collections.OrderedDict(z=1, a=2),
    collections.defaultdict(list, a=[1]),
    collections.deque([1, [2]], maxlen=5),
    collections.deque(),
    Place(1, "x"),
    Number(7),
    Words(["a", "b"]),
    bytearray(b"\x00\xff"),
    datetime.time(23, 59, 59, 999999),
    datetime.time(1, 2, tzinfo=UTC),
    datetime.time(1, 2, tzinfo=zoneinfo.ZoneInfo("Europe/Lisbon"), fold=1),
    zoneinfo.ZoneInfo("Europe/Lisbon"),
    pathlib.PurePosixPath("/a/b"),
    pathlib.Path("c"),
    pathlib.PureWindowsPath("C:/x"),
    fractions.Fraction(-1, 3),
    fractions.Fraction(7),
    complex(1, -math.inf),
    ipaddress.ip_address("10.0.0.1"),
    ipaddress.ip_network("fe80::/64"),
    range(3, 100, 7),
    range(10**30),
    slice(None, 2, -1),
    Ellipsis,
    NotImplemented,
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_value_comes_back_equal_and_of_its_own_type(value: Any) -> None:
    data = _native.dumps(value)
    copy = _native.loads(data)
    assert copy == value
    assert type(copy) is type(value)
    assert _native.dumps(copy) == data


@pytest.mark.parametrize(
    ("value", "arrived"),
    [
        ({"a": 1}.keys(), ["a"]),
        ((n for n in range(3)), [0, 1, 2]),
        (map(str, [1]), ["1"]),
        (memoryview(b"xy"), b"xy"),
        (types.MappingProxyType({"a": 1}), {"a": 1}),
        (collections.defaultdict(lambda: 3, a=1), {"a": 1}),
        ({"inside": iter([1, (n for n in "ab")])}, {"inside": [1, ["a", "b"]]}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_views_and_iterators_arrive_as_what_they_give(value: Any, arrived: Any) -> None:
    assert _native.loads(_native.dumps(value)) == arrived


def test_a_factory_that_does_not_travel_is_left_out() -> None:
    copy = _native.loads(_native.dumps(collections.defaultdict(lambda: 3)))
    assert type(copy) is collections.defaultdict
    assert copy.default_factory is None


def test_numbers_and_arrays_of_numpy_travel_and_need_no_numpy_at_the_other_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    numpy = pytest.importorskip("numpy")
    values = [
        (numpy.float64(1.5), 1.5),
        (numpy.int32(-7), -7),
        (numpy.bool_(True), True),
        (numpy.arange(6, dtype=">i2").reshape(2, 3), [[0, 1, 2], [3, 4, 5]]),
        (numpy.zeros((0, 3)), []),
        (numpy.array(2.5), 2.5),
        (numpy.array([1 + 2j]), [1 + 2j]),
    ]
    encoded = [_native.dumps(value) for value, _ in values]
    for data, (value, _) in zip(encoded, values, strict=True):
        copy = _native.loads(data)
        assert (type(copy), copy.dtype, copy.shape) == (type(value), value.dtype, value.shape)
        assert (copy == value).all()
    assert _native.loads(_native.dumps(numpy.str_("x"))) == "x"
    day = numpy.datetime64("2024-02-29")
    assert _native.loads(_native.dumps(day)) == day
    with pytest.raises(quorate.UnsupportedValue):
        _native.dumps(numpy.array([object()]))
    times = _native.dumps(day)
    monkeypatch.setitem(sys.modules, "numpy", None)
    assert [_native.loads(data) for data in encoded] == [plain for _, plain in values]
    with pytest.raises(quorate.MalformedValue, match="need numpy"):
        _native.loads(times)


class Fields(int):
    extra: int


class Picky(str):
    def __new__(cls, text: str, more: str) -> Picky:
        return super().__new__(cls, text + more)


def test_rare_kinds_that_would_not_arrive_whole_are_refused() -> None:
    with_fields = Fields(3)
    with_fields.extra = 1
    for value, reason in (
        (with_fields, "Fields is not supported, for it has fields beside its content"),
        (Picky("a", "b"), "Picky is not supported, for its class cannot make it from its content alone"),
        (fractions.Fraction(1, 10**5000), "Fraction of more than 4096 bytes"),
        (pathlib.PurePath("x" * 5000), "of more than 4096 bytes"),
        (1 << (8 << 16), "an integer of more than 65536 bytes"),
        (io.StringIO("x"), "StringIO is not supported"),
        (int, "type is not supported"),
        (argparse.Namespace(), "Namespace is not supported"),
    ):
        with pytest.raises(quorate.UnsupportedValue, match=reason):
            _native.dumps(value)


def test_a_value_that_grows_while_it_is_written_ends() -> None:
    def add() -> Iterator[int]:
        entries["more"] = 1
        yield 1

    entries: dict[str, Any] = {}
    entries["first"] = add()
    entries["last"] = {add(), 2}
    with contextlib.suppress(quorate.UnsupportedValue):
        _native.dumps(entries)
    long = ["x" * (1 << 20)] * 1000
    with pytest.raises(quorate.UnsupportedValue, match=r"more than 8384512 bytes .* too large"):
        _native.dumps(long)


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
    with pytest.raises(quorate.UnsupportedValue, match=r"^args\[1\]: lock is not supported: send what"):
        _native.dump_call("put", (1, threading.Lock()), {})
    with pytest.raises(quorate.UnsupportedValue, match=r"^kwargs\[\"owner\"\]\['a'\]\[1\]: Owner is"):
        _native.dump_call("put", (), {"owner": {"a": [0, Owner()]}})
    with pytest.raises(TypeError, match="surrogates"):
        _native.dumps("\ud800")


def test_the_path_goes_through_fields_of_data_classes() -> None:
    with pytest.raises(quorate.UnsupportedValue, match=r"^args\[0\]\.x: lock is not supported: send what"):
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
        b"\xd9\xea\x6a\x82\x82\x01\x02\x01\x01",  # a queue longer than it may be, and bytes left over
        b"\xd9\xea\x6b\x83\x61b\xa0\xf6",  # a map of an unknown kind
        b"\xd9\xea\x6b\x83\x67default\xa0\x01",  # a factory without a name
        b"\xa1\x80\x00",  # a key that cannot be one
        b"\xd9\x01\x02\x81\x80",  # an element that cannot be one
        b"\xd9\xea\x62\x81\xa0",  # the same in a frozen set
        b"\xd9\xea\x6c\x82\x6eos.stat_result\xa0",  # a named tuple that is not known
        b"\xd9\xea\x6d\x82\x6ebuiltins.eval_\x00",  # a class that is not known
        b"\xd9\xea\x6e\x82\x64exec\x61x",  # a texted kind that is none
        b"\xd9\xea\x6e\x82\x68Fraction\x631/0",  # a fraction that is none
        b"\xd9\xea\x6e\x82\x68ZoneInfo\x6d../etc/passwd",  # a zone outside of the zones
        b"\xd9\xea\x6f\x83\x01\x02\x00",  # a range without a step
        b"\xd9\xea\x79\x64exit",  # a singleton that is none
        b"\xd9\xea\x7b\x83\x63<f9\xf6\x40",  # numbers of no form
        b"\xd9\xea\x7b\x83\x63<f8\x81\x1b\xff\xff\xff\xff\xff\xff\xff\xff\x40",  # a longer array
        b"\xc2\x5a\x00\x01\x00\x01" + b"\x01" * 65537,  # an integer that is too large
    ],
)
def test_hostile_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(quorate.MalformedValue):
        _native.loads(data)


@quorate.register
@dataclass
class Cents:
    amount: int

    def __post_init__(self) -> None:
        if self.amount < 0:
            raise ValueError("less than nothing")
        self.amount *= 100


def test_a_data_class_arrives_with_the_fields_that_it_had(monkeypatch: pytest.MonkeyPatch) -> None:
    data = _native.dumps(Cents(3))
    assert _native.loads(data).amount == 300
    monkeypatch.setattr(_values._reading, "is_host", True)
    assert _native.loads(data).amount == 30_000, "a caller cannot get around what __init__ makes"
    with pytest.raises(quorate.MalformedValue, match="less than nothing"):
        _native.loads(data.replace(b"\x19\x01\x2c", b"\x39\x01\x2c"))


def test_a_data_class_arrives_through_its_checks() -> None:
    data = _native.dumps(Point(1)).replace(b"\x61x", b"\x61q")
    with pytest.raises(quorate.MalformedValue):
        _native.loads(data)


def test_a_class_of_no_registered_package_does_not_travel() -> None:
    assert Unregistered.__module__ == Point.__module__
    with pytest.raises(quorate.UnsupportedValue):
        _native.dumps(argparse.Namespace())
