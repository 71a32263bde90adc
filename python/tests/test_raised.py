"""Exceptions keep their class where it is known, and never run code for one that is not."""

from __future__ import annotations

import copy as _copy
import enum
import pickle
import threading
from typing import Any

import pytest

import quorate
from quorate import _native, _values
from quorate._host import Host
from quorate._raised import exception_of


@quorate.register
class Colour(enum.Enum):
    RED = 1


@quorate.register
class Overdrawn(Exception):
    made = 0

    def __init__(self, account: str, missing: int) -> None:
        Overdrawn.made += 1
        super().__init__(account, missing)
        self.missing = missing


@quorate.register
class Missing(Exception):
    def __init__(self, *, item: str) -> None:
        super().__init__(f"no {item}")
        self.item = item


class Awkward(Exception):
    def __init__(self, a: int, b: int) -> None:
        super().__init__("awkward")


def travelled(error: BaseException) -> BaseException:
    try:
        raise error  # noqa: TRY301
    except BaseException as caught:
        return _values.exception(_native.dumps(Host(-1).describe(caught)))


@pytest.mark.parametrize(
    "error",
    [ValueError("on purpose"), KeyError("k"), ZeroDivisionError(), OSError(2, "gone"), StopIteration(3)],
)
def test_a_builtin_comes_back_as_itself(error: BaseException) -> None:
    copy = travelled(error)
    assert (type(copy), copy.args) == (type(error), error.args)


def test_a_known_class_is_made_from_its_arguments() -> None:
    copy = travelled(Overdrawn("A-1", 3))
    assert isinstance(copy, Overdrawn)
    assert copy.missing == 3
    assert "test_raised.py:" in copy.__notes__[0]


def test_an_unknown_class_becomes_a_remote_error_with_name_and_traceback() -> None:
    copy = exception_of(["shop.Missing", "no tea", [], "shop.py:3 in sell"])
    assert isinstance(copy, quorate.RemoteError)
    assert (copy.type_name, copy.remote_traceback) == ("shop.Missing", "shop.py:3 in sell")
    assert str(copy) == "shop.Missing: no tea"


def test_a_class_that_does_not_fit_its_arguments_is_made_without_its_init() -> None:
    copy = travelled(Awkward(1, 2))
    assert (type(copy), copy.args, str(copy)) == (Awkward, ("awkward",), "awkward")


def test_named_arguments_need_no_guess() -> None:
    copy = travelled(Missing(item="tea"))
    assert isinstance(copy, Missing)
    assert (copy.item, str(copy)) == ("tea", "no tea")


def test_what_c_classes_keep_beside_their_arguments_travels() -> None:
    gone = travelled(FileNotFoundError(2, "gone", "stock.txt"))
    assert isinstance(gone, FileNotFoundError)
    assert (gone.errno, gone.strerror, gone.filename) == (2, "gone", "stock.txt")
    module = travelled(ImportError("no", name="shop", path="shop.py"))
    assert isinstance(module, ImportError)
    assert (module.name, module.path) == ("shop", "shop.py")
    text = travelled(UnicodeDecodeError("ascii", b"\xff", 0, 1, "odd"))
    assert isinstance(text, UnicodeDecodeError)
    assert text.object == b"\xff"
    assert travelled(StopIteration(3)).value == 3  # type: ignore[attr-defined]


def test_causes_contexts_and_notes_travel() -> None:
    error = ValueError("outer")
    error.add_note("first")
    error.__cause__ = KeyError("inner")
    error.__cause__.__context__ = Missing(item="tea")
    copy = travelled(error)
    assert copy.__notes__[0] == "first"
    assert isinstance(copy.__cause__, KeyError)
    assert isinstance(copy.__cause__.__context__, Missing)


def test_an_exception_inside_itself_and_a_crowd_of_them_are_told_in_part() -> None:
    error = ValueError("around")
    error.args = (error,)
    assert isinstance(travelled(error), Exception)
    crowd = ExceptionGroup("many", [ExceptionGroup("some", [ValueError(n) for n in range(30)])] * 30)
    copy = travelled(crowd)
    assert isinstance(copy, ExceptionGroup)
    assert len(copy.exceptions) == 30


def test_attributes_that_do_not_travel_are_left_out() -> None:
    error = Overdrawn("A-1", 3)
    error.lock = threading.Lock()  # type: ignore[attr-defined]
    copy = travelled(error)
    assert isinstance(copy, Overdrawn)
    assert not hasattr(copy, "lock")


def test_an_unknown_class_has_its_name_arguments_and_attributes_below_its_known_bases() -> None:
    parts: list[Any] = [
        "shop.SoldOut",
        "no tea",
        ["tea", 3],
        "",
        {"bases": ["shop.Any", "builtins.LookupError"]},
    ]
    parts[4] |= {"attributes": {"item": "tea"}, "notes": ["tomorrow"]}
    copy: Any = exception_of(parts)
    assert {quorate.RemoteError, LookupError} <= set(type(copy).__mro__)
    assert (type(copy).__name__, copy.args, copy.item, copy.__notes__) == (
        "SoldOut",
        ("tea", 3),
        "tea",
        ["tomorrow"],
    )
    for again in (_copy.copy(copy), pickle.loads(pickle.dumps(copy))):
        assert (str(again), again.args, again.item) == ("shop.SoldOut: no tea", ("tea", 3), "tea")


def test_a_part_of_an_unknown_class_does_not_hide_the_exception() -> None:
    told = list(Host(-1).describe(ValueError(Overdrawn("A-1", 1))))
    data = _native.dumps([*told[:2], [Colour.RED, 1], *told[3:]]).replace(b"Colour", b"Colors")
    copy = _values.exception(data)
    assert isinstance(copy, ValueError)
    assert _values.exception(_native.dumps(["builtins.ValueError", "x", [], ""])).args == ("x",)


@pytest.mark.parametrize(
    "parts",
    [
        [],
        ["builtins.ValueError"],
        [1, "", [], "", {}],
        ["builtins.ValueError", 1, [], "", {}],
        ["builtins.ValueError", "", {}, "", {}],
        ["builtins.ValueError", "", [], "", []],
        ["builtins.ValueError", "", [], "", {}, 1],
    ],
)
def test_parts_that_make_no_exception_are_refused(parts: list[Any]) -> None:
    with pytest.raises(quorate.MalformedValue):
        _values.exception(_native.dumps(parts))


@pytest.mark.parametrize(
    "details",
    [
        {"attributes": 1, "notes": "x", "bases": {}, "cause": 1, "context": [], "left out": 3, "new": 1},
        {"attributes": {1: 2}, "notes": [1], "bases": [None]},
        {"attributes": {"__class__": 1, "__traceback__": "x", "args": 3, "add_note": 4}, "notes": ["n"]},
    ],
)
def test_details_of_another_kind_are_left_aside(details: dict[str, Any]) -> None:
    for name in ("builtins.ValueError", "shop.Unknown"):
        copy = _values.exception(_native.dumps([name, "text", ["text"], "", details]))
        assert isinstance(copy, ValueError if name.startswith("builtins") else quorate.RemoteError)
        assert copy.args == ("text",)


def test_a_caller_cannot_have_a_host_call_the_class_of_an_exception() -> None:
    before = Overdrawn.made
    parts = [f"{__name__}.Overdrawn", "other text", ["A-1", 3], "", {}]
    assert isinstance(exception_of(parts, may_construct=False), Overdrawn | quorate.RemoteError)
    assert Overdrawn.made == before


@pytest.mark.parametrize(
    "name", ["os.system", "builtins.exec", "builtins.SystemExit", "quorate._native.loads"]
)
def test_names_that_are_no_exceptions_are_never_called(name: str) -> None:
    copy: Any = exception_of([name, "true", ["true"], ""])
    assert isinstance(copy, quorate.RemoteError)


def test_descriptions_are_the_same_on_every_replica() -> None:
    one, other = (Host(-1).describe(ValueError(f"bad {object()!r}")) for _ in range(2))
    assert one == other
    assert "0x" not in one[1]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("'x' does not exist on <Machine@140255635333200>", "'x' does not exist on <Machine>"),
        ("no handler with id 94123456789012", "no handler with "),
        ("<Cell@0x7f1234567890>", "<Cell>"),
        ("no account 140255635333200", "no account 140255635333200"),
        ("no colour 0xffffff", "no colour 0xffffff"),
    ],
)
def test_an_address_is_left_out_where_the_text_says_that_it_is_one(text: str, told: str) -> None:
    described = Host(0).describe(ValueError(text))
    assert (described[1], described[2]) == (told, [told])
