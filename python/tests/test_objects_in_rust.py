"""Locks and queues behave alike, written in Python or in Rust."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import quorate
from quorate import _local, objects

PATIENCE_S = 30.0


class Clients:
    """Clients of one group, by name; each has a session of its own."""

    def __init__(self, endpoint: str, name: str) -> None:
        self.endpoint = endpoint
        self._cls = getattr(objects, name)
        self._stacks: dict[str, ExitStack] = {}
        self._proxies: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._stacks:
            self._stacks[name] = ExitStack()
            connection = quorate.connect(self.endpoint, self._cls, timeout=PATIENCE_S)
            self._proxies[name] = self._stacks[name].enter_context(connection)
        return self._proxies[name]

    def leave(self, name: str) -> None:
        """Its session ends at once."""
        self._stacks.pop(name).close()

    def leave_all(self) -> None:
        """All sessions end."""
        for name in list(self._stacks):
            self.leave(name)


@pytest.fixture(params=["quorate.objects:{}", "rust:{}"], ids=["python", "rust"])
def serve(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[str], Clients]]:
    """Serves an object by the name of its class."""
    with ExitStack() as groups:

        def served(name: str) -> Clients:
            path = request.param.format(name.lower() if request.param.startswith("rust") else name)
            options = ["--port", "0", "--persist", "memory", "--dir", str(tmp_path / "data")]
            ready = groups.enter_context(_local.start_group(path, options, tmp_path))
            clients = Clients(ready["endpoint"], name)
            groups.callback(clients.leave_all)
            return clients

        yield served


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    """Threads for calls that wait."""
    with ThreadPoolExecutor(8) as threads:
        yield threads


def test_a_lock_goes_on_in_order_and_belongs_to_a_session(
    serve: Callable[[str], Clients], pool: ThreadPoolExecutor
) -> None:
    clients = serve("Lock")
    first = clients["ann"].acquire()
    assert first > 0
    assert clients["ben"].acquire(False) == 0
    assert clients["ben"].acquire(True, 0) == 0
    assert clients["ben"].acquire(True, 0.05) == 0
    assert (clients["ben"].locked(), clients["ben"].token()) == (True, first)
    waiting: list[Future[Any]] = []
    for name in ("ben", "zoe"):
        began = quorate.submit(clients[name].acquire)
        # The next call of the same client is answered after that one waits.
        assert clients[name].locked()
        waiting.append(began)
    with pytest.raises(RuntimeError, match="this session does not hold the lock"):
        clients["ben"].release()
    clients["ann"].release()
    second = waiting[0].result(PATIENCE_S)
    assert second > first
    assert not waiting[1].done()
    clients.leave("ben")
    assert waiting[1].result(PATIENCE_S) > second
    clients["zoe"].release()
    assert not clients["zoe"].locked()
    assert clients["zoe"].token() == 0
    with pytest.raises(RuntimeError, match="this session does not hold the lock"):
        clients["zoe"].release()


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ((False, 1), ValueError, "can't specify a timeout for a non-blocking call"),
        ((True, -2), ValueError, "timeout value must be a non-negative number"),
        ((True, 1e10), OverflowError, "timeout value is too large"),
    ],
)
def test_a_lock_refuses_times_as_threading_does(
    serve: Callable[[str], Clients], arguments: tuple[Any, ...], error: type[Exception], text: str
) -> None:
    lock = serve("Lock")["ann"]
    with pytest.raises(error, match=text):
        lock.acquire(*arguments)
    assert not lock.locked()


def test_a_queue_gives_items_to_those_who_wait_in_order(serve: Callable[[str], Clients]) -> None:
    clients = serve("Queue")
    takers = []
    for name in ("ann", "ben"):
        takers.append(quorate.submit(clients[name].get))
        assert clients[name].qsize() == 0
    for item in ("one", "two", "three"):
        clients["zoe"].put(item)
    assert [taker.result(PATIENCE_S) for taker in takers] == ["one", "two"]
    assert clients["zoe"].qsize() == 1
    assert clients["zoe"].get() == "three"


def test_who_leaves_takes_no_item_along(serve: Callable[[str], Clients]) -> None:
    clients = serve("Queue")
    quorate.submit(clients["ann"].get)
    assert clients["ann"].qsize() == 0
    clients.leave("ann")
    clients["zoe"].put("one")
    assert clients["zoe"].get() == "one"


def test_the_lock_of_a_killed_leader_goes_on(tmp_path: Path) -> None:
    """The object's state is in Rust: it moves to late replicas as any other's does."""
    options = ["--port", "0", "--persist", "disk", "--dir", str(tmp_path / "data")]
    with _local.start_group("rust:lock", options, tmp_path) as ready:
        clients = Clients(ready["endpoint"], "Lock")
        token = clients["ann"].acquire()
        waiting = quorate.submit(clients["ben"].acquire)
        assert clients["ben"].locked()
        for node in ready["nodes"]:
            with quorate.connect(ready["endpoint"], timeout=PATIENCE_S) as other:
                assert other.token() == token, node
        clients["ann"].release()
        assert waiting.result(PATIENCE_S) > token
        clients.leave_all()


def test_who_waits_for_no_item_or_not_for_long_finds_the_queue_empty(serve: Callable[[str], Clients]) -> None:
    clients = serve("Queue")
    with pytest.raises(queue.Empty):
        clients["ann"].get(True, 0.05)
    with pytest.raises(queue.Empty):
        clients["ann"].get(False)
    with pytest.raises(queue.Empty):
        clients["ann"].get_nowait()
    with pytest.raises(ValueError, match="non-negative"):
        clients["ann"].get(True, -2)
    clients["ann"].put("one", True, 1.5)
    clients["ann"].put_nowait("two")
    assert (clients["ann"].empty(), clients["ann"].full()) == (False, False)
    assert [clients["ben"].get(False), clients["ben"].get_nowait()] == ["one", "two"]
