"""What callers do together: barriers, events, owners, jobs and resources, scene by scene."""

from __future__ import annotations

import queue
import random
import threading
from collections.abc import Callable
from typing import Any

import pytest
from objects_stage import NOTHING, Stage
from objects_twins import SEEDS, outcome

import quorate
from quorate import objects


def test_a_barrier_opens_when_all_live_parties_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(objects.Barrier(3), monkeypatch)
    first = [stage.call(session, lambda it: it.wait(timeout=5.0)) for session in (1, 2)]
    stage.end(1)
    assert stage.thing.n_waiting == 1
    stage.end(2)
    assert stage.thing.n_waiting == 0
    for call in first:
        stage.expire(call)
    assert not stage.thing.broken
    for _ in range(2):
        calls = [stage.call(session, lambda it: it.wait()) for session in (3, 4, 5)]
        assert [call.answer for call in calls] == [0, 1, 2]
        assert not stage.timers
        stage.restart()


def test_a_barrier_that_is_reset_or_broken_tells_those_that_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(objects.Barrier(2), monkeypatch)
    for act in (lambda it: it.reset(), lambda it: it.abort()):
        waiting = stage.call(1, lambda it: it.wait())
        stage.call(2, act)
        assert waiting.error[0] == "quorate.objects._barrier.BrokenBarrierError"
    assert isinstance(stage.call(1, lambda it: it.wait()).error, threading.BrokenBarrierError)
    stage.call(1, lambda it: it.reset())
    assert stage.call(1, lambda it: it.wait()).is_waiting


def test_an_event_and_a_latch_let_all_go_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    opening: list[tuple[Any, Callable[[Any], Any]]] = [
        (objects.Event(), lambda it: it.set()),
        (objects.Latch(1), lambda it: it.count_down()),
    ]
    for thing, opens in opening:
        stage = Stage(thing, monkeypatch)
        waiting = [stage.call(session, lambda it: it.wait(timeout=5.0)) for session in (1, 2, 3)]
        assert stage.call(1, lambda it: it.wait(timeout=0)).answer is False
        stage.end(2)
        stage.expire(waiting[2])
        stage.call(4, opens)
        assert [call.answer for call in waiting] == [True, NOTHING, False]
        assert stage.call(4, lambda it: it.wait()).answer is True


def test_an_owner_of_an_rlock_is_a_session_with_a_label(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(objects.RLock(), monkeypatch)

    def acquire(session: int, owner: Any = None) -> Any:
        return stage.call(session, lambda it: it.acquire(owner=owner))

    def release(session: int, owner: Any = None) -> Any:
        return stage.call(session, lambda it: it.release(owner=owner)).error

    token = acquire(1, "a").answer
    assert acquire(1, "a").answer == token
    others = [acquire(1, "b"), acquire(2, "a"), acquire(3)]
    assert all(call.is_waiting for call in others)
    assert all(isinstance(release(*who), RuntimeError) for who in ((1, "b"), (2, "a"), (1,)))
    assert release(1, "a") is None
    assert others[0].is_waiting
    assert release(1, "a") is None
    assert others[0].answer > token
    stage.restart()
    stage.end(2)
    stage.end(1)
    assert others[2].answer > others[0].answer
    assert release(3) is None
    assert isinstance(release(3), RuntimeError)


def test_readers_behind_a_writer_that_is_gone_are_served_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(objects.RWLock(), monkeypatch)
    stage.call(1, lambda it: it.acquire_read())
    writer = stage.call(2, lambda it: it.acquire_write())
    readers = [stage.call(session, lambda it: it.acquire_read()) for session in (3, 4)]
    assert all(call.is_waiting for call in (writer, *readers))
    stage.end(2)
    assert all(call.is_over for call in readers)
    assert stage.thing.readers() == 3


def test_a_leader_that_is_gone_is_followed_by_the_next_candidate(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(objects.Election(), monkeypatch)
    first = stage.call(1, lambda it: it.campaign("one")).answer
    assert stage.call(1, lambda it: it.campaign("one")).answer == first
    second, third = (stage.call(session, lambda it: it.campaign(f"{session}")) for session in (2, 3))  # noqa: B023
    watching = stage.call(4, lambda it: it.watch(first))
    assert isinstance(stage.call(4, lambda it: it.resign()).error, RuntimeError)
    stage.end(9)
    assert watching.is_waiting, "the end of another session is no news"
    stage.end(1)
    assert (second.answer > first, third.is_waiting, stage.thing.leader()) == (True, True, "2")
    assert watching.answer == stage.thing.term() == second.answer
    stage.call(2, lambda it: it.resign())
    watching = stage.call(4, lambda it: it.watch(third.answer))
    stage.end(3)
    assert (watching.answer, stage.thing.leader(), stage.thing.term()) == (0, None, 0)


def test_members_go_with_their_session(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(objects.Membership(), monkeypatch)
    for name in "ab":
        stage.call(1, lambda it: it.join(name, name.upper()))  # noqa: B023
    version = stage.call(2, lambda it: it.join("c", "C")).answer
    assert isinstance(stage.call(2, lambda it: it.join("a", "x")).error, ValueError)
    assert stage.thing.members() == {"a": "A", "b": "B", "c": "C"}
    watching = stage.call(3, lambda it: it.wait_for_change(version))
    stage.end(4)
    assert watching.is_waiting
    stage.end(1)
    assert watching.answer == version + 1, "one change, though two are gone"
    assert stage.thing.members() == {"c": "C"}
    assert stage.call(3, lambda it: it.wait_for_change(version)).answer == version + 1
    assert stage.call(3, lambda it: it.leave("c")).answer == version + 2
    assert isinstance(stage.call(3, lambda it: it.leave("c")).error, KeyError)


@pytest.mark.parametrize("seed", SEEDS)
def test_each_job_gets_one_result_though_workers_go(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    draw, stage = random.Random(seed), Stage(objects.JobManager(), monkeypatch)
    workers = [1, 2, 3]
    finished: dict[int, int] = {}
    wanted = {}
    for step in range(800):
        worker, move = draw.choice(workers), draw.random()
        if move < 0.3:
            number = stage.call(9, lambda it: it.submit(step)).answer  # noqa: B023
            wanted[number] = stage.call(9, lambda it: it.result(number))  # noqa: B023
        elif move < 0.6:
            stage.call(worker, lambda it: it.take(), "take")
        elif move < 0.9:
            mine = [each for each, held in stage.thing._held.items() if held.session == worker]
            for number in mine[:1]:
                assert stage.call(worker, lambda it: it.finish(number, step)).error is None  # noqa: B023
                assert number not in finished
                finished[number] = step
            for number in mine[1:2]:
                assert stage.call(worker, lambda it: it.give_back(number)).error is None  # noqa: B023
        elif move < 0.97:
            stage.end(worker)
            workers = [max(workers) + 10 if each == worker else each for each in workers]
        else:
            stage.restart()
        counts = stage.thing.counts()
        assert sum(counts.values()) == len(wanted)
        assert not counts["ready"] or not any(call.what == "take" for call in stage.waiting())
    assert len(finished) > 20
    assert {number: call.answer for number, call in wanted.items() if call.is_over} == finished
    assert isinstance(stage.call(1, lambda it: it.finish(1, "again")).error, RuntimeError)
    number = min(finished)
    assert stage.call(9, lambda it: it.result(number)).answer == finished[number]
    stage.call(9, lambda it: it.forget(number))
    assert isinstance(stage.call(9, lambda it: it.result(number)).error, KeyError)


@pytest.mark.parametrize("seed", SEEDS)
def test_resources_are_given_once_and_in_turn(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    draw, total = random.Random(seed), {"a": 4, "b": 3, "c": 1}
    stage = Stage(objects.ResourceBroker(total), monkeypatch)
    sessions = [1, 2, 3, 4]
    for _ in range(800):
        session, move = draw.choice(sessions), draw.random()
        if move < 0.45:
            names = draw.sample("abc", draw.randrange(1, 4))
            want = {name: draw.randrange(1, total[name] + 1) for name in names}
            stage.call(session, lambda it: it.acquire(want), want)  # noqa: B023
        elif move < 0.9:
            for lease, (owner, _) in list(stage.thing._leases.items())[:1]:
                assert stage.call(owner, lambda it: it.release(lease)).error is None  # noqa: B023
        elif move < 0.96:
            stage.end(session)
            sessions = [max(sessions) + 1 if each == session else each for each in sessions]
        else:
            stage.restart()
        held = [amounts for _, amounts in stage.thing._leases.values()]
        free = {name: total[name] - sum(each.get(name, 0) for each in held) for name in total}
        assert free == stage.thing.available()
        assert min(free.values()) >= 0
        claimed: set[str] = set()
        for call in stage.waiting():
            fits = all(free[name] >= amount for name, amount in call.what.items())
            assert not (fits and claimed.isdisjoint(call.what)), "it could have it, and is first"
            claimed.update(call.what)
    assert len(list(stage.over())) > 100
    for want in ({"a": 5}, {"a": 0}, {"z": 1}):
        error = stage.call(1, lambda it: it.acquire(want)).error  # noqa: B023
        assert isinstance(error, KeyError if "z" in want else ValueError)


TWINS: list[tuple[Callable[[], Any], Callable[[], Any]]] = [
    (objects.Lock, threading.Lock),
    (objects.RLock, threading.RLock),
    (lambda: objects.Semaphore(2), lambda: threading.Semaphore(2)),
    (lambda: objects.BoundedSemaphore(2), lambda: threading.BoundedSemaphore(2)),
    (objects.Event, threading.Event),
    (lambda: objects.Queue(3), lambda: queue.Queue(3)),
    (lambda: objects.LifoQueue(3), lambda: queue.LifoQueue(3)),
    (lambda: objects.PriorityQueue(3), lambda: queue.PriorityQueue(3)),
]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("pair", TWINS)
def test_without_a_group_they_do_what_their_twins_do(pair: Any, seed: int) -> None:
    draw, thing, twin = random.Random(seed), pair[0](), pair[1]()
    moves: dict[str, list[Callable[[Any], Any]]] = {
        "acquire": [lambda it: bool(it.acquire(blocking=False)), lambda it: bool(it.acquire(False))],
        "release": [lambda it: it.release()],
        "locked": [lambda it: it.locked()],
        "set": [lambda it: it.set(), lambda it: it.clear(), lambda it: it.is_set(), lambda it: it.wait(0)],
        "put": [lambda it: it.put(draw_now, block=False), lambda it: it.put_nowait(draw_now)],
        "get": [lambda it: it.get(block=False), lambda it: it.get_nowait(), lambda it: it.task_done()],
        "qsize": [lambda it: (it.qsize(), it.empty(), it.full())],
    }
    usable = [move for name, group in moves.items() if hasattr(twin, name) for move in group]
    for _ in range(500):
        move, draw_now = draw.choice(usable), draw.randrange(100)
        mine, theirs = outcome(lambda: move(thing)), outcome(lambda: move(twin))  # noqa: B023
        if isinstance(theirs, type):
            assert issubclass(mine, theirs)
        else:
            assert mine == theirs


def test_without_a_group_nobody_waits() -> None:
    lock, letters = objects.Lock(), objects.Queue[str]()
    with lock:
        assert lock.locked()
        with pytest.raises(quorate.NotInCall):
            lock.acquire()
        for wrong in ((False, 1.0), (True, -2.0)):
            with pytest.raises(ValueError, match="timeout"):
                lock.acquire(*wrong)
    with pytest.raises(quorate.NotInCall):
        letters.get()
    letters.put("a")
    assert letters.get() == "a", "a wait that failed leaves nobody in the line"
