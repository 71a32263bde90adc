"""Calls that wait until something holds: they leave no trace, and run again from their start."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from patience import PATIENCE_S
from store_class import Store

import quorate
from quorate import LocalGroup, _local


@pytest.fixture
def group() -> Iterator[LocalGroup[Store]]:
    """Three nodes with logs on disk."""
    group = quorate.local(Store, persist="disk", timeout=PATIENCE_S)
    with group:
        yield group


@pytest.fixture
def others(group: LocalGroup[Store], pool: ThreadPoolExecutor) -> Iterator[Store]:
    """Whose calls wait; closed before the threads that call are waited for."""
    with quorate.connect(group.endpoint, Store, timeout=PATIENCE_S) as store:
        yield store


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    """Threads that wait."""
    with ThreadPoolExecutor(16) as pool:
        yield pool


def begin(pool: ThreadPoolExecutor, call: Callable[..., Any], *args: Any) -> Future[Any]:
    """Let a call wait; it has arrived when this returns."""
    waiting = pool.submit(call, *args)
    time.sleep(0.1)
    assert not waiting.done()
    return waiting


def results(waiting: list[Future[Any]]) -> list[Any]:
    """What the calls returned."""
    return [each.result(PATIENCE_S) for each in waiting]


def test_calls_go_on_in_the_order_in_which_they_came(
    group: LocalGroup[Store], others: Store, pool: ThreadPoolExecutor
) -> None:
    waiting = [begin(pool, others.take) for _ in range(4)]
    group.proxy.put("a")
    assert waiting[0].result(PATIENCE_S) == "a"
    group.proxy.put("b", "c", "d", "e")
    assert results(waiting[1:]) == ["b", "c", "d"]
    assert others.take() == "e", "what holds at once lets nobody wait"
    assert group.compare().is_equal


def test_calls_are_tried_again_only_when_something_has_changed(
    group: LocalGroup[Store], others: Store, pool: ThreadPoolExecutor
) -> None:
    """A call that begins to wait has changed nothing that others wait for."""
    waiting = [begin(pool, others.take_aloud, f"call-{number}") for number in range(4)]
    for item in range(4):
        group.proxy.put(item)
    assert results(waiting) == [0, 1, 2, 3]
    assert group.compare().is_equal
    log = (Path(group._running()["dir"]) / f"node-{group.leader}.log").read_text()
    # When it comes, and once for each item up to its own.
    assert [log.count(f"tried call-{number}") for number in range(4)] == [2, 3, 4, 5]


def test_who_lets_others_go_on_may_be_parked_then(
    group: LocalGroup[Store], others: Store, pool: ThreadPoolExecutor
) -> None:
    first = begin(pool, others.take_many, 2)
    parked = begin(pool, others.take_then_park)
    group.proxy.put("a")
    assert first.result(PATIENCE_S) == ["b", "c"]
    group.proxy.put("d")
    group.proxy.wake("at last")
    assert parked.result(PATIENCE_S) == "at last"
    assert group.compare().is_equal


def test_a_call_that_waits_leaves_no_trace_until_it_goes_on(
    group: LocalGroup[Store], others: Store, pool: ThreadPoolExecutor
) -> None:
    waiting = begin(pool, others.take_many, 2)
    assert group.proxy.state() == (0, 0, 0)
    group.proxy.put(1)
    assert group.proxy.state() == (1, 0, 0), "what it took is back"
    group.proxy.put(2)
    assert waiting.result(PATIENCE_S) == [1, 2]
    assert group.proxy.state() == (0, 1, 1)
    assert group.compare().is_equal


def test_an_answer_before_the_wait_is_taken_back(
    group: LocalGroup[Store], others: Store, pool: ThreadPoolExecutor
) -> None:
    parked = begin(pool, others.park)
    waiting = begin(pool, others.wake_then_wait)
    assert not parked.done()
    group.proxy.put(7)
    assert results([parked, waiting]) == ["too early", 7]


def test_who_lets_others_go_on_may_have_waited_behind_them(
    group: LocalGroup[Store], others: Store, pool: ThreadPoolExecutor
) -> None:
    waiting = [begin(pool, others.wait_for, number) for number in (3, 2, 1)]
    group.proxy.put(1)
    assert results(waiting) == [3, 2, 1]


def test_who_goes_on_late_lets_those_behind_it_go_on(
    group: LocalGroup[Store], others: Store, pool: ThreadPoolExecutor
) -> None:
    """The first one goes on after the last one was tried in vain, and brings what that one waits for."""
    waiting = [begin(pool, others.wait_for, number) for number in (2, 1, 3)]
    group.proxy.put(1)
    assert results(waiting) == [2, 1, 3]
    assert group.compare().is_equal


def test_what_holds_them_up_may_end_and_they_go_on_elsewhere(
    group: LocalGroup[Store], others: Store, pool: ThreadPoolExecutor
) -> None:
    waiting = [begin(pool, others.take) for _ in range(2)]
    group.snapshot()
    killed = group.leader
    group.kill(killed)
    group.proxy.put("a")
    group.restart(killed)
    group.kill(group.leader)
    group.proxy.put("b")
    group.restart(group.stopped[0])
    assert results(waiting) == ["a", "b"]
    assert group.compare().is_equal


def test_a_wait_ends_in_time_and_with_its_client(group: LocalGroup[Store], others: Store) -> None:
    assert others.take_within(0.2, "nothing") == "nothing"
    with pytest.raises(quorate.ParkTimeout, match=r"within 0\.1 s"):
        others.take_or_raise(0.1)
    with ThreadPoolExecutor(1) as pool:
        with quorate.connect(group.endpoint, Store, timeout=PATIENCE_S) as gone:
            gone.state()
            left = begin(pool, gone.take)
        with pytest.raises(quorate.QuorateError):
            left.result(PATIENCE_S)
    group.proxy.put("a")
    assert others.take() == "a", "nobody who is gone took it"


def test_what_a_predicate_does_wrong_is_told_and_undone(group: LocalGroup[Store], others: Store) -> None:
    with pytest.raises(quorate.NotReadOnly, match="changes the object"):
        others.hurt()
    with pytest.raises(ZeroDivisionError):
        others.fail()
    with pytest.raises(quorate.NotInCall, match="does not show it"):
        others.hide()
    assert others.state() == (0, 0, 0)


def test_who_swallows_what_ends_a_call_waits_all_the_same(
    group: LocalGroup[Store], others: Store, pool: ThreadPoolExecutor
) -> None:
    waiting = begin(pool, others.swallow)
    assert group.proxy.state() == (0, 0, 0)
    group.proxy.put(1)
    assert waiting.result(PATIENCE_S) == "went on"
    assert group.proxy.state() == (1, 1, 0)


def test_what_a_call_raises_after_its_wait_is_told_and_its_changes_stay(
    group: LocalGroup[Store], others: Store, pool: ThreadPoolExecutor
) -> None:
    waiting = begin(pool, others.fail_later)
    group.proxy.put(1)
    with pytest.raises(LookupError, match="awaited"):
        waiting.result(PATIENCE_S)
    assert group.proxy.state() == (1, 1, 0)


def test_agreed_time_is_that_of_the_step_that_lets_a_call_go_on(
    group: LocalGroup[Store], others: Store, pool: ThreadPoolExecutor
) -> None:
    waiting = begin(pool, others.wait_for_time, group.proxy.now() + 0.3)
    while not waiting.done():
        last = group.proxy.now()
    assert waiting.result(PATIENCE_S) <= last


def test_one_that_takes_too_many_steps_when_it_goes_on_is_ended_without_a_trace() -> None:
    here = Path(__file__).parent
    started = _local.start_group("store_class:Store", ["--port", "0", "--budget", "20000"], here)
    with (
        started as ready,
        quorate.connect(ready["endpoint"], Store, timeout=PATIENCE_S) as store,
        quorate.connect(ready["endpoint"], Store, timeout=PATIENCE_S) as others,
        ThreadPoolExecutor(1) as pool,
    ):
        waiting = begin(pool, others.spin)
        store.put(1)
        with pytest.raises(quorate.BudgetExceeded):
            waiting.result(PATIENCE_S)
        assert store.state() == (1, 0, 0)


def test_one_that_ends_every_host_when_it_goes_on_is_ended_with_those_who_wait(
    group: LocalGroup[Store], others: Store, pool: ThreadPoolExecutor
) -> None:
    waiting = [begin(pool, others.die), begin(pool, others.wait_for, 5)]
    with pytest.raises(quorate.MethodSkipped):
        group.proxy.put(1)
    for each in waiting:
        with pytest.raises(quorate.MethodSkipped):
            each.result(PATIENCE_S)
    group.proxy.put(2)
    assert others.take() == 2
