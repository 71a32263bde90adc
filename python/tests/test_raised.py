"""Exceptions keep their class where it is known, and never run code for one that is not."""

from __future__ import annotations

from typing import Any

import pytest

import quorate
from quorate._host import Host
from quorate._raised import exception_of


@quorate.register
class Overdrawn(Exception):
    def __init__(self, account: str, missing: int) -> None:
        super().__init__(account, missing)
        self.missing = missing


class Awkward(Exception):
    def __init__(self, a: int, b: int) -> None:
        super().__init__("awkward")


def travelled(error: BaseException) -> BaseException:
    try:
        raise error  # noqa: TRY301
    except BaseException as caught:
        return exception_of(list(Host(-1).describe(caught)))


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


def test_a_class_that_does_not_fit_its_arguments_becomes_a_remote_error() -> None:
    assert isinstance(travelled(Awkward(1, 2)), quorate.RemoteError)


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
