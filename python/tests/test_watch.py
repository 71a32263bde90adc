"""What objects publish comes to those who watch: in order, once, and what is lost is told."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from patience import PATIENCE_S, until
from shelf_classes import Shelf

import quorate
from quorate import LocalGroup, _feed


@pytest.fixture(scope="module")
def nodes() -> Iterator[LocalGroup[Shelf]]:
    """Three nodes."""
    with (running := quorate.local(Shelf, persist="disk", timeout=PATIENCE_S)):
        yield running


def take(watch: quorate.Watch, count: int) -> list[quorate.Change]:
    """The next changes."""
    return [next(watch) for _ in range(count)]


def _next_changes(watch: quorate.Watch, count: int) -> list[quorate.Change]:
    """The next `count` that it tells."""
    return [next(watch) for _ in range(count)]


def numbers(changes: list[quorate.Change]) -> list[int]:
    """Their values."""
    assert not any(change.lost for change in changes)
    return [change.value for change in changes]


def test_changes_come_once_in_their_order_to_all_while_leaders_are_killed(
    nodes: LocalGroup[Shelf], group: quorate.Group
) -> None:
    """Claim rp-72."""
    shelf = group.create(Shelf, "shelf")
    count, kills = 400, 3
    with ThreadPoolExecutor(6) as threads, quorate.group(nodes.endpoint, timeout=PATIENCE_S) as others:
        all_of_it = [quorate.watch(shelf), quorate.watch(others.get("shelf"))]
        odd = quorate.watch(shelf, "odd")
        told = [threads.submit(_next_changes, watch, count) for watch in all_of_it]
        half = threads.submit(_next_changes, odd, count // 2)

        def publish() -> None:
            for number in range(count):
                shelf.publish("odd" if number % 2 else "even", number)

        publishing = threads.submit(publish)
        for _ in range(kills):
            killed = nodes.leader
            nodes.kill(killed)
            nodes.restart(killed)
        publishing.result(PATIENCE_S)
        for each in told:
            assert numbers(each.result(PATIENCE_S)) == list(range(count))
        assert numbers(half.result(PATIENCE_S)) == list(range(1, count, 2))
    assert nodes.compare().is_equal


def test_who_comes_back_goes_on_and_is_told_what_is_lost(
    nodes: LocalGroup[Shelf], group: quorate.Group
) -> None:
    shelf = group.create(Shelf, "shelf")
    watch = quorate.watch(shelf)
    shelf.publish("a", 0, 1, 2)
    assert numbers([next(watch)]) == [0]
    assert watch.seen == 1
    with quorate.group(nodes.endpoint) as later:
        again = quorate.watch(later.get("shelf"), after=watch.seen)
        assert numbers([next(again), next(again)]) == [1, 2]
    over = _feed.CHANGES_MAX + 10
    for first in range(3, 3 + over, 100):
        shelf.publish("a", *range(first, min(first + 100, 3 + over)))
    shelf.publish("b", "last")
    until(lambda: next(quorate.watch(shelf, "b", after=0)).value == "last")
    behind = quorate.watch(shelf, after=3)
    oldest = next(behind)
    assert (oldest.lost, oldest.value) == (11, 3 + 11)
    assert next(behind).lost == 0
    of_another = next(quorate.watch(shelf, "b", after=3))
    assert (of_another.lost, of_another.value) == (11, "last")


WATCHER = """
import sys
import quorate
with quorate.connect(sys.argv[1], session_timeout=1) as shelf:
    watch = quorate.watch(shelf)
    print("watches", flush=True)
    for change in watch:
        print(change.value, change.lost, flush=True)
"""


def test_a_session_that_ended_loses_nothing_of_a_watch(
    nodes: LocalGroup[Shelf], group: quorate.Group
) -> None:
    shelf = group.create(Shelf, "shelf")
    command = [sys.executable, "-c", WATCHER, f"{nodes.endpoint.rpartition('/')[0]}/shelf"]
    watcher = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert watcher.stdout is not None
    try:
        assert watcher.stdout.readline() == "watches\n"
        shelf.publish("a", "before")
        assert watcher.stdout.readline() == "before 0\n"
        until(lambda: group.describe("shelf")["watching"] == 1)
        watcher.send_signal(signal.SIGSTOP)
        until(lambda: group.describe("shelf")["watching"] == 0)
        shelf.publish("a", "meanwhile")
        watcher.send_signal(signal.SIGCONT)
        assert watcher.stdout.readline() == "meanwhile 0\n"
    finally:
        watcher.kill()
        watcher.wait()


def test_the_asyncio_twin_may_be_cancelled_and_loses_nothing(
    nodes: LocalGroup[Shelf], group: quorate.Group
) -> None:
    shelf = group.create(Shelf, "shelf")

    async def use() -> None:
        async with quorate.agroup(nodes.endpoint) as others:
            watch = await quorate.awatch(await others.get("shelf"), "a")
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(anext(watch), 0.1)
            await asyncio.to_thread(shelf.publish, "b", 0)
            await asyncio.to_thread(shelf.publish, "a", 1, 2)
            found = []
            async for change in watch:
                found.append(change)
                if len(found) == 2:
                    break
            assert numbers(found) == [1, 2]

    asyncio.run(use())


def test_a_call_that_leaves_no_trace_publishes_nothing(group: quorate.Group) -> None:
    shelf = group.create(Shelf, "shelf")
    group.create(Shelf, "other")
    watch = quorate.watch(shelf)
    waiting = quorate.submit(shelf.hand_on_next, "other")
    until(lambda: group.describe("shelf")["waiting"])
    shelf.publish("a", 1)
    shelf.put("hat")
    assert waiting.result(PATIENCE_S) == "hat"
    shelf.publish("a", 2)
    assert numbers([next(watch) for _ in range(3)]) == [1, "other", 2]


def test_who_watches_what_is_dropped_is_told(group: quorate.Group) -> None:
    shelf = group.create(Shelf, "shelf")
    watch = quorate.watch(shelf)
    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(next, watch)
        until(waiting.running)
        group.drop("shelf")
        with pytest.raises((quorate.ObjectDropped, quorate.NotFound)):
            waiting.result(PATIENCE_S)
    with pytest.raises(quorate.NotFound):
        next(watch)


def test_what_cannot_be_watched_or_published_is_refused(
    nodes: LocalGroup[Shelf], group: quorate.Group
) -> None:
    shelf = group.create(Shelf, "shelf")
    for topics in [("",), (7,), ("x" * 256,), tuple(map(str, range(65)))]:
        with pytest.raises(ValueError, match="64 topics"):
            quorate.watch(shelf, *topics)  # type: ignore[arg-type]
    for after in (-1, True, "3"):
        with pytest.raises(ValueError, match="no number of a change"):
            quorate.watch(shelf, after=after)  # type: ignore[arg-type]
    for topic in ("", "x" * 256):
        with pytest.raises(quorate.UnsupportedValue, match="1 to 255 bytes"):
            shelf.publish(topic, 1)
    with pytest.raises(quorate.UnsupportedValue, match="may take 65536"):
        shelf.publish("a", "x" * 66_000)
    with pytest.raises(quorate.NotInCall):
        shelf.publish_in_a_read()
    assert nodes.compare().is_equal


def test_a_feed_keeps_a_bounded_amount() -> None:
    feed = _feed.Feed()
    large = bytes(60_000)
    for number in range(40):
        for _ in range(20):
            feed._add(number, "a", large)
    streams = feed._streams.values()
    assert max(stream.bytes for stream in streams) <= _feed.OBJECT_BYTES_MAX
    assert sum(stream.bytes for stream in streams) <= _feed.FEED_BYTES_MAX
    assert sum(stream.bytes for stream in streams) == feed._bytes
    assert all(stream.last == 20 and stream.kept[-1][0] == 20 for stream in streams)
