"""What an object was given beside its content, what it is told apart by, and what became of its class."""

from __future__ import annotations

import collections
import copyreg
import dataclasses
import datetime
import math
import os
import random
import struct
import weakref
from pathlib import Path
from typing import Any, Generic, Literal, Optional, TypeVar, Union

import pytest
import subjects

import quorate
from quorate import _host, _images, _names, _native, _reads

_names.allow_package(__name__)


class Missing:
    pass


MISSING = Missing()
UNKNOWN = float("nan")


class Point(collections.namedtuple("Point", "x y")):
    label: str


ORIGIN = Point(0, 0)


@dataclasses.dataclass(frozen=True)
class Room:
    name: str
    guests: list[str] = dataclasses.field(default_factory=list, compare=False)


LOBBY = Room("lobby")


class Closed:
    def __init__(self) -> None:
        self.count = 0

    def open(self) -> None:
        self.__class__ = Open

    def peek(self) -> int:
        return self.count


class Open(Closed):
    def peek(self) -> int:
        self.count += 1
        return self.count


class Masked:
    def __init__(self) -> None:
        self.content = [1]

    @property
    def __dict__(self) -> dict[str, Any]:  # type: ignore[override]
        return {"content": "masked"}


class Reduced(dict[str, int]):
    def __init__(self) -> None:
        super().__init__(a=1)
        self.note = [1]

    def __reduce__(self) -> Any:
        return copyreg._reconstructor, (Reduced, dict, dict(self)), vars(self)  # type: ignore[attr-defined]


class Absent:
    def __reduce__(self) -> str:
        return "ABSENT"


ABSENT = Absent()
Absent.__module__ = f"{__name__}.documented"


class Unreachable(OSError):
    def __init__(self, number: int, text: str) -> None:
        super().__init__(number, text)
        self.tries = [1]


T = TypeVar("T")


class Box(Generic[T]):
    def __init__(self, item: T) -> None:
        self.item = item


class OddDate(datetime.datetime):
    def replace(self, *_: Any, **__: Any) -> Any:
        raise AttributeError("no")


def copy_of(value: Any) -> Any:
    data = _native.dump_state(value)
    copy = _native.load_state(data)
    assert _native.dump_state(copy) == data
    return copy


@pytest.mark.parametrize(
    "value",
    [collections.OrderedDict(b=1, a=2), collections.Counter("aab"), random.Random(3), random.SystemRandom()],
    ids=lambda value: type(value).__name__,
)
def test_fields_of_an_instance_of_the_standard_library_are_kept(value: Any) -> None:
    value.note = [value]
    copy = copy_of([value])[0]
    assert copy.note[0] is copy
    if isinstance(value, dict):
        assert list(copy.items()) == list(value.items())
    elif type(value) is random.Random:
        assert copy.random() == value.random()


def test_a_marker_of_a_class_without_fields_stays_itself() -> None:
    assert copy_of([MISSING, dataclasses.MISSING]) == [MISSING, dataclasses.MISSING]


def test_a_marker_whose_class_says_that_it_lies_elsewhere_stays_itself() -> None:
    assert copy_of([ABSENT, ABSENT]) == [ABSENT, ABSENT]


def test_what_was_bound_on_a_constant_is_kept() -> None:
    assert copy_of([ORIGIN])[0] is ORIGIN
    ORIGIN.label = "here"
    assert copy_of([ORIGIN])[0].label == "here"


def test_what_can_change_in_a_frozen_instance_is_kept() -> None:
    LOBBY.guests.append("ada")
    held = _native.dump_state({"lobby": LOBBY})
    LOBBY.guests.clear()
    assert _native.load_state(held)["lobby"].guests == ["ada"]


def test_a_finalizer_which_its_class_keeps_is_refused() -> None:
    kept = Missing()
    with pytest.raises(quorate.UnsupportedValue, match=r"finalize is not supported, for what it will call"):
        _native.dump_state([weakref.finalize(kept, print)])


def test_an_instance_whose_class_tells_another_dict_is_refused() -> None:
    with pytest.raises(quorate.UnsupportedValue, match="its class has another __dict__ than its instances"):
        _native.dump_state(Masked())


def test_what_the_class_object_says_of_an_instance_counts_less_than_its_fields() -> None:
    copy = copy_of([Reduced()])[0]
    assert (copy, copy.note, type(copy)) == ({"a": 1}, [1], Reduced)


@pytest.mark.parametrize(
    "error",
    [
        AttributeError("x", name="n", obj=[1]),
        ImportError("x", name="n", path="p"),
        StopIteration(5),
        SystemExit(3),
        FileNotFoundError(2, "absent", "here", None, "there"),
        OSError("only a text"),
        BlockingIOError(11, "again", 7),
        Unreachable(113, "no route"),
        UnicodeDecodeError("utf-8", b"a\xff", 1, 2, "invalid start"),
        UnicodeEncodeError("ascii", "aü", 1, 2, "ordinal"),
        UnicodeTranslateError("aü", 1, 2, "odd"),
        IndentationError("unexpected", ("a.py", 3, 1, "  x", 3, 4)),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_an_exception_keeps_beside_its_arguments_is_kept(error: Any) -> None:
    copy = copy_of([error])[0]
    assert (type(copy), str(copy), repr(copy)) == (type(error), str(error), repr(error))
    for name in dir(error):
        if not callable(getattr(error, name, None)) and name != "__dict__":
            assert getattr(copy, name, None) == getattr(error, name, None)


def test_a_group_of_exceptions_is_kept_with_its_members() -> None:
    lost = FileNotFoundError(2, "absent", "here")
    group = ExceptionGroup("all", [lost, ExceptionGroup("some", [ValueError(1), KeyError("k")])])
    group.add_note("noted")
    kept, same = copy_of([group, lost])
    assert (str(kept), kept.__notes__, kept.exceptions[0]) == ("all (2 sub-exceptions)", ["noted"], same)
    assert (same.errno, same.filename) == (2, "here")
    assert [repr(each) for each in kept.exceptions[1].exceptions] == ["ValueError(1)", "KeyError('k')"]
    assert kept.split(KeyError)[0].exceptions[0].exceptions[0].args == ("k",)


@pytest.mark.parametrize(
    "made",
    [
        Box[int],
        Box[None],
        Box[Box[str]],
        Box[T],  # type: ignore[valid-type]
        Box[int | None],
        Optional[int],  # noqa: UP045 - what people write
        Union[int, str],  # noqa: UP007
        Literal["a", 1],
        dict[str, Box[int]],
    ],
    ids=str,
)
def test_a_type_with_arguments_is_kept(made: Any) -> None:
    assert copy_of([made])[0] == made


def test_an_instance_that_was_made_by_a_type_with_arguments_is_kept() -> None:
    box = Box[int](3)
    copy = copy_of([box])[0]
    assert (copy.item, copy.__orig_class__) == (3, Box[int])


def image_of(value: Any, path: Path, classes: dict[int, type]) -> str:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            _images.write_in_child({1: value}, str(path), writer, os.dup(0), os.getppid(), classes=classes)
        finally:
            os._exit(77)
    os.close(writer)
    os.waitpid(child, 0)
    with os.fdopen(reader) as pipe:
        return pipe.read()


def test_an_object_that_changed_its_class_is_restored_as_what_it_became(tmp_path: Path) -> None:
    host, door = _host.Host(-1), Closed()
    host._classes[1] = Closed
    door.open()
    assert image_of(door, tmp_path / "image", host._classes) == ""
    assert type(host.restore([(1, _native.dump_state(door))])[1]) is Open


def test_an_image_that_no_start_would_take_fails_when_it_is_taken(tmp_path: Path) -> None:
    told = image_of(subjects.Wallet(), tmp_path / "image", {1: subjects.Basket})
    assert "subjects.Basket has become a subjects.Wallet, which no start could know" in told


def test_an_object_that_changed_its_class_has_the_reads_of_what_it_became() -> None:
    reads, door = _reads.Reads(), Closed()
    assert reads.kind(door, "peek") == "proven"
    door.open()
    assert reads.kind(door, "peek") == ""


def test_a_time_of_a_class_that_calculates_in_its_own_way_travels() -> None:
    told = _native.loads(_native.dumps(OddDate(2026, 1, 2, 3)))
    assert told == datetime.datetime(2026, 1, 2, 3)


def test_a_number_that_is_none_keeps_its_bits_and_is_the_one_that_its_module_has() -> None:
    for text in ("fff8000000000000", "7ff80000deadbeef"):
        (number,) = struct.unpack(">d", bytes.fromhex(text))
        assert struct.pack(">d", copy_of([number])[0]).hex() == text
    one, other = [math.nan, UNKNOWN], copy_of([math.nan, UNKNOWN])
    assert list(map(id, other)) == [id(math.nan), id(UNKNOWN)]
    for each in (one, other):
        each.append(math.nan)
    assert one.count(math.nan) == other.count(math.nan) == 2
    assert _native.dump_state(one) == _native.dump_state(other)


class Shy:
    def __init__(self, owner: Any) -> None:
        self.owner = owner

    def __getstate__(self) -> dict[str, Any]:
        self.owner.clear()
        return {}


def test_what_changes_while_it_is_read_is_refused_by_its_path() -> None:
    items: list[Any] = []
    items += [Shy(items), 1, 2]
    named: dict[str, Any] = {}
    named.update(a=Shy(named), b=1)
    for value in (items, named):
        with pytest.raises(
            quorate.UnsupportedValue, match=r"^self\.held: what is in this container changes it"
        ):
            _native.dump_state(Holder(value))


class Holder:
    def __init__(self, held: Any) -> None:
        self.held = held


def test_a_result_that_changes_while_it_is_written_is_refused() -> None:
    given: list[Any] = []

    def drawn() -> Any:
        given.pop()
        yield 1

    given += [drawn(), 2, 3]
    with pytest.raises(quorate.UnsupportedValue, match="changes it while it is read"):
        _native.dumps(given)
