"""Functions without a name are kept by the place of their code; modules, streams and such by their names."""

from __future__ import annotations

import argparse
import collections
import decimal
import email.message
import email.policy
import functools
import html.parser
import http
import io
import math
import random
import re
import sys
import threading
import types
import weakref
import xml.etree.ElementTree as ET
from collections.abc import Callable
from typing import Any

import pytest

import quorate
from quorate import _names, _native

_names.allow_package(__name__)

by_name = lambda number: number + 1  # noqa: E731
TABLE = {"double": lambda number: 2 * number, "halve": lambda number: number // 2}


class Holder:
    order = staticmethod(lambda number: -number)


def copy_of(value: Any) -> Any:
    data = _native.dump_state(value)
    copy = _native.load_state(data)
    assert _native.dump_state(copy) == data
    return copy


def counters() -> tuple[Callable[[], int], Callable[[], int]]:
    count = 0

    def up() -> int:
        nonlocal count
        count += 1
        return count

    def down() -> int:
        nonlocal count
        count -= 1
        return count

    return up, down


def factorial() -> Callable[[int], int]:
    def of(number: int) -> int:
        return 1 if number < 2 else number * of(number - 1)

    return of


def test_a_lambda_is_kept_with_its_defaults() -> None:
    table = copy_of(collections.defaultdict(lambda: [0]))
    table["a"].append(1)
    assert table == {"a": [0, 1]}
    seven = copy_of([lambda a, b=[7], *, c=3: (a, b, c)])[0]
    assert seven(1) == (1, [7], 3)
    assert (seven.__name__, seven.__module__) == ("<lambda>", __name__)


def test_functions_of_one_call_share_their_variables_after_a_restore() -> None:
    up, down = counters()
    up()
    up, down, again = copy_of([up, down, up])
    assert again is up
    assert (up(), up(), down()) == (2, 3, 2)


def test_a_function_that_calls_itself_by_its_variable_does_so_after_a_restore() -> None:
    of = copy_of([factorial()])[0]
    assert of(5) == 120
    assert of.__closure__[0].cell_contents is of


def test_a_lambda_that_a_module_has_stays_it() -> None:
    mine = [by_name, TABLE["halve"], Holder.order]
    assert all(one is other for one, other in zip(mine, copy_of(mine), strict=True))


def test_a_wrapped_function_keeps_its_name_and_what_it_wraps() -> None:
    def shout(text: str) -> str:
        """Say it loudly."""
        return text.upper()

    @functools.wraps(shout)
    def twice(text: str) -> str:
        return shout(text) * 2

    twice.calls = [1]  # type: ignore[attr-defined]
    copy = copy_of([twice, twice.calls])  # type: ignore[attr-defined]
    assert copy[0]("a") == "AA"
    assert (copy[0].__name__, copy[0].__doc__, copy[0].__wrapped__("b")) == ("shout", "Say it loudly.", "B")
    assert copy[0].calls is copy[1]


def test_code_that_no_module_has_is_refused_with_the_way_out() -> None:
    scope: dict[str, Any] = {"__name__": __name__}
    exec("made = lambda: 1", scope)
    for made in (scope["made"], eval("lambda: 1")):
        with pytest.raises(
            quorate.UnsupportedValue, match=r"^self\[0\]: lambda is not supported, .* define it"
        ):
            _native.dump_state([made])


def test_a_function_that_its_module_has_no_more_is_said_to_be_gone() -> None:
    data = _native.dump_state([lambda: 1])
    for one, other in ((b"lambda>", b"lambdb>"), (__name__.encode(), b"_" + __name__.encode()[1:])):
        with pytest.raises(quorate.MalformedValue, match="is gone or has changed"):
            _native.load_state(data.replace(one, other))


@pytest.mark.parametrize(
    "value",
    [
        str.lower,
        dict.get,
        int.__add__,
        object,
        decimal.Decimal,
        math,
        re,
        sys.stdout,
        sys.stderr,
        http.HTTPStatus.NOT_FOUND,
        re.IGNORECASE | re.MULTILINE,
        random.SystemRandom,
    ],
    ids=repr,
)
def test_what_the_standard_library_has_by_name_stays_it(value: Any) -> None:
    assert copy_of([value])[0] == value


def test_a_method_in_c_is_bound_to_the_copy() -> None:
    pattern = re.compile("a+")
    pattern, match = copy_of([pattern, pattern.match])
    assert match.__self__ is pattern
    assert match("aab").end() == 2


@pytest.mark.parametrize("flags", [0, re.IGNORECASE, re.ASCII])
def test_a_pattern_is_the_one_that_is_compiled_again(flags: int) -> None:
    for text in ("a+ once", "(?s)a+ once", b"a+ once"):
        pattern = re.compile(text, flags)
        image = _native.dump_state([pattern])
        re.purge()
        copy = _native.load_state(image)[0]
        assert copy.flags == pattern.flags
        if not str(text).count("?") or not flags:
            assert re.compile(text, flags) is copy


def test_modules_that_reach_outside_are_refused() -> None:
    for name in ("os", "subprocess", "socket"):
        __import__(name)
        with pytest.raises(quorate.UnsupportedValue, match=f"module {name} is not supported"):
            _native.dump_state([sys.modules[name]])


def parsed(parser: argparse.ArgumentParser) -> Any:
    parser.add_argument("--count", type=int, default=3)
    return vars(parser.parse_args(["--count", "5"]))


def message() -> email.message.Message:
    made = email.message.Message(policy=email.policy.compat32)
    made["Subject"] = "kept"
    made.set_payload("text")
    return made


def test_instances_of_harmless_classes_of_the_standard_library_are_kept() -> None:
    assert parsed(copy_of([argparse.ArgumentParser(prog="x", exit_on_error=False)])[0]) == {"count": 5}
    assert copy_of([message()])[0].as_string() == message().as_string()
    parser = html.parser.HTMLParser()
    parser.feed("<a>text<b")
    assert copy_of([parser])[0].rawdata == "<b"


def test_files_in_memory_and_elements_keep_their_content() -> None:
    text, data = io.StringIO("one\ntwo\n"), io.BytesIO(b"abc")
    text.readline()
    data.read(1)
    text, data = copy_of([text, data])
    closed = io.StringIO()
    closed.close()
    assert copy_of([closed])[0].closed
    assert (text.read(), text.getvalue(), data.read()) == ("two\n", "one\ntwo\n", b"bc")
    root = ET.fromstring("<a b='c'><d>e</d></a>")
    assert ET.tostring(copy_of([root])[0]) == ET.tostring(root)


def test_a_thread_s_own_values_are_those_of_the_one_thread() -> None:
    own = threading.local()
    own.items = [1]
    assert copy_of([own])[0].items == [1]


def test_views_show_the_copy() -> None:
    pairs = {"a": 1}
    pairs, keys, proxy = copy_of([pairs, pairs.keys(), types.MappingProxyType(pairs)])
    pairs["b"] = 2
    assert (list(keys), dict(proxy)) == (["a", "b"], {"a": 1, "b": 2})


class Named:
    """Not hashed by its address, which a host would agree on."""

    def __hash__(self) -> int:
        return 7

    def __eq__(self, other: object) -> bool:
        return self is other


def test_weak_references_refer_to_the_copy() -> None:
    held = Named()
    table = weakref.WeakValueDictionary({"a": held})
    held, reference, table, group = copy_of([held, weakref.ref(held), table, weakref.WeakSet([held])])
    assert reference() is held
    assert (table["a"], list(group)) == (held, [held])
    del held
    assert (reference(), dict(table), list(group)) == (None, {}, [])
    assert copy_of([reference])[0]() is None


def test_annotations_of_functions_in_functions_are_kept() -> None:
    def handle(number: int, of: Callable[[], int]) -> None: ...

    handle.__annotations__["own"] = Holder
    before = dict(handle.__annotations__)
    assert copy_of([handle])[0].__annotations__ == before


@pytest.mark.parametrize("function", [hasattr, dir, aiter, anext])
def test_builtin_functions_that_touch_only_their_arguments_are_kept(function: Any) -> None:
    assert _native.load_state(_native.dump_state([function]))[0] is function


@pytest.mark.parametrize("function", [eval, exec, compile, open, __import__, globals, getattr, setattr])
def test_builtin_functions_that_run_code_or_touch_the_machine_are_refused(function: Any) -> None:
    with pytest.raises(quorate.UnsupportedValue, match="is not supported"):
        _native.dump_state([function])
