"""Instances of subclasses of C types are kept whole, or refused: never emptied."""

from __future__ import annotations

import _thread
import array
import ast
import collections
import copyreg
import datetime
import functools
import itertools
import queue
import sqlite3
import sys
import types
from decimal import Decimal
from typing import Any

import pytest

import quorate
from quorate import _content, _names, _native

_names.allow_package(__name__)


class Money(Decimal):
    currency: str


class Names(frozenset[str]):
    note: str


class Buffer(bytearray):
    note: str


class Count(int):
    unit: str


class Word(str):
    language: str


class Level(float):
    unit: str


class Blob(bytes):
    note: str


class Row(tuple[int, ...]):
    note: str


class Line(collections.deque[int]):
    note: str


class Groups(collections.defaultdict[str, list[int]]):
    note: str


class Tally(collections.Counter[str]):
    note: str


class Ordered(collections.OrderedDict[str, int]):
    note: str


class Numbers(array.array):  # type: ignore[type-arg]
    note: str


class Day(datetime.date):
    note: str


class Moment(datetime.datetime):
    note: str


class Span(datetime.timedelta):
    note: str


class Later(functools.partial[int]):
    note: str


class Failure(LookupError):
    note: str


def grown(value: Any) -> Any:
    value.note = "kept"
    return value


def filled(value: Any, *items: Any) -> Any:
    for item in items:
        value.append(item)
    return grown(value)


KEPT: list[Any] = [
    Money("1.50"),
    Names({"a", "b"}),
    Buffer(b"abc"),
    Count(10**30),
    Word("grüße"),
    Level(2.5),
    Blob(b"\x00\xff"),
    Row((1, 2)),
    filled(Line(maxlen=2), 1, 2, 3),
    Groups(list, {"a": [1]}),
    Tally("hello"),
    Ordered(z=1, a=2),
    Numbers("d", [1.5, 2.5]),
    Day(2024, 2, 29),
    Moment(2024, 10, 27, 1, 30, fold=1),
    Span(days=-3, microseconds=7),
    Failure("no such", 7),
]


def copy_of(value: Any) -> Any:
    data = _native.dump_state(value)
    copy = _native.load_state(data)
    assert _native.dump_state(copy) == data
    return copy


@pytest.mark.parametrize("value", KEPT, ids=lambda value: type(value).__name__)
def test_an_instance_of_a_subclass_of_a_c_type_comes_back_with_content_and_fields(value: Any) -> None:
    copy = copy_of(grown(value))
    assert type(copy) is type(value)
    assert copy.note == "kept"
    assert copy.args == value.args if isinstance(value, Failure) else copy == value
    if isinstance(value, Line):
        assert copy.maxlen == 2
    if isinstance(value, Groups):
        assert copy["new"] == []
    if isinstance(value, Moment):
        assert copy.fold == 1


class Waiting(queue.SimpleQueue[int]):
    pass


class Base(sqlite3.Connection):
    pass


class Steps(itertools.count):  # type: ignore[type-arg]
    pass


class Gate(_thread.RLock):  # type: ignore[misc]
    pass


@pytest.mark.parametrize(
    "value",
    [Waiting(), Base(":memory:"), Steps(3), Gate()],
    ids=lambda value: type(value).__name__,
)
def test_content_in_c_that_cannot_be_read_is_refused_by_path_and_base(value: Any) -> None:
    base = type(value).__mro__[1].__name__
    with pytest.raises(
        quorate.UnsupportedValue,
        match=rf"^self\['a'\]: {type(value).__name__} is not supported: its base {base} keeps content in C",
    ):
        _native.dump_state({"a": value})


class Hidden:
    __slots__ = ("__secret", "shown")

    def __init__(self) -> None:
        self.__secret, self.shown = 1, 2

    def secret(self) -> int:
        return self.__secret


class HiddenTwice(Hidden):
    __slots__ = ("shown",)

    def __init__(self) -> None:
        super().__init__()
        vars(Hidden)["shown"].__set__(self, 3)


def test_slots_with_private_names_and_slots_of_the_same_name_are_kept() -> None:
    copy = copy_of(HiddenTwice())
    assert copy.secret() == 1
    assert (copy.shown, vars(Hidden)["shown"].__get__(copy)) == (2, 3)


class WithProperty:
    def __init__(self) -> None:
        self.__dict__["size"] = 5

    @property
    def size(self) -> int:
        return int(self.__dict__["size"])


def test_a_field_that_a_property_hides_is_kept() -> None:
    assert copy_of(WithProperty()).size == 5


class Attributes(dict[str, Any]):
    def __init__(self, **items: Any) -> None:
        super().__init__(**items)
        self.__dict__ = self


def test_a_dict_that_is_its_own_attributes_stays_so() -> None:
    copy = copy_of(Attributes(a=1))
    copy.b = 2
    assert copy == {"a": 1, "b": 2}
    copy["c"] = 3
    assert copy.c == 3


class Demanding:
    def __new__(cls, size: int) -> Demanding:
        made = super().__new__(cls)
        made.size = size
        return made

    size: int


def test_a_class_whose_new_takes_arguments_comes_back_without_running_it() -> None:
    assert copy_of(Demanding(7)).size == 7


class PartlyOwn(dict[str, int]):
    def __init__(self) -> None:
        super().__init__(a=1)
        self.note = "kept"

    def __getstate__(self) -> dict[str, Any]:
        return {"note": self.note}


def test_a_container_with_its_own_getstate_keeps_its_items_too() -> None:
    copy = copy_of(PartlyOwn())
    assert (copy, copy.note) == ({"a": 1}, "kept")


def test_the_base_that_keeps_content_in_c_is_found_by_the_size_of_instances() -> None:
    class Plain:
        pass

    class Slotted(Plain):
        __slots__ = ("x", "y")

    assert _content.root_of(Slotted) is object
    assert _content.root_of(Money) is Decimal
    assert _content.root_of(Tally) is dict
    assert _content.root_of(Failure) is BaseException
    assert _content.root_of(Base) is None
    assert _content.root_of(type(itertools.chain())) is None
    partial = grown(Later(max, 1))
    assert _content.ROOTS[functools.partial].items(partial) == [max, (1,), {}]  # type: ignore[misc]


class Unshown:
    """Stands for a class of a C extension that its module does not show."""

    __slots__ = ("word",)
    word: str


def make_unshown(word: str) -> Unshown:
    made = Unshown()
    made.word = word
    return made


def test_an_instance_is_kept_whose_extension_leaves_out_the_package_that_it_lies_in(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # As `regex` does: its patterns are of a class `_regex.Pattern`, which no module has.
    extension = types.ModuleType("outer_package._extension")
    monkeypatch.setattr(extension, "make_unshown", make_unshown, raising=False)
    for one in (Unshown, make_unshown):
        monkeypatch.setattr(one, "__module__", "_extension")
    monkeypatch.setitem(copyreg.dispatch_table, Unshown, lambda one: (make_unshown, (one.word,)))
    with pytest.raises(quorate.UnsupportedValue, match="its package is not allowed"):
        _native.dump_state([make_unshown("a")])
    monkeypatch.setitem(sys.modules, "outer_package._extension", extension)
    _names.allow_package("outer_package")
    image = _native.dump_state([make_unshown("a")])
    assert b"outer_package._extension.make_unshown" in image
    assert _native.load_state(image)[0].word == "a"


def test_a_syntax_tree_is_kept() -> None:
    tree = ast.parse("def f(x):\n    if x: raise ValueError(1)\n    return [y for y in x]\n")
    image = _native.dump_state(tree)
    restored = _native.load_state(image)
    assert ast.dump(restored, include_attributes=True) == ast.dump(tree, include_attributes=True)
    assert _native.dump_state(restored) == image
