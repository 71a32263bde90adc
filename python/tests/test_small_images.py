"""A small state is written between two calls as in a snapshot process, unless code of its classes may run."""

from __future__ import annotations

import datetime
import enum
import importlib
import math
import os
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from test_images import write_image

from quorate import _environment, _host, _images, _names, _native, _own

_names.allow_package(__name__)
BYTES_MAX = 64 << 10


@dataclass
class Order:
    goods: list[str]
    due: datetime.datetime
    price: Decimal
    tags: set[str] = field(default_factory=set)


class Slotted:
    __slots__ = ("__secret", "open")

    def __init__(self) -> None:
        self.__secret, self.open = 1, [2]


class Linked:
    def __init__(self) -> None:
        self.itself = self
        self.others = [self, {"me": self}]


class Computed:
    def __init__(self) -> None:
        self.kept = 1

    @property
    def fields(self) -> int:
        raise AssertionError("a property is no field")

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)

    def __eq__(self, other: object) -> bool:
        raise AssertionError("nothing is compared")

    __hash__ = None  # type: ignore[assignment]


SHARED: list[Any] = [1]
NOON = datetime.datetime(2030, 1, 2, 12, tzinfo=datetime.UTC)


@pytest.mark.parametrize(
    "value",
    [
        None,
        {"a": 1, 2: [b"x", 1.5, True, None, (1, ("b",))], 1 << 80: -(1 << 90)},
        {"text", 5, "more"},
        [SHARED, SHARED, math.nan],
        Order(["tea"], NOON, Decimal("1.50"), {"a", "b"}),
        Slotted(),
        Linked(),
        Computed(),
        [NOON.replace(tzinfo=None), NOON.date(), datetime.timedelta(days=1), uuid.UUID(int=7)],
        {f"k{number}": number for number in range(4000)},
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_runs_no_code_is_encoded_as_in_a_snapshot_process(value: Any, tmp_path: Path) -> None:
    image = _native.dump_small_state(value, BYTES_MAX)
    assert image is not None and image == _native.dump_state(value)
    small, forked = tmp_path / "small", tmp_path / "forked"
    assert _images.write_small({1: value}, str(small), {}, {1: b"head"})
    assert write_image(value, forked, heads={1: b"head"}) == (0, "")
    assert small.read_bytes() == forked.read_bytes()


class Meta(type):
    pass


class OfMeta(metaclass=Meta):
    pass


class Colour(enum.Enum):
    RED = 1


@pytest.fixture(scope="module")
def hooked() -> Iterator[Any]:
    """Classes with code; no other test may see them, for they spoil what is proven of reads."""
    module = importlib.import_module("hooked_subjects")
    _names.allow_package("hooked_subjects")
    assert _names.is_allowed(module.Inherits)
    yield module
    _names._packages.discard("hooked_subjects")
    del sys.modules["hooked_subjects"]


@pytest.mark.parametrize(
    "name",
    [
        *("WithGetstate", "WithSetstate", "WithReduce", "WithReduceEx", "WithGetattr", "WithGetattribute"),
        *("WithHash", "Inherits", "Zone"),
    ],
)
def test_where_code_of_a_class_would_run_a_process_is_left_to_run_it(name: str, hooked: Any) -> None:
    made = vars(hooked)[name]()
    value = NOON.replace(tzinfo=made) if name == "Zone" else made
    hooked.RAN.clear()
    check_left_to_a_process(value)
    assert hooked.RAN == []


@pytest.mark.parametrize("make", [OfMeta, lambda: Colour.RED, Path, lambda: int])
def test_what_is_more_than_its_fields_is_left_to_a_process(make: Any) -> None:
    check_left_to_a_process(make())


def check_left_to_a_process(value: Any) -> None:
    for state in (value, [value], {"a": (value,)}):
        assert _native.dump_small_state(state, BYTES_MAX) is None


class Element:
    pass


def test_elements_whose_order_needs_a_look_are_left_to_a_process() -> None:
    for element in (Element(), (1, 2), 1.5):
        assert _native.dump_small_state({element}, BYTES_MAX) is None


@pytest.mark.parametrize(
    "value",
    [
        "x" * (BYTES_MAX + 1),
        ["x" * 100] * (BYTES_MAX // 100),
        dict.fromkeys(range(20_000)),
        set(range(20_000)),
        [Linked() for _ in range(2000)],
    ],
    ids=["text", "list", "dict", "set", "instances"],
)
def test_what_is_large_is_left_to_a_process(value: Any) -> None:
    assert _native.dump_small_state(value, BYTES_MAX) is None


def test_many_objects_and_objects_that_are_large_together_are_left_to_a_process(tmp_path: Path) -> None:
    path = str(tmp_path / "image")
    assert not _images.write_small(dict.fromkeys(range(100)), path, {}, {})
    assert not _images.write_small({1: "x" * (BYTES_MAX - 100), 2: "y" * 200}, path, {}, {})
    assert not _images.write_small({1: Linked()}, path, {1: Order}, {}), "its class has changed"
    assert not _images.write_small({1: 1}, str(tmp_path / "gone" / "image"), {}, {})
    assert list(tmp_path.iterdir()) == []


def no_fork() -> int:
    raise BlockingIOError("no more processes")


@pytest.mark.parametrize("state", [Linked(), OfMeta()], ids=["small", "forked"])
def test_calls_have_no_effects_after_a_snapshot_whatever_became_of_it(
    state: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects = {**{number: cls() for number, cls in _own.CLASSES.items()}, 1: state}
    heads = dict.fromkeys(objects, b"")
    before, open_before = _environment.refuse_effects(True), os.listdir("/proc/self/fd")
    monkeypatch.setattr(os, "fork", no_fork)
    try:
        host = _host.Host(-1)
        if isinstance(state, Linked):
            assert host.freeze(dict(objects), heads, str(tmp_path / "image")) is None
        else:
            with pytest.raises(BlockingIOError):
                host.freeze(dict(objects), heads, str(tmp_path / "image"))
    finally:
        is_refusing = _environment.refuse_effects(before)
    assert is_refusing
    assert os.listdir("/proc/self/fd") == open_before
