"""Timeouts of objects that wait: what the caller is told, and what becomes of those behind it."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from objects_stage import NOTHING, Stage
from objects_subjects import Cabin
from patience import PATIENCE_S

import quorate
from quorate import objects


def is_broken(call: Any) -> bool:
    """Whether a call was told that its barrier is broken, by the host or by the method."""
    if isinstance(call.error, threading.BrokenBarrierError):
        return True
    return call.error is not None and call.error[0] == "quorate.objects._barrier.BrokenBarrierError"


def test_a_timeout_at_a_barrier_breaks_it_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(objects.Barrier(4, timeout=9.0), monkeypatch)
    calls = [stage.call(session, lambda it: it.wait(2.0)) for session in (1, 2)]
    calls.append(stage.call(3, lambda it: it.wait()))
    assert [call.timeout for call in calls] == [2.0, 2.0, 9.0]
    stage.restart()
    stage.expire(calls[1])
    assert all(is_broken(call) for call in calls)
    assert stage.thing.broken
    assert is_broken(stage.call(4, lambda it: it.wait()))
    assert not stage.timers
    stage.call(1, lambda it: it.reset())
    calls = [stage.call(session, lambda it: it.wait()) for session in (1, 2, 3)]
    calls.append(stage.call(4, lambda it: it.wait(0)))
    assert [call.answer for call in calls] == [0, 1, 2, 3]
    waiting = stage.call(1, lambda it: it.wait())
    assert is_broken(stage.call(2, lambda it: it.wait(0)))
    assert is_broken(waiting)


def test_a_barrier_without_timeouts_is_not_broken_by_an_earlier_one(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(objects.Barrier(2), monkeypatch)
    gone = stage.call(1, lambda it: it.wait(5.0))
    stage.end(1)
    waiting = stage.call(2, lambda it: it.wait())
    stage.expire(gone)
    assert waiting.is_waiting
    assert stage.call(3, lambda it: it.wait()).answer == 1


def test_a_wait_at_a_condition_ends_with_the_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(objects.Condition(), monkeypatch)
    waits = []
    for session in (1, 2, 3):
        stage.call(session, lambda it: it.acquire())
        waits.append(stage.call(session, lambda it: it.wait(1.0 if session > 1 else None)))  # noqa: B023
    stage.call(4, lambda it: it.acquire())
    next_one = stage.call(5, lambda it: it.acquire())
    for call in (waits[2], waits[1]):
        stage.expire(call)
        assert call.is_waiting, "another one holds the lock"
    stage.restart()
    assert stage.call(4, lambda it: it.notify_all()).answer == 1, "the others wait no more"
    stage.call(4, lambda it: it.release())
    assert [call.answer for call in waits] == [NOTHING, NOTHING, 0]
    token = stage.thing.token()
    assert token
    stage.end(2)
    stage.call(3, lambda it: it.release())
    assert waits[0].answer == stage.thing.token() > token
    stage.call(1, lambda it: it.release())
    assert next_one.answer > waits[0].answer


def test_a_notified_wait_does_not_time_out(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(objects.Condition(), monkeypatch)
    stage.call(1, lambda it: it.acquire())
    waiting = stage.call(1, lambda it: it.wait(1.0))
    stage.call(2, lambda it: it.acquire())
    stage.call(2, lambda it: it.notify())
    stage.expire(waiting)
    assert waiting.is_waiting
    stage.call(2, lambda it: it.release())
    assert waiting.answer == stage.thing.token() > 0


def test_those_behind_a_caller_whose_time_is_over_are_served_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(objects.RWLock(), monkeypatch)
    stage.call(1, lambda it: it.acquire_read())
    writer = stage.call(2, lambda it: it.acquire_write(timeout=1.0))
    readers = [stage.call(session, lambda it: it.acquire_read(timeout=5.0)) for session in (3, 4)]
    stage.expire(writer)
    assert writer.answer == 0
    assert all(reader.answer for reader in readers)
    assert not stage.timers
    stage = Stage(objects.ResourceBroker({"gpu": 2, "port": 1}), monkeypatch)
    stage.call(1, lambda it: it.acquire({"gpu": 1}))
    greedy = stage.call(2, lambda it: it.acquire({"gpu": 2, "port": 1}, timeout=1.0))
    modest = stage.call(3, lambda it: it.acquire({"port": 1}))
    assert modest.is_waiting
    stage.expire(greedy)
    assert (greedy.answer, modest.is_over) == (0, True)


def test_timers_of_callers_that_were_served_are_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(objects.RWLock(), monkeypatch)
    for _ in range(500):
        stage.call(1, lambda it: it.acquire_read())
        writer = stage.call(2, lambda it: it.acquire_write(timeout=3600.0))
        stage.call(1, lambda it: it.release_read())
        assert writer.answer
        stage.call(2, lambda it: it.release_write())
        assert not stage.timers


def test_parts_of_other_objects_have_no_timers(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(Cabin(), monkeypatch)
    assert stage.call(1, lambda it: it.sit_down(None)).is_waiting
    assert isinstance(stage.call(2, lambda it: it.sit_down(1.0)).error, TypeError)
    assert stage.thing.seats.n_waiting == 1
    stage.call(1, lambda it: it.take_door(None))
    assert isinstance(stage.call(1, lambda it: it.leave_door(1.0)).error, TypeError)
    assert stage.thing.door.locked(), "what was refused changed nothing"
    stage.call(1, lambda it: it.read(None))
    writer = stage.call(2, lambda it: it.write(1.0))
    reader = stage.call(3, lambda it: it.read(None))
    stage.expire(writer)
    assert (writer.answer, reader.is_waiting) == (0, True)
    stage.call(4, lambda it: it.read(None))
    assert reader.is_over, "it is served with the next call"


@pytest.mark.parametrize(
    "act",
    [
        lambda timeout: objects.Lock().acquire(timeout=timeout),
        lambda timeout: objects.RLock().acquire(timeout=timeout),
        lambda timeout: objects.Semaphore().acquire(timeout=timeout),
        lambda timeout: objects.Event().wait(timeout),
        lambda timeout: objects.Queue[int]().put(1, timeout=timeout),
    ],
)
def test_timeouts_that_cannot_be_are_refused(act: Callable[[float], Any]) -> None:
    for timeout, error in ((-100, ValueError), (threading.TIMEOUT_MAX + 1, OverflowError)):
        with pytest.raises(error):
            act(timeout)


def test_a_timeout_of_a_century_is_as_long_as_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(objects.Lock(), monkeypatch)
    assert stage.call(1, lambda it: it.acquire(timeout=threading.TIMEOUT_MAX)).answer
    assert stage.call(2, lambda it: it.acquire(timeout=threading.TIMEOUT_MAX)).timeout is None


def test_readers_of_a_group_are_served_when_the_time_of_a_writer_is_over() -> None:
    group = quorate.local(objects.RWLock, persist="disk", timeout=PATIENCE_S)
    with group as lock, ThreadPoolExecutor() as pool:
        lock.acquire_read()
        writer = pool.submit(lock.acquire_write, timeout=2.0)
        while lock.acquire_read(blocking=False):
            lock.release_read()
        reader = pool.submit(lock.acquire_read)
        victim = group.leader
        group.kill(victim)
        assert writer.result(PATIENCE_S) == 0
        assert reader.result(PATIENCE_S) > 0
        group.restart(victim)
        assert group.compare().is_equal


def test_a_condition_and_a_queue_of_a_group_tell_what_threading_does() -> None:
    with quorate.local(objects.Condition, nodes=1, timeout=PATIENCE_S) as condition:
        first = condition.acquire()
        assert condition.wait(0.05) == 0
        assert condition.token() > first
        assert condition.locked()
        condition.release()
    letters: Any
    with quorate.local(objects.Queue, 1, nodes=1, timeout=PATIENCE_S) as letters:
        with pytest.raises(queue.Empty):
            letters.get(timeout=0.05)
        letters.put("a")
        with pytest.raises(objects.Full):
            letters.put("b", timeout=0.05)
        assert [letters.get(timeout=1.0), letters.qsize()] == ["a", 0]


def test_a_barrier_of_a_group_breaks_for_all() -> None:
    with (
        quorate.local(objects.Barrier, args=[3], timeout=PATIENCE_S, nodes=1) as barrier,
        ThreadPoolExecutor() as pool,
    ):
        waits = [pool.submit(barrier.wait, timeout) for timeout in (0.3, None)]
        for each in waits:
            with pytest.raises(threading.BrokenBarrierError):
                each.result(PATIENCE_S)
        assert barrier.broken
