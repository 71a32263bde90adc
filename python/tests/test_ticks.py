"""What outlives a tick in which every host died, and is left out: what others were promised does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from host_frames import Frames

from quorate import _feed, _native, _outbox

AT_ONCE = 1_024
"""Timers of one object that run in one tick."""


@pytest.fixture
def host() -> Iterator[Frames]:
    """A host with an object that notes what has run."""
    running = Frames("ticked_class:Ticked")
    yield running
    running.end()


def told(host: Frames) -> list[Any]:
    """What those are told who watch from the beginning."""
    found = host.call("watch", 1, [], 0, number=_feed.NUMBER)
    return [_native.loads(value) for _, _, value in found[2]] if found else []


def results(host: Frames, count: int) -> list[str]:
    """Effects that are done, and whose results are on their way."""
    keys = [host.call("act", value) for value in range(count)]
    host.tick()
    task = host.call("next", None, True, number=_outbox.NUMBER)
    for value in range(count):
        assert task[1] == "ticked_class:same"
        task = host.call("next", [task[0], False, _native.dumps(value), task[4]], number=_outbox.NUMBER)
    return keys


def test_what_is_put_off_runs_apart_from_timers_that_end_hosts(host: Frames) -> None:
    """Claim rp-72: beside one that repeats, it would be left out with each tick."""
    host.call("begin")
    for at in range(3):
        host.call("publish", at, 1)
        host.leave_out_tick()
        host.restart()
        host.tick()
        assert told(host) == list(range(at + 1))
        assert host.call("look") == []
    host.tick()
    assert host.call("look") == ["bad"], "the tick after runs the others"


def test_many_changes_that_are_put_off_keep_their_order(host: Frames) -> None:
    """Claim rp-72: those beyond what a tick runs are not told before them, nor what is published later."""
    count = AT_ONCE + 300
    host.call("publish", 0, count)
    host.leave_out_tick()
    host.call("publish", count, 1)
    for _ in range(3):
        host.tick()
    assert told(host) == list(range(count + 1))[-_feed.CHANGES_MAX :]


def test_what_ends_hosts_also_when_it_runs_apart_is_dropped(host: Frames) -> None:
    host.call("publish", 0, 1)
    host.leave_out_tick()
    host.leave_out_tick()
    host.tick()
    assert told(host) == []
    host.call("publish", 1, 1)
    host.tick()
    assert told(host) == [1]


def test_the_result_of_an_effect_outlives_a_tick_that_is_left_out(host: Frames) -> None:
    """Claim rp-78."""
    results(host, 2)
    host.call("begin")
    host.leave_out_tick()
    host.restart()
    host.tick()
    host.tick()
    assert host.call("look") == [0, 1]
    host.tick()
    host.tick()
    assert host.call("look") == [0, 1, "bad", "bad"], "each once"


def test_a_result_that_ends_hosts_is_dropped_alone(host: Frames) -> None:
    results(host, 3)
    host.leave_out_tick()
    host.leave_out_tick()
    host.tick()
    host.tick()
    host.tick()
    assert host.call("look") == [1, 2]


def test_who_follows_is_told_later_where_the_message_that_tells_is_lost(host: Frames) -> None:
    """Claim rp-84."""
    place = host.call("follow", 1, None, number=_feed.NUMBER)
    assert host.call("follow", 1, place, number=_feed.NUMBER) is None, "it waits"
    host.call("act", 7)
    host.leave_out_tick()
    host.leave_out_tick()
    assert host.tick() == []
    host.tick(_feed.SWEEP_SECONDS)
    host.restart()
    ((calls,),) = host.tick()
    assert _native.loads(calls[2])[:2] == ["act", [7]]


def test_calls_are_kept_for_a_while_after_somebody_has_asked(host: Frames) -> None:
    place = host.call("follow", 1, None, number=_feed.NUMBER)
    host.tick(_feed.SWEEP_SECONDS)
    host.tick(_feed.FOLLOW_SECONDS - 1)
    host.call("act", 7)
    ((_, _, call),) = host.call("follow", 1, place, number=_feed.NUMBER)
    assert _native.loads(call)[0] == "act"
    host.tick(_feed.SWEEP_SECONDS)
    host.tick(_feed.FOLLOW_SECONDS + 1)
    with pytest.raises(AssertionError, match="CallsLost"):
        host.call("follow", 1, place, number=_feed.NUMBER)
