"""Objects that wait, served by groups: clients come, wait and go, and nodes are lost."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any, Literal

import pytest
from objects_subjects import (
    WatchedBarrier,
    WatchedCondition,
    WatchedElection,
    WatchedJobs,
    WatchedLock,
    WatchedMembership,
    WatchedQueue,
    WatchedSemaphore,
)
from patience import PATIENCE_S

import quorate
from quorate import LocalGroup, objects


class Hall:
    """A group, and clients of it that can leave."""

    def __init__(self, cls: type[Any], group: LocalGroup[Any], pool: ThreadPoolExecutor) -> None:
        self.group, self.proxy = group, group.proxy
        self._cls, self._pool = cls, pool
        self._clients: dict[str, ExitStack] = {}
        self._proxies: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        """The client of that name, with a session of its own."""
        if name not in self._clients:
            self._clients[name] = ExitStack()
            connection = quorate.connect(self.group.endpoint, self._cls, timeout=PATIENCE_S)
            self._proxies[name] = self._clients[name].enter_context(connection)
        return self._proxies[name]

    def leave(self, *names: str) -> None:
        """Clients close their connections, and their sessions end at once."""
        for name in names or list(self._clients):
            if names:
                self.wait(self._proxies[name].linger)
                # After this answer the client knows that its call waits.
                self._proxies[name].waiting()
            self._clients.pop(name).close()

    def wait(self, act: Callable[..., Any], *args: Any) -> Future[Any]:
        """A call that waits, and that the object has put into a line."""
        before = self.proxy.waiting()
        future = self._pool.submit(act, *args)
        self.until(lambda: self.proxy.waiting() == before + 1)
        return future

    def until(self, is_so: Callable[[], bool]) -> None:
        """Ask until it is so."""
        ends = time.monotonic() + PATIENCE_S
        while not is_so():
            assert time.monotonic() < ends, "it never is"


@contextlib.contextmanager
def hall(
    cls: type[Any], *args: Any, nodes: int = 1, persist: Literal["memory", "disk"] = "memory"
) -> Iterator[Hall]:
    """A group of a class, and threads that wait."""
    with ThreadPoolExecutor(16) as pool:
        group: LocalGroup[Any] = quorate.local(
            cls, nodes=nodes, persist=persist, timeout=PATIENCE_S, args=list(args)
        )
        with group:
            served = Hall(cls, group, pool)
            try:
                yield served
            finally:
                served.leave()


def result(future: Future[Any]) -> Any:
    """What a call returned that waited."""
    return future.result(PATIENCE_S)


def test_a_lock_goes_from_one_to_the_next_and_on_when_they_leave() -> None:
    with hall(WatchedLock) as lock:
        first = lock["a"].acquire()
        waiting = {name: lock.wait(lock[name].acquire) for name in "bcd"}
        assert lock["e"].acquire(blocking=False) == 0
        with pytest.raises(RuntimeError, match="does not hold"):
            lock["b"].release()
        lock["a"].release()
        with pytest.raises(RuntimeError, match="does not hold"):
            lock["a"].release()
        second = result(waiting["b"])
        lock.leave("c")
        assert lock.proxy.locked()
        lock.leave("b")
        third = result(waiting["d"])
        assert first < second < third
        with pytest.raises(quorate.OutcomeUnknown):
            result(waiting["c"])


def test_a_lock_that_waits_is_kept_over_snapshots_kills_and_restarts() -> None:
    with hall(WatchedLock, nodes=3, persist="disk") as lock:
        tokens = [lock["a"].acquire()]
        waiting = [lock.wait(lock[name].acquire) for name in "bcd"]
        lock.group.snapshot()
        for _ in range(2):
            victim = lock.group.leader
            lock.group.kill(victim)
            assert lock.proxy.waiting() == 3
            lock.group.restart(victim)
        for name, each in zip("abc", waiting, strict=True):
            lock[name].release()
            tokens.append(result(each))
        assert tokens == sorted(set(tokens))
        lock["d"].release()
        assert not lock.proxy.locked()
        assert lock.group.compare().is_equal


def test_with_blocks_exclude_each_other() -> None:
    with hall(WatchedLock, nodes=3) as lock:
        seen: list[int] = []
        clients = [lock[name] for name in "abc"]

        def work(client: Any) -> None:
            for _ in range(10):
                with client as token:
                    seen.append(token)
                    time.sleep(0)
                    assert seen[-1] == token, "somebody was in between"

        threads = [threading.Thread(target=work, args=(client,)) for client in clients]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_S)
        assert len(seen) == 30
        assert seen == sorted(set(seen))


def test_permits_of_a_session_that_ends_go_to_those_that_wait() -> None:
    with hall(WatchedSemaphore, 2) as permits:
        assert permits["a"].acquire() < permits["a"].acquire()
        waiting = [permits.wait(permits[name].acquire) for name in "bcd"]
        with pytest.raises(ValueError, match="too many"):
            permits["b"].release()
        permits.leave("a")
        tokens = [result(each) for each in waiting[:2]]
        assert tokens == sorted(tokens)
        assert permits.proxy.waiting() == 1
        permits["b"].release()
        assert result(waiting[2]) > tokens[1]


def test_a_condition_lets_those_go_on_that_were_notified() -> None:
    with hall(WatchedCondition) as condition:
        tokens = []
        waiting = []
        for name in "abc":
            tokens.append(condition[name].acquire())
            waiting.append(condition.wait(condition[name].wait))
        with condition["d"] as token:
            assert condition["d"].notify() == 1
            tokens.append(token)
        tokens.append(result(waiting[0]))
        assert condition["a"].notify_all() == 2
        condition.leave("a")
        tokens.append(result(waiting[1]))
        condition["b"].release()
        tokens.append(result(waiting[2]))
        assert tokens == sorted(set(tokens))


def test_a_queue_gives_each_item_to_one_who_is_there() -> None:
    with hall(WatchedQueue, 1) as letters:
        getting = {name: letters.wait(letters[name].get) for name in "abc"}
        letters.leave("b")
        letters.proxy.put(1)
        letters.proxy.put(2)
        assert [result(getting[name]) for name in "ac"] == [1, 2]
        letters["a"].put(3)
        putting = {name: letters.wait(letters[name].put, name) for name in "acd"}
        with pytest.raises(objects.Full):
            letters["e"].put_nowait("e")
        letters.leave("c")
        assert [letters["e"].get() for _ in range(3)] == [3, "a", "d"]
        assert [result(putting[name]) for name in "ad"] == [None, None]
        with pytest.raises(objects.Empty):
            letters["e"].get(block=False)


def test_a_barrier_frees_the_seat_of_one_who_leaves() -> None:
    with hall(WatchedBarrier, 3) as barrier:
        gone = barrier.wait(barrier["a"].wait)
        stays = barrier.wait(barrier["b"].wait)
        barrier.leave("a")
        barrier.until(lambda: barrier.proxy.waiting() == 1)
        assert barrier.proxy.n_waiting == 1
        third = barrier.wait(barrier["c"].wait)
        assert barrier["d"].wait() == 2
        assert [result(stays), result(third)] == [0, 1]
        with pytest.raises(quorate.OutcomeUnknown):
            result(gone)
        waits = barrier.wait(barrier["b"].wait)
        barrier["c"].abort()
        with pytest.raises(objects.BrokenBarrierError, match="broken"):
            result(waits)


def test_the_next_candidate_leads_when_the_leader_leaves() -> None:
    with hall(WatchedElection, nodes=3) as election:
        term = election["a"].campaign("host-a")
        next_one = election.wait(election["b"].campaign, "host-b")
        watching = election.wait(election["c"].watch, term)
        election.leave("a")
        assert result(next_one) == result(watching) > term
        assert election.proxy.leader() == "host-b"


def test_members_are_gone_with_their_client() -> None:
    with hall(WatchedMembership) as members:
        members["a"].join("host-a", "10.0.0.1")
        version = members["b"].join("host-b", "10.0.0.2")
        members.leave("a")
        assert members["b"].wait_for_change(version) == version + 1
        assert members.proxy.members() == {"host-b": "10.0.0.2"}


def test_jobs_of_a_worker_that_leaves_are_done_by_others() -> None:
    with hall(WatchedJobs, nodes=3, persist="disk") as jobs:
        numbers = [jobs.proxy.submit(work) for work in ("wash", "dry")]
        assert [jobs["a"].take(), jobs["a"].take()] == [(1, "wash"), (2, "dry")]
        taking = jobs.wait(jobs["b"].take)
        jobs.group.snapshot()
        victim = jobs.group.leader
        jobs.group.kill(victim)
        jobs.leave("a")
        assert result(taking) == (1, "wash")
        jobs.group.restart(victim)
        jobs["b"].finish(1, "clean")
        assert [jobs.proxy.result(numbers[0]), jobs["b"].take()] == ["clean", (2, "dry")]
        assert jobs.group.compare().is_equal


def test_tasks_of_asyncio_wait_for_a_lock() -> None:
    async def scene(endpoint: str) -> list[int]:
        async with quorate.aconnect(endpoint, objects.RLock, timeout=PATIENCE_S) as connected:
            lock: Any = connected

            async def work(owner: int) -> int:
                token: int = await lock.acquire(owner=owner)
                await lock.release(owner=owner)
                return token

            return await asyncio.gather(*[work(number) for number in range(10)])

    with hall(objects.RLock) as lock:
        tokens = asyncio.run(scene(lock.group.endpoint))
        assert len(set(tokens)) == 10
