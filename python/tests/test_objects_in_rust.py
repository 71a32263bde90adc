"""Locks and queues behave alike, written in Python or in Rust."""

from __future__ import annotations

import json
import os
import queue
import signal
import time
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from patience import PATIENCE_S

import quorate
from quorate import _local, objects


class Clients:
    """Clients of one group, by name; each has a session of its own."""

    def __init__(self, ready: dict[str, Any], name: str) -> None:
        self.endpoint = ready["endpoint"]
        self._admin = ready["nodes"][0]["admin"]
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

    def sessions(self) -> int:
        """How many there are, as a node says."""
        with urllib.request.urlopen(f"http://{self._admin}/status", timeout=PATIENCE_S) as answer:
            return int(json.load(answer)["counts"]["sessions"])

    def leave_all(self) -> None:
        """All sessions end."""
        for name in list(self._stacks):
            self.leave(name)


@pytest.fixture(params=["quorate.objects:{}", "rust:{}"], ids=["python", "rust"])
def serve(
    request: pytest.FixtureRequest, tmp_path: Path, pool: ThreadPoolExecutor
) -> Iterator[Callable[[str], Clients]]:
    """Serves an object by the name of its class; ended before the threads that call are waited for."""
    with ExitStack() as groups:

        def served(name: str) -> Clients:
            path = request.param.format(name.lower() if request.param.startswith("rust") else name)
            options = ["--port", "0", "--persist", "memory", "--dir", str(tmp_path / "data")]
            ready = groups.enter_context(_local.start_group(path, options, tmp_path))
            clients = Clients(ready, name)
            groups.callback(clients.leave_all)
            return clients

        yield served


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    """Threads for calls that wait."""
    with ThreadPoolExecutor(8) as threads:
        yield threads


def is_empty(taker: Any) -> None:
    """The next call of a session is ordered behind those before: they wait then."""
    with pytest.raises(queue.Empty):
        taker.get_nowait()


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
        waiting.append(quorate.submit(clients[name].acquire))
        # The next call of the same session is ordered behind it.
        assert clients[name].acquire(False) == 0
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
        is_empty(clients[name])
    for item in ("one", "two", "three"):
        clients["zoe"].put(item)
    assert [taker.result(PATIENCE_S) for taker in takers] == ["one", "two"]
    assert clients["zoe"].qsize() == 1
    assert clients["zoe"].get_nowait() == "three"


def test_who_leaves_takes_no_item_along(serve: Callable[[str], Clients]) -> None:
    clients = serve("Queue")
    quorate.submit(clients["ann"].get)
    is_empty(clients["ann"])
    is_empty(clients["zoe"])
    clients.leave("ann")
    ends = time.monotonic() + PATIENCE_S
    while clients.sessions() > 1:
        assert time.monotonic() < ends, "her session never ends"
    clients["zoe"].put("one")
    assert clients["zoe"].get_nowait() == "one"


def test_a_lock_in_rust_survives_the_death_of_each_node(tmp_path: Path) -> None:
    options = ["--port", "0", "--persist", "disk", "--dir", str(tmp_path / "data")]
    with _local.start_group("rust:lock", options, tmp_path) as ready:
        clients = Clients(ready, "Lock")
        token = clients["ann"].acquire()
        waiting = quorate.submit(clients["ben"].acquire)
        assert clients["ben"].acquire(False) == 0
        for node in ready["nodes"]:
            os.kill(int(node["pid"]), signal.SIGKILL)
            assert clients["ben"].acquire(False) == 0
            assert clients["ann"].token() == token
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
