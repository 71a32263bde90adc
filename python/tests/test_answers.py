"""What methods return arrives by value and of its kind; what cannot travel says that it was executed."""

from __future__ import annotations

import asyncio
import collections
import datetime
import pathlib
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from answer_subjects import Colour, Item, Name, Plain, Point, Shop, SlowShop

import quorate
from quorate import _native
from quorate._proxy import flow_of


@pytest.fixture(scope="module")
def shop() -> Iterator[Any]:
    with quorate.local(Shop) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def slow_shop() -> Iterator[Any]:
    with quorate.local(SlowShop) as proxy:
        yield proxy


def test_kinds_of_the_standard_library_arrive_as_they_were_returned(shop: Any) -> None:
    expected = [
        collections.Counter("abba"),
        collections.deque([1, 2], maxlen=3),
        collections.OrderedDict(b=1, a=2),
        collections.defaultdict(list, a=[1]),
        Point(1, 2),
        bytearray(b"x"),
        datetime.time(12, 30),
        pathlib.PurePosixPath("a/b"),
        range(3),
        Name("A-1"),
        Colour.RED,
        Item("tea", 3),
    ]
    arrived = shop.kinds()
    assert arrived == expected
    assert [type(item) for item in arrived] == [type(item) for item in expected]
    assert arrived[1].maxlen == 3
    assert arrived[3]["new"] == []


def test_a_method_that_returns_its_object_gives_the_proxy(shop: Any) -> None:
    sold = shop.sold
    assert shop.buy("tea").buy("tea") is shop
    assert shop.sold == sold + 2


def test_what_a_call_returned_is_a_copy(shop: Any) -> None:
    shop.all_stock()["jam"] = 99
    assert shop.all_stock()["jam"] == 1


def test_generators_iterators_and_views_arrive_as_lists(shop: Any) -> None:
    keys, values, items = shop.items()
    assert (keys, items) == (["tea", "jam"], list(zip(keys, values, strict=True)))
    sold = shop.sold
    assert shop.each() == ["tea", "jam"]
    assert shop.sold == sold + 2, "it was drawn where the object is"


def test_an_iterator_that_raises_midway_is_the_exception_of_the_call(shop: Any) -> None:
    with pytest.raises(LookupError, match="no more"):
        shop.each_until(3)


@pytest.mark.parametrize(
    ("method", "reason"),
    [
        ("for_ever", "a million items"),
        ("loop", "contains itself"),
        ("plain", r"result\[0\]: Plain is not supported: make it a data class"),
    ],
)
def test_what_cannot_travel_was_executed_all_the_same(shop: Any, method: str, reason: str) -> None:
    sold = shop.sold
    with pytest.raises(quorate.UnsupportedResult, match=reason) as caught:
        getattr(shop, method)()
    assert caught.value.executed is True
    assert shop.sold == sold + 1


def test_odd_values_are_refused_with_their_reason(shop: Any) -> None:
    assert shop.deep(60) is not None
    for call, reason in (
        (lambda: shop.deep(100_000), "nesting"),
        (shop.wide, "too large|a million items"),
        (lambda: shop.huge(1 << 20), "65536 bytes"),
        (shop.half, "surrogates"),
        (shop.nested, "Shop is not supported"),
    ):
        with pytest.raises(quorate.UnsupportedResult, match=reason):
            call()
    assert shop.huge(1000) == 1 << 1000


def test_an_exception_keeps_cause_attributes_notes_and_named_arguments(shop: Any) -> None:
    with pytest.raises(Exception, match="no salt") as caught:
        shop.refuse("salt")
    error: Any = caught.value
    assert (type(error).__name__, error.item, error.left) == ("Refusal", "salt", 2)
    assert error.__notes__[0] == "ask again tomorrow"
    assert isinstance(error.__cause__, KeyError)
    assert error.__cause__.args == ("salt",)


def test_an_error_of_the_system_keeps_its_number_and_file(shop: Any) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        shop.refuse_quietly()
    assert (caught.value.errno, caught.value.filename) == (2, "/stock.txt")


def test_a_group_of_exceptions_keeps_its_members(shop: Any) -> None:
    with pytest.raises(ExceptionGroup) as caught:
        shop.refuse_both()
    first, inner = caught.value.exceptions
    assert isinstance(first, ValueError)
    assert isinstance(inner, ExceptionGroup)
    assert type(inner.exceptions[0]).__name__ == "Refusal"


def test_causes_in_a_circle_end(shop: Any) -> None:
    with pytest.raises(ValueError, match="one") as caught:
        shop.refuse_around()
    assert str(caught.value.__cause__) == "other"


def test_an_exception_may_be_a_result(shop: Any) -> None:
    (failure,) = shop.failures()
    assert (type(failure), failure.args) == (ValueError, ("x", 1))


def test_an_async_method_that_waits_for_nothing_outside_is_an_ordinary_call(slow_shop: Any) -> None:
    sold = slow_shop.sold
    assert slow_shop.sell("tea") == sold + 1
    assert slow_shop.each_slowly() == [0, 1, 2]


@pytest.mark.parametrize("method", ["wait_a_second", "wait_for_ever", "start_another"])
def test_an_async_method_that_waits_is_refused_by_its_name(slow_shop: Any, method: str) -> None:
    with pytest.raises(
        quorate.WaitsOutside, match=f"`SlowShop.{method}` is async and waits for an event loop"
    ):
        getattr(slow_shop, method)()
    assert slow_shop.sell("jam") > 0, "the object serves on"


def test_asyncio_has_the_same_answers(slow_shop: Any) -> None:
    origin = flow_of(slow_shop).origin
    assert origin is not None

    async def calls() -> None:
        async with quorate.aconnect(origin.endpoint, SlowShop) as proxy:
            assert await proxy.buy("tea") is proxy
            assert await proxy.sell("tea") == await proxy.sold

    asyncio.run(calls())


def test_a_class_that_is_not_sent_says_what_to_do() -> None:
    with pytest.raises(quorate.UnsupportedValue, match="Plain is not supported: make it a data class"):
        _native.dumps(Plain())


UNKNOWN = """
import sys, quorate
with quorate.connect(sys.argv[1]) as shop:
    try:
        shop.kinds()
    except quorate.UnsupportedResult as error:
        print(error.executed, error)
    try:
        shop.refuse("salt")
    except quorate.RemoteError as error:
        print(type(error).__name__, error, error.item, type(error.__cause__).__name__)
"""


def test_a_caller_that_knows_no_class_is_told_what_happened(shop: Any) -> None:
    origin = flow_of(shop).origin
    assert origin is not None
    command = [sys.executable, "-c", UNKNOWN, origin.endpoint]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert told[0].startswith(
        "True the method was executed; its result cannot be read here: class answer_subjects.Point"
    )
    assert told[1] == "Refusal answer_subjects.Refusal: no salt salt KeyError"
