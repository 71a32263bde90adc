"""Who follows an object is told its calls: all that left a trace, in their order, once, and without a gap."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest
from patience import PATIENCE_S, until
from reach_classes import Reacher
from shelf_classes import Shelf

import quorate
from quorate import LocalGroup, _call_stream, _feed
from quorate._options import Options
from quorate._proxy import Flow, Proxy, flow_of
from quorate.objects import Lock


@pytest.fixture(scope="module")
def nodes() -> Iterator[LocalGroup[Shelf]]:
    """Three nodes."""
    with (running := quorate.local(Shelf, persist="disk", timeout=PATIENCE_S)):
        yield running


def take(stream: quorate.Follow, count: int) -> list[tuple[Any, ...]]:
    """The next calls."""
    return [(call.method, *call.args) for call in (next(stream) for _ in range(count))]


def test_calls_come_in_the_order_in_which_they_took_effect(group: quorate.Group) -> None:
    shelf = group.create(Shelf, "shelf")
    stream = quorate.follow(shelf)
    with ThreadPoolExecutor(1) as threads:
        taking = threads.submit(shelf.take)
        until(lambda: group.describe("shelf")["waiting"])
        shelf.put("a")
        assert taking.result(PATIENCE_S) == "a"
    with pytest.raises(TypeError):
        shelf.put()  # type: ignore[call-arg]
    shelf.put(thing="b")
    first, second, third, fourth = (next(stream) for _ in range(4))
    # The call that waited left no trace before there was something to take.
    assert [first.method, second.method, third.method, fourth.method] == ["put", "take", "put", "put"]
    assert first.slot == second.slot
    assert (first.index, second.index) == (0, 1)
    assert (first.args, fourth.kwargs) == (("a",), {"thing": "b"})
    assert first.time <= fourth.time
    assert stream.slot == fourth.slot


def test_a_tick_that_is_left_out_takes_nothing_from_those_who_follow_and_watch(
    nodes: LocalGroup[Shelf], group: quorate.Group
) -> None:
    """A timer that ends every host is due in the tick in which they would be told."""
    group.create(Reacher, "reacher")
    # With the session of their own those who are told nothing end too.
    with ThreadPoolExecutor(2) as threads, quorate.group(nodes.endpoint, timeout=PATIENCE_S) as own:
        reacher = own.get("reacher", Reacher)
        stream, changes = quorate.follow(reacher), quorate.watch(reacher, "said")
        following, watching = threads.submit(next, stream), threads.submit(next, changes)
        until(lambda: feed_of(reacher).follows_waiting(flow_of(reacher).client.number))
        until(lambda: feed_of(reacher).watching(flow_of(reacher).client.number))
        reacher.publish_and_end_hosts("hello")
        told = following.result(PATIENCE_S)
        assert (told.method, told.args) == ("publish_and_end_hosts", ("hello",))
        assert watching.result(PATIENCE_S).value == "hello"
        reacher.put("later")
        assert next(stream).method == "put"


def test_who_follows_is_told_though_no_message_had_room(
    nodes: LocalGroup[Shelf], group: quorate.Group
) -> None:
    """The call is the last one: no later one would tell."""
    group.create(Reacher, "reacher")
    with ThreadPoolExecutor(1) as threads, quorate.group(nodes.endpoint, timeout=PATIENCE_S) as own:
        reacher = own.get("reacher", Reacher)
        following = threads.submit(next, quorate.follow(reacher))
        until(lambda: feed_of(reacher).follows_waiting(flow_of(reacher).client.number))
        assert reacher.publish_as_much_as_there_is_room_for() > 9_000
        assert following.result(PATIENCE_S).method == "publish_as_much_as_there_is_room_for"


def test_what_finds_no_room_for_a_timer_is_not_followed_by_half(monkeypatch: pytest.MonkeyPatch) -> None:
    """A replica that restarts follows what the state says; the others had not begun."""
    followed: list[set[int]] = []
    native = SimpleNamespace(object_of=lambda _: 1, follow_calls=followed.append)

    def no_room(*_: object) -> None:
        raise quorate.Overloaded("10000 timers of this object are set already")

    monkeypatch.setattr(_feed, "_native", native)
    monkeypatch.setattr(_feed, "every", no_room)
    caller = SimpleNamespace(session=1, sequence=1, token=1 << 16)
    monkeypatch.setattr(_feed, "_calling", SimpleNamespace(caller=lambda: caller))
    feed = _feed.Feed()
    for _ in range(2):
        with pytest.raises(quorate.Overloaded):
            feed.follow(7, None)
    feed._go_on()
    assert followed == [set()]


def test_a_state_of_an_earlier_build_is_looked_after(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has a timer for each object, and knows of no time at which somebody has asked."""
    now_ns, followed, timers = 7, [{7}], []
    native = SimpleNamespace(agreed_time_ns=lambda: now_ns, follow_calls=followed.append)
    monkeypatch.setattr(_feed, "_native", native)

    def begins(*asked: object) -> object:
        timers.append(asked)
        return SimpleNamespace(cancel=timers.clear)

    monkeypatch.setattr(_feed, "every", begins)
    feed = _feed.Feed()
    feed._calls[7] = stream = _call_stream.CallStream(1 << 16)
    stream.is_asked = False
    assert not {"asked_ns", "_sweeper", "_late"} & (vars(stream).keys() | vars(feed).keys())
    for _ in range(2):
        feed._rest(7)
    assert timers == [(_feed.SWEEP_SECONDS, "_sweep")]
    feed._sweep()
    assert 7 in feed._calls
    now_ns += int(_feed.FOLLOW_SECONDS * 1e9)
    feed._sweep()
    assert followed[-1] == set()
    assert timers == []


def test_a_mirror_is_what_the_object_is_while_leaders_are_killed(
    nodes: LocalGroup[Shelf], group: quorate.Group
) -> None:
    """Claim rp-84."""
    shelf = group.create(Shelf, "shelf", 10_000)
    calls, callers = 500, 4
    begun = threading.Event()

    def put(caller: int) -> None:
        for number in range(calls):
            shelf.put(f"{caller}-{number}")
            if number == calls // 10:
                begun.set()
            if number % 3 == 2:
                shelf.take()

    def mirror() -> list[str]:
        begun.wait(PATIENCE_S)
        with quorate.group(nodes.endpoint, timeout=PATIENCE_S) as others:
            followed = others.get("shelf", Shelf)
            stream = quorate.follow(followed)
            # A method is called, and no slot is told, until the client has heard that it only reads.
            reading = quorate.reading(followed)
            copy = reading.look()
            slot = quorate.freshness(reading).slot
            for call in stream:
                if call.slot <= slot:
                    continue
                if call.args == ("the end",):
                    return copy
                if call.method == "put":
                    copy.append(call.args[0])
                else:
                    assert copy.pop(0)
        raise AssertionError("a stream has no end")

    with ThreadPoolExecutor(callers + 1) as threads:
        mirroring = threads.submit(mirror)
        putting = [threads.submit(put, caller) for caller in range(callers)]
        assert begun.wait(PATIENCE_S)
        for _ in range(2):
            killed = nodes.leader
            nodes.kill(killed)
            nodes.restart(killed)
        for each in putting:
            each.result(PATIENCE_S)
        things = shelf.look()
        shelf.put("the end")
        assert mirroring.result(PATIENCE_S) == things
    assert nodes.compare().is_equal


def test_a_follower_goes_on_behind_what_it_has_seen(nodes: LocalGroup[Shelf], group: quorate.Group) -> None:
    """Claim rp-84: also after a snapshot and a restart of all nodes, and with another session."""
    shelf = group.create(Shelf, "shelf")
    stream = quorate.follow(shelf)
    for thing in "abc":
        shelf.put(thing)
    seen = next(stream)
    assert stream.slot == seen.slot
    nodes.snapshot()
    for node in (1, 2, 3):
        nodes.kill(node)
        nodes.restart(node)
    shelf.put("d")
    assert take(stream, 3) == [("put", "b"), ("put", "c"), ("put", "d")]
    with quorate.group(nodes.endpoint, timeout=PATIENCE_S) as later:
        again = later.get("shelf")
        assert take(quorate.follow(again, after=seen), 3) == [("put", "b"), ("put", "c"), ("put", "d")]
        assert take(quorate.follow(again, after=seen.slot), 1) == [("put", "b")]
        assert take(quorate.follow(again, after=seen.slot - 1), 1) == [("put", "a")]
    assert nodes.compare().is_equal


def test_messages_timers_and_the_ends_of_sessions_are_calls_too(
    nodes: LocalGroup[Shelf], group: quorate.Group
) -> None:
    shelf, other, lock = (
        group.create(Shelf, "shelf"),
        group.create(Shelf, "other"),
        group.create(Lock, "lock"),
    )
    stream, at_lock = quorate.follow(shelf), quorate.follow(lock)
    other.hand_on("shelf", "a", "b")
    assert take(stream, 2) == [("put", "a"), ("put", "b")]
    with quorate.group(nodes.endpoint, timeout=PATIENCE_S) as holder:
        assert holder.get("lock").acquire()
    found = take(at_lock, 2)
    assert [each[0] for each in found] == ["acquire", "on_session_end"]
    assert isinstance(found[1][1], int)


def test_a_gap_is_never_passed_over(group: quorate.Group) -> None:
    """Claim rp-85."""
    shelf = group.create(Shelf, "shelf", 10**6)
    stream = quorate.follow(shelf)
    first = stream.slot
    pending = [quorate.submit(shelf.put, "x") for _ in range(_call_stream.CALLS_MAX)]
    for each in pending:
        each.result(PATIENCE_S)
    assert take(quorate.follow(shelf, after=first), 1) == [("put", "x")]
    shelf.put("one more")
    with pytest.raises(quorate.CallsLost, match=r"kept from slot \d+ on"):
        next(stream)
    with pytest.raises(quorate.CallsLost):
        quorate.follow(shelf, after=first)
    anew = quorate.follow(shelf)
    shelf.put("a")
    assert take(anew, 1) == [("put", "a")]


def test_calls_that_are_too_large_are_lost_and_harm_nobody(group: quorate.Group) -> None:
    """Claim rp-85."""
    shelf = group.create(Shelf, "shelf")
    stream = quorate.follow(shelf)
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(next, stream)
        until(lambda: feed_of(shelf).follows_waiting(flow_of(shelf).client.number))
        assert shelf.put("x" * _call_stream.CALLS_BYTES_MAX) == 1
        with pytest.raises(quorate.CallsLost):
            waiting.result(PATIENCE_S)
    anew = quorate.follow(shelf)
    shelf.put("a")
    assert take(anew, 1) == [("put", "a")]


def feed_of(proxy: object) -> Any:
    """The group's own object that keeps calls."""
    return Proxy(Flow(flow_of(proxy).client.beside(_feed.NUMBER), _feed.Feed, Options()))


def test_a_dropped_object_ends_the_stream(group: quorate.Group) -> None:
    shelf = group.create(Shelf, "shelf")
    stream = quorate.follow(shelf)
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(next, stream)
        until(lambda: feed_of(shelf).follows_waiting(flow_of(shelf).client.number))
        group.drop("shelf")
        with pytest.raises(quorate.ObjectDropped):
            waiting.result(PATIENCE_S)
    with pytest.raises(quorate.NotFound):
        next(stream)
    # Another object of that name has other calls.
    again = group.create(Shelf, "shelf")
    anew = quorate.follow(again)
    again.put("a")
    assert take(anew, 1) == [("put", "a")]


def test_asyncio_has_its_twin(nodes: LocalGroup[Shelf], group: quorate.Group) -> None:
    group.create(Shelf, "shelf")

    async def follow() -> list[str]:
        async with quorate.agroup(nodes.endpoint, timeout=PATIENCE_S) as others:
            shelf: Any = await others.get("shelf")
            stream = await quorate.afollow(shelf)
            await shelf.put("a")
            await shelf.put("b")
            found = []
            async for call in stream:
                found.append(call.args[0])
                if len(found) == 2:
                    break
            return found

    assert asyncio.run(follow()) == ["a", "b"]
    with pytest.raises(TypeError, match=r"not of asyncio: use quorate\.follow"):
        asyncio.run(quorate.afollow(group.get("shelf")))


def test_bad_input_is_refused(group: quorate.Group) -> None:
    shelf = group.create(Shelf, "shelf")
    for after in (-1, True, "7", 1.5):
        with pytest.raises(ValueError, match="neither a slot nor a DecidedCall"):
            quorate.follow(shelf, after=after)  # type: ignore[arg-type]
    with pytest.raises(quorate.CallsLost, match="nobody followed"):
        quorate.follow(shelf, after=0)
    quorate.follow(shelf)
    with pytest.raises(quorate.Refused, match="is not decided yet"):
        quorate.follow(shelf, after=10**9)
    feed = feed_of(shelf)
    for number in (-1, 2**32 - 1, 2**32 - 2, 2**32 - 3, "1"):
        with pytest.raises(quorate.NotFound):
            feed.follow(number, None)
    for name in ("_record", "_go_on", "_rest"):
        with pytest.raises(quorate.NoSuchMethod):
            getattr(feed, name)
    with pytest.raises(quorate.Refused):
        feed.follow(flow_of(shelf).client.number, -1)


def test_so_many_objects_are_followed_and_no_more(group: quorate.Group) -> None:
    shelves = [group.create(Shelf, f"shelf-{at}") for at in range(_feed.FOLLOWED_MAX + 1)]
    for shelf in shelves[:-1]:
        quorate.follow(shelf)
    with pytest.raises(quorate.Overloaded, match="64 objects of this group are followed already"):
        quorate.follow(shelves[-1])
    group.drop("shelf-0")
    until(lambda: follows(shelves[-1]))


def follows(proxy: object) -> bool:
    """Whether there was room for one more."""
    try:
        return bool(quorate.follow(proxy))
    except quorate.Overloaded:
        return False
