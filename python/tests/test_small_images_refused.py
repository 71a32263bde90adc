"""What looks small, or like an instance of plain fields, and is left to a snapshot process all the same."""

from __future__ import annotations

import collections
import copyreg
import errno
import fractions
import io
import math
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from test_agreed_hash import said

from quorate import _environment, _images, _names, _native, _state

_names.allow_package(__name__)
BYTES_MAX = 64 << 10

RAN: list[str] = []


class Meta(type):
    def __eq__(cls, other: object) -> bool:
        RAN.append("__eq__ of a metaclass")
        return cls is other

    def __hash__(cls) -> int:
        RAN.append("__hash__ of a metaclass")
        return 1


class OfMeta(metaclass=Meta):
    pass


class Registered:
    pass


def reduced(_: Registered) -> tuple[Any, ...]:
    RAN.append("what copyreg has")
    return Registered, ()


copyreg.pickle(Registered, reduced)


class Fields(dict[str, Any]):
    def keys(self) -> Any:
        RAN.append("keys of a __dict__")
        return super().keys()


class Plain:
    pass


class First:
    pass


class Name(str):
    def __eq__(self, other: object) -> bool:
        RAN.append("__eq__ of a name")
        return str.__eq__(self, other)

    __hash__ = str.__hash__


class Slotted:
    __slots__ = ("__dict__", "kept")


class Disguised:
    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        RAN.append("__class__ of a member")
        return int


class WithMember:
    __slots__ = ()
    __dict__ = Disguised()  # type: ignore[assignment]


class Ratio(fractions.Fraction):
    @classmethod
    def __subclasshook__(cls, _: type) -> Any:
        RAN.append("__subclasshook__")
        return NotImplemented


def with_fields() -> Plain:
    made = Plain()
    made.__dict__ = Fields(count=1)
    return made


def with_names() -> Slotted:
    made = Slotted()
    made.kept = 1  # type: ignore[attr-defined]
    made.__dict__[Name("kept")] = 2
    return made


@pytest.mark.parametrize("make", [OfMeta, Registered, with_fields, with_names])
def test_code_beside_the_class_of_an_instance_is_left_to_a_process(make: Any) -> None:
    value = make()
    RAN.clear()
    assert _native.dump_small_state([value], BYTES_MAX) is None
    assert RAN == []


@pytest.mark.parametrize("make", [First, WithMember])
def test_no_class_is_asked_about_an_instance_of_another(make: Any) -> None:
    value = make()
    RAN.clear()
    assert _native.dump_small_state([value], BYTES_MAX) == _native.dump_state([value])
    assert RAN == []


def shrunk_set() -> set[int]:
    made = set(range(1_000_000))
    for number in range(10, 1_000_000):
        made.discard(number)
    return made


def shrunk_dict() -> dict[int, int]:
    made = dict.fromkeys(range(1_000_000), 0)
    for number in range(10, 1_000_000):
        del made[number]
    return made


def with_many_fields(count: int) -> Plain:
    made = Plain()
    made.__dict__.update((f"f{number}", number) for number in range(count))
    return made


def with_few_left() -> Plain:
    made = with_many_fields(100_000)
    for number in range(10, 100_000):
        delattr(made, f"f{number}")
    return made


LARGE: list[Any] = [
    *(shrunk_set, shrunk_dict, lambda: frozenset(shrunk_set())),
    *(lambda: with_many_fields(100_000), with_few_left),
    *(lambda: [float("nan") for _ in range(5000)], lambda: [Decimal(n) for n in range(5000)]),
]


@pytest.mark.parametrize("make", LARGE[:2] + LARGE[3:])
def test_what_takes_long_though_its_image_is_small_is_left_to_a_process(make: Any) -> None:
    assert _native.dump_small_state([make()], BYTES_MAX) is None


def test_one_large_scalar_is_not_copied_before_it_is_refused() -> None:
    code = """
import resource
from decimal import Decimal
from quorate import _native
size = 64 << 20
long = 1 << 8 * size
values = ["x" * size, chr(233) * (size // 2), bytes(size), long, -long, Decimal("1" * (1 << 20))]
mapped = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (mapped + (size // 4), resource.RLIM_INFINITY))
for value in values:
    assert _native.dump_small_state([value], 64 << 10) is None
print("alive")
"""
    assert said(code) == "alive\n"


@pytest.mark.parametrize(
    "number",
    [1 << 64, 1 << 8 * 4000, -(1 << 8 * 4000), ~(1 << 8 * 4000), -(1 << 63) - 1],
    ids=int.bit_length,
)
def test_large_integers_are_kept_as_in_a_snapshot_process(number: int) -> None:
    assert _native.dump_small_state(number, BYTES_MAX) == _native.dump_state(number)
    assert _native.load_state(_native.dump_state(number)) == number


@pytest.mark.parametrize("make", [object, collections.deque, lambda: math.sin, io.StringIO])
def test_what_is_no_instance_of_a_class_of_an_allowed_package_is_not_even_looked_for(
    make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_state, "take_apart", None)
    assert _state.parts_without_code(make()) is None


def test_large_calls_that_are_to_come_are_left_to_a_process(tmp_path: Path) -> None:
    heads = {1: bytes(BYTES_MAX), 2: b""}
    assert not _images.write_small({1: 5, 2: 5}, str(tmp_path / "image"), {}, heads)
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def refusing() -> Iterator[None]:
    before = _environment.refuse_effects(True)
    yield
    _environment.refuse_effects(before)


@pytest.mark.usefixtures("refusing")
def test_effects_are_refused_again_whatever_comes_of_the_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> int:
        raise failure

    monkeypatch.setattr(Path, "write_bytes", fail)
    failure: BaseException = OSError(errno.ENOSPC, "no room")
    assert not _images.write_small({1: 5}, str(tmp_path / "image"), {}, {})
    assert _environment.refuse_effects(True)
    failure = MemoryError()
    with pytest.raises(MemoryError):
        _images.write_small({1: 5}, str(tmp_path / "image"), {}, {})
    assert _environment.refuse_effects(True)
