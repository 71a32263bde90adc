"""What clients and objects do to a feed that they should not, and what a watch tells at its bounds."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from attack_classes import Holder
from attack_points import Point
from patience import PATIENCE_S, until
from test_created_attacks import agree, raw, restart_one

import quorate
from quorate import LocalGroup, _calling, _feed, _native, _watch


@pytest.fixture(scope="module")
def nodes() -> Iterator[LocalGroup[Holder]]:
    """Three nodes."""
    with (running := quorate.local(Holder, persist="disk", timeout=PATIENCE_S)):
        yield running


@pytest.fixture(autouse=True)
def agreed(nodes: LocalGroup[Holder]) -> Iterator[None]:
    """The replicas agree after each test, also about what it dropped."""
    yield
    agree(nodes)


class Watcher:
    """A call that waits at a feed, without a group."""

    def __init__(self, session: int = 1) -> None:
        self.session, self.sequence = session, 1
        self.is_waiting = True
        self.told: list[Any] = []

    def wake(self, told: list[Any]) -> None:
        """It is told, and waits no more."""
        assert self.is_waiting
        self.is_waiting = False
        self.told.append(told)

    fail = wake


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> deque[Watcher]:
    """Who calls `Feed.watch` next; all objects are there."""
    waiting: deque[Watcher] = deque()
    monkeypatch.setattr(_native, "object_of", lambda _: object())
    monkeypatch.setattr(_calling, "park", lambda: "parked")
    monkeypatch.setattr(_calling, "caller", waiting.popleft)
    return waiting


def test_calls_that_wait_no_more_are_forgotten(nodes: LocalGroup[Holder], group: quorate.Group) -> None:
    shelf = group.create(Holder, "shelf")

    async def use() -> None:
        async with quorate.agroup(nodes.endpoint) as others:
            watch = await quorate.awatch(await others.get("shelf"), "never")
            for _ in range(5):
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(anext(watch), 0.05)

    for _ in range(2):
        asyncio.run(use())
        until(lambda: group.describe("shelf")["watching"] == 0)
    shelf.publish("a", 1)
    assert next(quorate.watch(shelf, after=0)).value == 1


def test_a_feed_keeps_twice_as_many_calls_as_wait(calls: deque[Watcher]) -> None:
    feed = _feed.Feed()
    lasting = [Watcher() for _ in range(100)]
    for watcher in lasting:
        calls.append(watcher)
        assert feed.watch(7, ["never"], 0) == "parked"
    for _ in range(1000):
        calls.append(Watcher())
        feed.watch(7, ["never"], 0)
        feed._streams[7].watching[-1][0].is_waiting = False  # type: ignore[misc]
        assert len(feed._streams[7].watching) <= 2 * 101
    feed._add(7, "other", b"")
    assert [each[0] for each in feed._streams[7].watching] == lasting
    feed._add(7, "never", b"x")
    assert [watcher.told for watcher in lasting] == [[[2, 0, [[2, "never", b"x"]]]]] * 100
    assert not feed._streams[7].watching


def test_a_call_that_may_not_wait_is_not_kept(calls: deque[Watcher], monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise quorate.Overloaded("10000 calls of this group wait already")

    monkeypatch.setattr(_calling, "park", refuse)
    feed = _feed.Feed()
    calls.append(Watcher())
    with pytest.raises(quorate.Overloaded):
        feed.watch(7, [], 0)
    assert not feed._streams[7].watching


def test_the_end_of_a_session_ends_its_watches_and_no_others(calls: deque[Watcher]) -> None:
    feed = _feed.Feed()
    gone, stays = Watcher(1), Watcher(2)
    for watcher in (gone, stays):
        calls.append(watcher)
        feed.watch(7, [], 0)
    feed.on_session_end(1)
    feed._add(7, "a", b"x")
    assert (gone.told, stays.told) == ([], [[1, 0, [[1, "a", b"x"]]]])


def test_what_is_lost_in_several_answers_is_told_together() -> None:
    watch = _watch.Watch.__new__(_watch.Watch)
    watch._seen, watch._ready, watch._lost = 0, deque(), 0
    watch._take([5, 2, []])
    watch._take([8, 1, [[8, "a", _native.dumps("x")]]])
    assert next(watch) == quorate.Change(8, "a", "x", 3)


def test_what_passes_a_watch_of_other_topics_is_not_lost(group: quorate.Group) -> None:
    shelf = group.create(Holder, "shelf")
    watch = quorate.watch(shelf, "b")
    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(next, watch)
        until(lambda: group.describe("shelf")["watching"] == 1)
        for _ in range(12):
            shelf.publish("a", *range(100))
        shelf.publish("b", "here")
        change = waiting.result(PATIENCE_S)
    assert (change.number, change.value, change.lost) == (1201, "here", 0)


@pytest.mark.parametrize(("over", "lost"), [(-1, 0), (0, 0), (1, 1), (5, 5)])
def test_lost_is_exact_at_the_number_of_changes(over: int, lost: int) -> None:
    feed = _feed.Feed()
    for _ in range(_feed.CHANGES_MAX + over):
        feed._add(7, "a", b"x")
    told = feed._streams[7].told_since(0, [])
    assert told is not None
    last, missed, found = told
    assert (last, missed, found[0][0], found[-1][0]) == (_feed.CHANGES_MAX + over, lost, lost + 1, last)
    assert feed._streams[7].told_since(last, []) is None
    assert feed._streams[7].told_since(last - 1, []) == [last, 0, [[last, "a", b"x"]]]
    assert feed._streams[7].told_since(lost, []) == [last, 0, found]


def test_lost_is_exact_at_the_bytes_of_an_object() -> None:
    feed = _feed.Feed()
    large = bytes((_feed.OBJECT_BYTES_MAX >> 5) - _feed.CHANGE_BYTES - 1)
    for _ in range(32):
        feed._add(7, "a", large)
    assert feed._bytes == feed._streams[7].bytes == _feed.OBJECT_BYTES_MAX
    assert feed._streams[7].told_since(0, [])[1] == 0  # type: ignore[index]
    feed._add(7, "a", b"")
    assert feed._streams[7].told_since(0, [])[1] == 1  # type: ignore[index]


def test_the_bound_of_all_changes_counts_topics_too() -> None:
    feed = _feed.Feed()
    topic = "t" * 255
    for number in range(120):
        for _ in range(_feed.CHANGES_MAX):
            feed._add(number, topic, b"x")
        assert feed._bytes <= _feed.FEED_BYTES_MAX
    streams = feed._streams.values()
    kept = sum(len(each[1]) + len(each[2]) for stream in streams for each in stream.kept)
    assert kept < feed._bytes == sum(stream.bytes for stream in streams)
    for number in range(120):
        feed._drop(number)
    assert (feed._bytes, feed.is_pristine) == (0, True)


def test_who_is_told_more_than_a_step_may_tell_is_told_in_the_next(
    calls: deque[Watcher], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Claim rp-76."""
    sent: list[Any] = []
    monkeypatch.setattr(_feed, "WAKES_BYTES_MAX", 10 * 60_000)
    monkeypatch.setattr(_native, "send_message", lambda _, call: sent.append(_native.loads(call)[:2]))
    feed = _feed.Feed()
    watchers = [Watcher() for _ in range(35)]
    for watcher in watchers:
        calls.append(watcher)
        feed.watch(7, [], 0)
    feed._add(7, "a", bytes(60_000))
    while sent:
        assert sent == [["_tell", [7]]]
        sent.clear()
        feed._tell(7)
    assert [len(watcher.told) for watcher in watchers] == [1] * 35
    assert [len(watcher.told[0][2]) for watcher in watchers] == [1] * 35
    feed._tell(8)


def test_whoever_calls_the_feed_itself_is_refused_what_is_wrong(
    nodes: LocalGroup[Holder], group: quorate.Group
) -> None:
    shelf, feed = group.create(Holder, "shelf"), raw(group, _feed.NUMBER)
    number = group.describe("shelf")["number"]
    wrong: list[tuple[tuple[Any, ...], type[Exception]]] = [
        ((number, [], float("nan")), quorate.Refused),
        ((number, [], -1), quorate.Refused),
        ((number, [], True), quorate.Refused),
        ((number, [], "0"), quorate.Refused),
        ((number, [], 1), quorate.Refused),
        ((number, "a", None), quorate.Refused),
        ((number, {"a": 1}, None), quorate.Refused),
        ((number, [7], None), quorate.Refused),
        ((number, ["a"] * 65, None), quorate.Refused),
        ((str(number), [], None), quorate.NotFound),
        ((-1, [], None), quorate.NotFound),
        ((True, [], None), quorate.NotFound),
        ((1 << 40, [], None), quorate.NotFound),
        ((_feed.NUMBER, [], None), quorate.NotFound),
        ((number + 1, [], None), quorate.NotFound),
    ]
    for args, error in wrong:
        with pytest.raises(error):
            feed.watch(*args)
    with pytest.raises(quorate.NoSuchMethod):
        feed.on_session_end(1)
    assert feed.watch(number, ["a"] * 64, None) == [0, 0, []]
    shelf.publish("a", 1)
    assert next(quorate.watch(shelf, after=0)).value == 1


def test_a_number_of_an_object_that_was_dropped_is_refused_and_hides_no_change(group: quorate.Group) -> None:
    group.create(Holder, "shelf").publish("a", *range(5))
    seen = [next(quorate.watch(group.get("shelf"), after=4))][0].number
    group.drop("shelf")
    anew = group.create(Holder, "shelf")
    with pytest.raises(quorate.Refused, match="published 0 changes"):
        next(quorate.watch(anew, after=seen))
    anew.publish("a", "first")
    assert next(quorate.watch(anew, after=0)).value == "first"


def test_a_value_that_cannot_be_read_here_is_passed_over_once() -> None:
    def told(*values: bytes) -> list[Any]:
        return [len(values), 2, [[at + 1, "a", value] for at, value in enumerate(values)]]

    watch = _watch.Watch.__new__(_watch.Watch)
    watch._seen, watch._ready, watch._lost = 0, deque(), 0
    watch._take(told(_native.dumps(1), b"\xff", _native.dumps(3)))
    assert next(watch) == quorate.Change(1, "a", 1, 2)
    with pytest.raises(quorate.MalformedValue):
        next(watch)
    assert watch.seen == 2
    assert next(watch) == quorate.Change(3, "a", 3)
    assert watch.seen == 3


def test_changes_on_their_way_when_a_snapshot_is_taken_are_not_lost(
    nodes: LocalGroup[Holder], group: quorate.Group
) -> None:
    """Claim rp-74."""
    shelf = group.create(Holder, "shelf")
    watch = quorate.watch(shelf)
    shelf.publish("a", *range(5000))
    restart_one(nodes)
    agree(nodes)
    shelf.publish("a", "last")
    found: list[quorate.Change] = []
    while not found or found[-1].value != "last":
        found.append(next(watch))
    assert found[-1].number == 5001 == len(found) + sum(change.lost for change in found)
    assert [change.value for change in found[:-1]] == [change.number - 1 for change in found[:-1]]


def test_more_changes_than_may_be_on_their_way_are_refused_and_those_before_are_told(
    group: quorate.Group,
) -> None:
    shelf = group.create(Holder, "shelf")
    with pytest.raises(quorate.Overloaded, match="send fewer in one call"):
        shelf.publish("a", *range(10_001))
    until(lambda: group.describe("shelf") is not None)
    shelf.publish("b", "after")
    last = next(quorate.watch(shelf, "b", after=0))
    assert last.number == 10_001


def test_points_travel_in_changes(group: quorate.Group) -> None:
    quorate.register(Point)
    group.create("attack_points:Plane", "plane")  # type: ignore[arg-type]
    shelf = group.create(Holder, "shelf")
    shelf.publish("Grüße/A", Point(3))
    change = next(quorate.watch(shelf, after=0))
    assert (change.topic, change.value) == ("Grüße/A", Point(3))
