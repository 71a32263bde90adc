"""The worker's threads: whatever becomes of one task, the others are done, and once."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from patience import PATIENCE_S, until

from quorate import Overloaded, Refused, StorageFull, Unavailable, _native, _worker
from quorate._worker import Worker

PATH = "reach_classes:waits_for"


class FakeOutbox:
    """Gives tasks to the threads of a worker, and keeps what they say."""

    def __init__(self) -> None:
        self.tasks: list[list[Any]] = []
        self.errors: list[Exception] = []
        self.finished: list[list[Any]] = []
        self.settled: list[list[Any]] = []
        self._changed = threading.Condition()

    def put(self, id: int, deal: int, args: list[Any], path: str = PATH) -> None:
        with self._changed:
            self.tasks.append([id, path, _native.dumps(args), None, deal])
            self._changed.notify_all()

    def next(self, finished: list[Any] | None, is_first: bool = False) -> Any:
        with self._changed:
            if self.errors and (finished is not None or is_first):
                raise self.errors.pop()
            if finished is not None:
                self.finished.append(finished)
            if not self._changed.wait_for(lambda: self.tasks, PATIENCE_S):
                raise Refused("the test is over")
            return self.tasks.pop(0)

    def settle(self, finished: list[Any]) -> None:
        self.settled.append(finished)


@pytest.fixture
def outbox(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeOutbox]:
    """Where the worker of a test asks."""
    monkeypatch.setattr(_worker, "LOOKS_SECONDS", 0.01)
    monkeypatch.setattr(_worker, "THREADS", 2)
    fake = FakeOutbox()
    yield fake
    fake.errors.clear()


def begun(outbox: FakeOutbox) -> Worker:
    worker = Worker(outbox)
    threading.Thread(target=worker.run, daemon=True).start()
    return worker


def has(told: list[list[Any]], count: int) -> bool:
    return len(told) == count


def answers(finished: list[list[Any]]) -> list[tuple[int, bool, int]]:
    return [(id, is_error, deal) for id, is_error, _, deal in finished]


@pytest.mark.parametrize("error", [Unavailable, Overloaded, StorageFull])
def test_a_group_that_takes_no_calls_for_a_while_is_asked_again(
    outbox: FakeOutbox, tmp_path: Path, error: type[Exception]
) -> None:
    """Another worker would do again what the other threads are doing."""
    there = tmp_path / "there"
    there.touch()
    outbox.errors = [error("not now"), error("not now")]
    worker = begun(outbox)
    until(lambda: not outbox.errors)
    outbox.errors = [error("not now"), error("not now")]
    outbox.put(1, 1, [str(there)])
    until(lambda: outbox.finished)
    assert answers(outbox.finished) == [(1, False, 1)]
    assert not worker._over.is_set()


def test_a_task_that_is_given_again_is_not_taken_for_the_one_that_was_given_up(
    outbox: FakeOutbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each thread that comes back says what came of its own deal."""
    monkeypatch.setattr(_worker, "TASK_SECONDS", 0.05)
    first, second = tmp_path / "first", tmp_path / "second"
    outbox.put(1, 1, [str(first)])
    worker = begun(outbox)
    until(lambda: outbox.finished)
    assert answers(outbox.finished) == [(1, True, 1)]
    monkeypatch.setattr(_worker, "TASK_SECONDS", 60.0)
    outbox.put(1, 2, [str(second)])
    until(lambda: 2 in worker._since)
    first.touch()
    until(lambda: outbox.settled)
    assert answers(outbox.settled) == [(1, False, 1)]
    second.touch()
    until(lambda: len(outbox.finished) == 2)
    assert answers(outbox.finished) == [(1, True, 1), (1, False, 2)]


def test_threads_that_come_back_are_not_stuck(
    outbox: FakeOutbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that lives for months may have had many."""
    monkeypatch.setattr(_worker, "TASK_SECONDS", 0.05)
    monkeypatch.setattr(_worker, "STUCK_MAX", 1)
    begun_worker = None
    for at in range(3):
        file = tmp_path / str(at)
        outbox.put(at, at + 1, [str(file)])
        begun_worker = begun_worker or begun(outbox)
        until(functools.partial(has, outbox.finished, at + 1))
        file.touch()
        until(functools.partial(has, outbox.settled, at + 1))
    assert begun_worker is not None
    assert not begun_worker._over.is_set()


def test_a_worker_with_too_many_stuck_threads_ends(
    outbox: FakeOutbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_worker, "TASK_SECONDS", 0.05)
    monkeypatch.setattr(_worker, "STUCK_MAX", 1)
    for at in range(2):
        outbox.put(at, at + 1, [str(tmp_path / str(at))])
    worker = begun(outbox)
    assert worker._over.wait(PATIENCE_S)
    assert "2 tasks take longer" in worker._why
    for at in range(2):
        (tmp_path / str(at)).touch()
