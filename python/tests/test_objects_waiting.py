"""Objects that wait, under random calls, ends of sessions and timeouts, beside a model of what is due."""

from __future__ import annotations

import queue
import random
from collections.abc import Callable
from typing import Any

import pytest
from objects_stage import NOTHING, Call, Stage

from quorate import objects

SEEDS = range(12)
STEPS = 600
SESSIONS = range(1, 7)


class Model:
    """First come first served: who holds what, and who waits."""

    def __init__(self, is_free: Callable[[list[Any], Any], bool]) -> None:
        self.is_free = is_free
        self.held: list[tuple[int, Any]] = []
        self.queue: list[Call] = []

    def serve(self) -> None:
        """Give to the first ones that still wait."""
        self.queue = [call for call in self.queue if call not in self.gone]
        while self.queue and self.is_free([want for _, want in self.held], self.queue[0].what):
            call = self.queue.pop(0)
            self.held.append((call.session, call.what))

    gone: tuple[Call, ...] | list[Call] = ()


KINDS: dict[str, tuple[Callable[[], Any], Callable[[list[Any], Any], bool]]] = {
    "lock": (objects.Lock, lambda held, _: not held),
    "condition": (objects.Condition, lambda held, _: not held),
    "semaphore": (lambda: objects.BoundedSemaphore(3), lambda held, _: len(held) < 3),
    "rwlock": (objects.RWLock, lambda held, want: not held or (want == "read" and "write" not in held)),
    "election": (objects.Election, lambda held, _: not held),
}


def acquire(kind: str, want: str, timeout: float | None) -> Callable[[Any], Any]:
    """How one gets it."""
    if kind == "rwlock":
        return lambda it: getattr(it, f"acquire_{want}")(timeout=timeout)
    if kind == "election":
        return lambda it: it.campaign(want, timeout=timeout)
    return lambda it: it.acquire(timeout=timeout)


def release(kind: str, want: str) -> Callable[[Any], Any]:
    """How one gives it back."""
    if kind == "rwlock":
        return lambda it: getattr(it, f"release_{want}")()
    return lambda it: it.resign() if kind == "election" else it.release()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", KINDS)
def test_each_is_served_in_turn_and_once(kind: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    make, is_free = KINDS[kind]
    draw, stage, model = random.Random(seed), Stage(make(), monkeypatch), Model(is_free)
    model.gone = gone = []
    sessions = list(SESSIONS)
    for step in range(STEPS):
        session, want = draw.choice(sessions), draw.choice(["read", "read", "write"])
        move = draw.random()
        if move < 0.45:
            leads = kind == "election" and model.held and model.held[0][0] == session
            timeout = draw.choice([None, None, 0, 1.5])
            call = stage.call(session, acquire(kind, want, timeout), want)
            if not leads:
                model.serve()
                model.queue.append(call)
                model.serve()
                if timeout == 0 and call in model.queue:
                    model.queue.remove(call)
        elif move < 0.8:
            if model.held and draw.random() < 0.7:
                session, want = draw.choice(model.held)
            has = [each for each in model.held if kind != "rwlock" or each[1] == want]
            mine = next((each for each in has if each[0] == session), None)
            call = stage.call(session, release(kind, want))
            if mine is None:
                assert isinstance(call.error, ValueError if kind == "semaphore" else RuntimeError)
            else:
                assert call.error is None
                model.held.remove(mine)
                model.serve()
        elif move < 0.88:
            gone += [call for call in stage.waiting() if call.session == session]
            stage.end(session)
            model.held = [each for each in model.held if each[0] != session]
            model.serve()
            sessions = [max(sessions) + 1 if each == session else each for each in sessions]
        elif move < 0.95:
            timed = [call for call in stage.waiting() if call.timeout is not None]
            if timed:
                stage.expire(draw.choice(timed))
                gone += [call for call in timed if call.is_over and call.answer == 0]
                assert gone[-1].answer == 0
                model.serve()
        else:
            stage.restart()
        assert [id(call) for call in stage.waiting()] == [id(c) for c in model.queue if c not in gone], step
    tokens = [call.answer for call in stage.calls if isinstance(call.answer, int) and call.answer]
    assert len(tokens) > 50
    assert kind == "election" or len(set(tokens)) == len(tokens)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("cls", [objects.Queue, objects.LifoQueue, objects.PriorityQueue])
def test_each_item_is_got_once_and_nobody_waits_in_vain(
    cls: type[Any], seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw, stage = random.Random(seed), Stage(cls(maxsize=3), monkeypatch)
    sessions = list(SESSIONS)
    for step in range(STEPS):
        session, timeout = draw.choice(sessions), draw.choice([None, 2.0])
        move = draw.random()
        if move < 0.4:
            stage.call(session, lambda it: it.put(step, timeout=timeout), ("put", step))  # noqa: B023
        elif move < 0.8:
            stage.call(session, lambda it: it.get(timeout=timeout), ("get",))  # noqa: B023
        elif move < 0.87:
            stage.end(session)
            sessions = [max(sessions) + 1 if each == session else each for each in sessions]
        elif move < 0.95:
            timed = [call for call in stage.waiting() if call.timeout is not None]
            for call in timed[:1]:
                stage.expire(call)
                assert isinstance(call.error, queue.Full if call.what[0] == "put" else queue.Empty)
        else:
            stage.restart()
        kinds = {call.what[0] for call in stage.waiting()}
        assert "get" not in kinds or stage.thing.empty()
        assert "put" not in kinds or stage.thing.full()
        assert stage.thing.qsize() <= 3
    while not stage.thing.empty():
        stage.call(1, lambda it: it.get(block=False), ("get",))
    put = [call.what[1] for call in stage.over() if call.what[0] == "put"]
    got = [call.answer for call in stage.over() if call.what[0] == "get"]
    assert not [call for call in stage.waiting() if call.what[0] == "put"]
    assert len(got) > 50
    assert sorted(got) == sorted(put)
    assert cls is not objects.Queue or got == [item for item in put if item in got]


def test_a_queue_answers_in_the_order_of_coming(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(objects.Queue(maxsize=1), monkeypatch)
    getters = [stage.call(session, lambda it: it.get()) for session in (1, 2, 3, 4)]
    stage.end(2)
    for item in "abc":
        stage.call(9, lambda it: it.put(item))  # noqa: B023
    assert [call.answer for call in getters] == ["a", NOTHING, "b", "c"]
    putters = [stage.call(session, lambda it: it.put(session)) for session in (1, 2, 3, 4)]  # noqa: B023
    assert [call.is_waiting for call in putters] == [False, True, True, True]
    stage.end(3)
    assert [stage.call(9, lambda it: it.get()).answer for _ in range(3)] == [1, 2, 4]
    assert [call.is_over for call in putters] == [True] * 4


def test_a_queue_is_joined_when_all_its_tasks_are_done(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(objects.Queue(), monkeypatch)
    assert stage.call(1, lambda it: it.join()).answer is None
    stage.call(2, lambda it: it.get())
    for _ in range(2):
        stage.call(1, lambda it: it.put("x"))
    joining = stage.call(1, lambda it: it.join())
    stage.call(2, lambda it: it.task_done())
    assert joining.is_waiting
    stage.call(2, lambda it: it.task_done())
    assert joining.answer is None
    assert isinstance(stage.call(2, lambda it: it.task_done()).error, ValueError)


def test_an_item_without_an_order_is_the_fault_of_who_puts_it(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(objects.PriorityQueue(maxsize=2), monkeypatch)
    for item in (1, 2, "three"):
        call = stage.call(1, lambda it: it.put(item))  # noqa: B023
    assert call.is_waiting
    assert stage.call(2, lambda it: it.get()).answer == 1
    assert call.error[0] == "builtins.TypeError"
    assert stage.call(1, lambda it: it.put({})).error is not None
    assert [stage.call(2, lambda it: it.get()).answer, stage.thing.qsize()] == [2, 0]


def test_lines_forget_who_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(objects.Event(), monkeypatch)
    for _ in range(5000):
        stage.expire(stage.call(1, lambda it: it.wait(timeout=1.0)))
    assert len(stage.thing._line._entries) < 200
    stays = stage.call(2, lambda it: it.wait())
    stage.call(3, lambda it: it.set())
    assert stays.answer is True


@pytest.mark.parametrize("seed", SEEDS)
def test_a_condition_loses_no_notification(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    draw, stage = random.Random(seed), Stage(objects.Condition(), monkeypatch)
    sessions = list(SESSIONS)
    holder: int | None = None
    seen: set[int] = set()
    late: set[Call] = set()
    owed = 0

    def in_time() -> int:
        return sum(call.what == "wait" and call not in late for call in stage.waiting())

    for _ in range(STEPS):
        session, move = draw.choice(sessions), draw.random()
        if move < 0.3:
            stage.call(session, lambda it: it.acquire(), "acquire")
        elif move < 0.5 and holder is not None:
            timeout = draw.choice([None, 1.0])
            assert stage.call(holder, lambda it: it.wait(timeout), "wait").is_waiting  # noqa: B023
            holder = None
        elif move < 0.6 and holder is not None:
            owed = min(owed + 1, in_time())
            assert stage.call(holder, lambda it: it.notify()).error is None
        elif move < 0.85 and holder is not None:
            assert stage.call(holder, lambda it: it.release()).error is None
            holder = None
        elif move < 0.9:
            stage.end(session)
            holder = None if holder == session else holder
            sessions = [max(sessions) + 1 if each == session else each for each in sessions]
        elif move < 0.97:
            timed = [call for call in stage.waiting() if set(call.timers) & stage.timers.keys()]
            for call in timed[:1]:
                late.add(call)
                stage.expire(call)
        else:
            stage.restart()
        new = [call for call in stage.over() if id(call) not in seen and call.what]
        seen |= {id(call) for call in new}
        assert len(new) <= 1, "one at a time"
        for call in new:
            assert holder is None or (call.what == "acquire" and call.session == holder)
            assert (call.answer == 0) == (call in late)
            owed -= call.what == "wait" and call not in late
            assert owed >= 0
            holder = call.session
        owed = min(owed, in_time())
        if holder is None:
            assert not owed
            assert not any(call.what == "acquire" or call in late for call in stage.waiting())
    assert len(late) > 1
    assert len(stage.timers) <= sum(call.timeout is not None for call in stage.waiting()) + 64
    tokens = [call.answer for call in stage.over() if call.what and call.answer]
    assert len(set(tokens)) == len(tokens)


def test_a_condition_is_for_who_holds_it(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(objects.Condition(), monkeypatch)
    for name in ("wait", "notify", "notify_all", "release"):
        assert isinstance(stage.call(1, lambda it: getattr(it, name)()).error, RuntimeError)  # noqa: B023
    waits = []
    for session in (1, 2, 3):
        stage.call(session, lambda it: it.acquire())
        waits.append(stage.call(session, lambda it: it.wait()))
    stage.call(4, lambda it: it.acquire())
    assert stage.call(4, lambda it: it.notify_all()).answer == 3
    assert not any(call.is_over for call in waits)
    stage.call(4, lambda it: it.release())
    assert [call.is_over for call in waits] == [True, False, False]
    stage.end(1)
    assert [call.is_over for call in waits] == [True, True, False]
    stage.call(2, lambda it: it.release())
    tokens = [call.answer for call in waits]
    assert tokens == sorted(set(tokens))
