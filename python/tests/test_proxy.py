"""A proxy behaves as its object's class says: special methods, attributes, signatures, copies."""

from __future__ import annotations

import asyncio
import copy
import inspect
import pickle
import subprocess
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from feed_subjects import Feed
from model_subjects import Anything, Countdown, Numbers, Places, Shelf

import quorate
from quorate import _data_model, _native
from quorate._local import program
from quorate._proxy import flow_of


@pytest.fixture(scope="module")
def group() -> Iterator[Any]:
    with quorate.local(Shelf) as proxy:
        yield proxy


@pytest.fixture
def shelf(group: Any) -> Any:
    while group.books:
        del group[0]
    group.put("b")
    group.put("a", front=True)
    return group


def endpoint_of(proxy: Any) -> str:
    origin = flow_of(proxy).origin
    assert origin is not None
    return origin.endpoint


def test_items_are_read_written_and_deleted(shelf: Any) -> None:
    assert (len(shelf), shelf[0], shelf[-1], shelf[0:2]) == (2, "a", "b", ["a", "b"])
    shelf[1] = "c"
    assert ("c" in shelf, "b" in shelf) == (True, False)
    del shelf[0]
    assert shelf.books == ["c"]
    with pytest.raises(IndexError):
        shelf[7]


def test_iteration_is_over_one_copy(shelf: Any) -> None:
    seen = []
    for book in shelf:
        seen.append(book)
        shelf.put("more")
    assert seen == ["a", "b"]
    assert list(reversed(shelf)) == ["more", "more", "b", "a"]


def test_comparison_arithmetic_and_calls_are_those_of_the_class(shelf: Any) -> None:
    assert shelf == ["a", "b"] and shelf != ["a"]
    assert shelf == shelf and shelf != object() and shelf != 3  # noqa: PLR0124
    assert (shelf < 3, -shelf, int(shelf)) == (True, -2, 2)
    more = ["c"]
    assert (shelf + more, more + shelf) == (["a", "b", "c"], ["c", "a", "b"])
    assert shelf(2, by="+") == "a+b+a+b"
    assert (str(shelf), f"{shelf}") == ("a, b", "a, b")
    wrong: list[Callable[[], Any]] = [
        lambda: shelf + 1,
        lambda: shelf < "x",
        lambda: shelf + threading.Lock(),
    ]
    for use in wrong:
        with pytest.raises(TypeError):
            use()


def test_an_assignment_in_place_leaves_the_proxy(shelf: Any) -> None:
    same = shelf
    shelf += ["c"]
    assert shelf is same
    assert shelf.books == ["a", "b", "c"]


def test_the_hash_is_the_identity_of_the_proxy(shelf: Any) -> None:
    assert {shelf: 1}[shelf] == 1
    assert hash(shelf) == object.__hash__(shelf)


def test_a_special_method_that_changes_something_is_a_call(shelf: Any) -> None:
    asked = shelf.asked
    assert shelf
    assert shelf(1) == "a-b"
    assert shelf.asked == asked + 1


def test_a_block_ends_with_its_exception(shelf: Any) -> None:
    with shelf as entered:
        assert entered is shelf
    assert shelf.closed_by is None
    with shelf:
        raise KeyError("k")
    assert shelf.closed_by == ("KeyError", "'k'", None)
    with pytest.raises(ValueError, match="v"), shelf:
        raise ValueError("v")


def test_attributes_and_properties_are_read(shelf: Any) -> None:
    assert (shelf.books, shelf.room, shelf.first, shelf.Kind.OPEN) == (["a", "b"], 10, "a", Shelf.Kind.OPEN)
    asked = shelf.asked
    assert shelf.next_asked == asked + 1, "a property that may change something is a call"
    assert (shelf.cached, shelf.cached) == (2, 2)
    assert quorate.weak(shelf).room == 10
    with pytest.raises(quorate.NotReadOnly):
        _ = quorate.weak(shelf).next_asked
    with pytest.raises(AttributeError, match="on purpose"):
        _ = shelf.broken
    with pytest.raises(quorate.NoSuchMethod, match="has no public method or attribute `absent`"):
        _ = shelf.absent
    assert not hasattr(shelf, "absent")


def test_a_read_of_an_attribute_orders_nothing(shelf: Any) -> None:
    _ = shelf.books
    assert quorate.freshness(shelf).slot > 0
    before = quorate.freshness(shelf).slot
    for _ in range(5):
        _ = (shelf.books, shelf.first, len(shelf))
    assert quorate.freshness(shelf).slot == before


def test_assigning_says_why_not_and_what_instead(shelf: Any) -> None:
    with pytest.raises(AttributeError, match=r"same order: call a method .* such as `set_room`"):
        shelf.room = 3
    with pytest.raises(AttributeError, match=r"such as `def set_first\(self, first\)`"):
        shelf.first = "x"
    with pytest.raises(AttributeError, match="call a method"):
        del shelf.books


def test_help_is_that_of_the_class(shelf: Any) -> None:
    assert {"put", "first", "books", "asked", "room", "notes", "__len__"} <= set(dir(shelf))
    assert "_secret" not in dir(shelf)
    assert str(inspect.signature(shelf.put)) == "(book: 'str', *, front: 'bool' = False) -> 'int'"
    assert (shelf.put.__doc__, shelf.put.__name__, inspect.getdoc(shelf)) == (
        "Adds a book.",
        "put",
        "Books in order.",
    )
    assert repr(shelf) == "<replicated Shelf>"


def test_copies_are_proxies_of_the_same_object(shelf: Any) -> None:
    for again in (copy.copy(shelf), copy.deepcopy([shelf])[0], pickle.loads(pickle.dumps(shelf))):
        assert again is not shelf
        again.put("c")
        assert again.books == shelf.books
    other = pickle.loads(pickle.dumps(quorate.weak(shelf)))
    assert flow_of(other).options.level == "any"
    assert flow_of(other).client is not flow_of(shelf).client


@pytest.mark.parametrize(
    "name",
    [
        *(
            "__class__",
            "__dict__",
            "__init__",
            "__reduce__",
            "__reduce_ex__",
            "__getattribute__",
            "__setattr__",
        ),
        *("__delattr__", "__new__", "__del__", "__getstate__", "__setstate__", "__dir__", "__subclasshook__"),
        *("__init_subclass__", "__sizeof__", "__hash__", "__repr__", "__module__", "__doc__", "__weakref__"),
        *("._secret", ".__class__", ".__dict__", ".books.append", ".put", ".Kind", ".", "._", ".mro", "mro"),
        *(
            "_secret",
            "Kind",
            "__le__",
            "__call_",
            "__matmul__",
            "__await__",
            "__class_getitem__",
            "books",
            "",
        ),
    ],
)
def test_what_leads_to_the_class_or_the_interpreter_is_never_called(shelf: Any, name: str) -> None:
    books = shelf.books
    for level in (None, "confirmed"):
        with pytest.raises((quorate.NoSuchMethod, quorate.Refused)):
            raw(shelf, name, level)()
    assert shelf.books == books


def raw(proxy: Any, name: str, level: str | None) -> _native.Method:
    """A method by name and level, whatever the proxy says."""
    route = _native.Route(flow_of(proxy).client, None, True, None, set())
    return _native.Method(route, name, level)


def test_special_methods_are_reads_only_when_they_are_declared(shelf: Any) -> None:
    assert raw(shelf, "__len__", "confirmed")() == 2
    with pytest.raises(quorate.NotReadOnly):
        raw(shelf, "__getitem__", "confirmed")(0)


def test_a_proxy_without_a_class_calls_special_methods_by_name(shelf: Any) -> None:
    with quorate.connect(endpoint_of(shelf)) as untyped:
        assert untyped.__len__() == 2
        with pytest.raises(quorate.NoSuchMethod):
            untyped.__class_getitem__  # noqa: B018
    words = [program(), "call", "Shelf", "--endpoint", endpoint_of(shelf)]
    for more, said in (
        (["__len__"], "2"),
        ([".room", "--read", "confirmed"], "10"),
        (["__iter__"], '["a","b"]'),
    ):
        run = subprocess.run([*words, *more], capture_output=True, text=True, check=True)
        assert run.stdout.strip() == said


def test_asyncio_awaits_what_can_be_awaited_and_names_the_way_for_the_rest(shelf: Any) -> None:
    async def use() -> None:
        async with quorate.aconnect(endpoint_of(shelf), Shelf) as proxy:
            assert (await proxy.__len__(), await proxy[0], await proxy.first) == (2, "a", "a")
            more = ["c"]
            assert await (proxy + more) == ["a", "b", "c"]
            assert await (proxy < 3) is True
            assert [book async for book in proxy] == ["a", "b"]
            async with proxy as entered:
                assert entered is proxy
            await proxy.__setitem__(0, "z")
            assert await proxy(1) == "z-b"
            refusals: dict[str, Callable[[], Any]] = {
                "len()": lambda: len(proxy),
                "`in`": lambda: "a" in proxy,
                "`for`": lambda: list(proxy),
                "a truth value": lambda: bool(proxy),
                "assigning an item": lambda: proxy.__class__.__setitem__(proxy, 0, "x"),
                "`with`": lambda: proxy.__class__.__enter__(proxy),
            }
            for shown, use_it in refusals.items():
                with pytest.raises(TypeError, match=r"cannot be awaited: use `(await|async)") as caught:
                    use_it()
                assert shown in str(caught.value)
            with pytest.raises(TypeError, match="write `await` before it"):
                bool(proxy < 3)
            with pytest.raises(TypeError, match="cannot be pickled"):
                pickle.dumps(proxy)
            assert repr(proxy) == str(proxy) == "<replicated Shelf>"

    asyncio.run(use())


def test_special_methods_may_come_from_a_class_in_c() -> None:
    with quorate.local(Numbers, [3, 1, 2]) as numbers:
        assert (len(numbers), numbers[0], list(numbers), 3 in numbers) == (3, 3, [3, 1, 2], True)
        numbers.append(4)
        assert numbers.total() == 10


def test_what_has_places_is_iterated_where_it_is() -> None:
    with quorate.local(Places) as found:
        places: Any = found
        assert list(places) == [0, 10, 20]
        assert 10 in places


def test_an_object_that_is_its_own_iterator_goes_on_from_call_to_call() -> None:
    with quorate.local(Countdown, 3) as countdown:
        assert next(countdown) == 2
        assert list(countdown) == [1, 0]

        async def ask() -> None:
            async with quorate.aconnect(endpoint_of(countdown), Countdown) as proxy:
                with pytest.raises(StopAsyncIteration):
                    await proxy.__next__()
                with pytest.raises(TypeError, match="its own iterator"):
                    [left async for left in proxy]

        asyncio.run(asyncio.wait_for(ask(), 20))


def test_special_methods_that_are_shown_to_change_nothing_are_reads() -> None:
    with quorate.local(Feed) as feed:
        assert raw(feed, "__len__", "confirmed")() == 3
        assert raw(feed, "__getitem__", "confirmed")(1) == 2
        assert raw(feed, ".first", "confirmed")() == 1
        with pytest.raises(quorate.NotReadOnly):
            raw(feed, ".taken", "confirmed")()
        assert (feed.taken, feed.items) == (3, [1, 2])


def test_a_read_does_not_use_up_an_iterator_of_the_state() -> None:
    with quorate.local(Feed) as feed:
        with pytest.raises(quorate.NotReadOnly, match="drawn from an iterator, which may change the object"):
            raw(feed, "stored", "confirmed")()
        assert feed.left() == [1, 2, 3]


def test_attributes_that_are_computed_are_calls() -> None:
    with quorate.local(Anything) as anything:
        assert (anything.colour, anything.size, anything.asked) == ("colour", "size", 2)


def test_every_special_name_belongs_to_the_data_model() -> None:
    assert (
        not {"__class__", "__dict__", "__init__", "__reduce__", "__getattribute__", "__del__"}
        & _data_model.SPECIAL
    )
    assert all(name.startswith("__") and name.endswith("__") for name in _data_model.SPECIAL)
