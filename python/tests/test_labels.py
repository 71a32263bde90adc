"""Threads and tasks of one session are told apart by labels, which proxies give to methods that take one."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import pytest
from labelled_classes import Counters, Vault
from patience import PATIENCE_S, until

import quorate
import quorate.testing
from quorate import LocalGroup, _labels
from quorate.objects import RLock

T = TypeVar("T")


@pytest.fixture(scope="module")
def nodes() -> Iterator[LocalGroup[Counters]]:
    """Three nodes."""
    with (running := quorate.local(Counters, persist="disk", timeout=PATIENCE_S)):
        yield running


@pytest.fixture
def lock(group: quorate.Group) -> RLock:
    """A lock, as the session of the group sees it."""
    return group.create(RLock, "lock")


def endpoint_of(nodes: LocalGroup[Any], name: str) -> str:
    """For a session of its own."""
    return f"{nodes.endpoint.rpartition('/')[0]}/{name}"


def elsewhere(act: Callable[[], T]) -> T:
    """What it gives in a thread of its own, which has ended."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(act).result(PATIENCE_S)


def test_two_threads_of_one_session_exclude_each_other(
    nodes: LocalGroup[Counters], group: quorate.Group, lock: RLock
) -> None:
    """Claim rp-112."""
    with ThreadPoolExecutor(1) as thread, lock as token:
        with lock as again:
            assert again == token > 0
        assert elsewhere(lambda: lock.acquire(blocking=False)) == 0
        with pytest.raises(RuntimeError, match="this owner does not hold the lock"):
            elsewhere(lock.release)
        assert elsewhere(lambda: lock.acquire(timeout=0.1)) == 0
        other = thread.submit(lock.acquire)
        until(lambda: group.describe("lock")["waiting"])
        killed = nodes.leader
        nodes.kill(killed)
        assert lock.locked() and not other.done()
        lock.release()
        assert other.result(PATIENCE_S) > token
        assert lock.acquire(blocking=False) == 0
        nodes.restart(killed)
        thread.submit(lock.release).result(PATIENCE_S)
        lock.acquire()
    assert not lock.locked()
    assert nodes.compare().is_equal


def test_threads_that_come_later_do_not_own_what_one_that_ended_has_acquired(lock: RLock) -> None:
    idents = []

    def acquire() -> int:
        idents.append(threading.get_ident())
        return lock.acquire(blocking=False)

    assert elsewhere(acquire) > 0
    assert [elsewhere(acquire) for _ in range(5)] == [0] * 5
    assert len(set(idents)) < len(idents), "the system gave no number again"


def test_two_tasks_of_one_session_exclude_each_other(nodes: LocalGroup[Counters], lock: RLock) -> None:
    """Claim rp-112."""
    inside: list[str] = []

    async def work(theirs: Any, name: str) -> None:
        for _ in range(5):
            async with theirs as token:
                assert token > 0 and not inside
                inside.append(name)
                assert await theirs.acquire() == token
                await asyncio.sleep(0)
                await theirs.release()
                assert inside.pop() == name

    async def scene() -> None:
        async with quorate.aconnect(endpoint_of(nodes, "lock"), RLock, timeout=PATIENCE_S) as theirs:
            await asyncio.gather(*[work(theirs, name) for name in "abc"])
            async with theirs:
                task = asyncio.create_task(release(theirs))
                with pytest.raises(RuntimeError, match="this owner does not hold the lock"):
                    await task
                # Who calls is this task, whichever waits for the answer.
                await asyncio.create_task(awaited(theirs.acquire()))
                await theirs.release()
            assert not await theirs.locked()

    async def release(theirs: Any) -> None:
        await theirs.release()

    async def awaited(call: Any) -> None:
        assert await call > 0

    asyncio.run(scene())


def test_the_one_who_submits_is_the_owner(lock: RLock) -> None:
    future = quorate.submit(lock.acquire)
    assert elsewhere(lambda: future.result(PATIENCE_S)) > 0
    assert elsewhere(quorate.submit(lock.acquire).result) > 0
    lock.release()
    lock.release()
    assert not lock.locked()


def test_who_names_the_owner_is_that_one_in_any_thread(group: quorate.Group, lock: RLock) -> None:
    assert lock.acquire(owner="mia") == elsewhere(lambda: lock.acquire(owner="mia"))
    assert lock.acquire(blocking=False) == 0
    assert [holder["label"] for holder in group.describe("lock")["holders"]] == ["mia"]
    elsewhere(lambda: lock.release(owner="mia"))
    lock.release(owner="mia")
    assert not lock.locked()


def test_a_guard_belongs_to_who_began_it(nodes: LocalGroup[Counters], lock: RLock) -> None:
    guard = quorate.guard(lock).__enter__()
    with quorate.guard(lock) as inner:
        assert inner.token == guard.token
    assert elsewhere(lambda: lock.acquire(blocking=False)) == 0
    elsewhere(lambda: guard.__exit__(None, None, None))
    assert not lock.locked()

    async def scene() -> None:
        async with quorate.aconnect(endpoint_of(nodes, "lock"), RLock, timeout=PATIENCE_S) as theirs:
            async with quorate.aguard(theirs) as outer:
                assert await theirs.acquire() == outer.token
                assert await asyncio.create_task(tried(theirs)) == 0
                await theirs.release()
            assert not await theirs.locked()

    async def tried(theirs: Any) -> int:
        token: int = await theirs.acquire(blocking=False)
        return token

    asyncio.run(scene())


def test_a_client_that_does_not_know_the_class_is_one_owner_unless_it_says_who_calls(
    nodes: LocalGroup[Counters], lock: RLock
) -> None:
    with quorate.connect(endpoint_of(nodes, "lock"), timeout=PATIENCE_S) as theirs:
        assert theirs.acquire() == elsewhere(theirs.acquire)
        elsewhere(theirs.release)
        theirs.release()
        assert theirs.acquire(owner=quorate.label()) > 0
        assert elsewhere(lambda: theirs.acquire(blocking=False, owner=quorate.label())) == 0
        theirs.release(owner=quorate.label())


def test_a_class_of_a_user_is_told_who_calls(nodes: LocalGroup[Counters]) -> None:
    counters = nodes.proxy
    assert [counters.sit_down(1), elsewhere(lambda: counters.sit_down(1))] == [True, False]
    with pytest.raises(PermissionError):
        elsewhere(lambda: counters.leave(1))
    counters.leave(1)
    assert counters.told(1) is None and counters.told(1, 7) == 7
    mine = quorate.label()
    assert counters.who_reads() == quorate.weak(counters).who_reads() == mine
    assert elsewhere(counters.who_reads) != mine
    assert counters.who_reads(clerk=None) is None
    with counters as entered:
        assert entered == mine
    assert counters.clerks == {0: (0, mine)}


def test_an_object_passes_the_label_on_to_its_parts(group: quorate.Group) -> None:
    vault = group.create(Vault, "vault")
    assert vault.open() > 0
    assert vault.open() > 0
    assert elsewhere(vault.open) == 0
    with pytest.raises(RuntimeError, match="this owner"):
        elsewhere(vault.shut)
    vault.shut()
    vault.shut()
    assert elsewhere(vault.open) > 0


def test_replicas_that_make_an_object_which_locks_in_its_constructor_agree() -> None:
    with (running := quorate.local(Vault, persist="disk", timeout=PATIENCE_S)) as vault:
        assert vault.token == 1
        assert running.compare().is_equal


def test_an_object_without_a_group_has_an_owner_for_each_thread_too() -> None:
    lock = RLock()
    with lock as token:
        assert lock.acquire() == token
        assert elsewhere(lambda: lock.acquire(blocking=False)) == 0
        with pytest.raises(RuntimeError, match="this owner"):
            elsewhere(lock.release)
        lock.release()
    assert elsewhere(lambda: lock.acquire(blocking=False)) > 0

    async def tasks() -> list[int]:
        free = RLock()

        async def tried() -> int:
            return free.acquire(blocking=False)

        return list(await asyncio.gather(tried(), tried()))

    assert sorted(map(bool, asyncio.run(tasks()))) == [False, True]


def test_a_group_in_this_process_is_told_too() -> None:
    with quorate.testing.local(Vault) as vault:
        assert vault.open() > 0
        assert elsewhere(vault.open) == 0
        vault.shut()
        assert vault.open(owner=7) > 0


def test_labels_are_numbers_of_threads_and_tasks_that_live() -> None:
    async def of_tasks() -> list[int | None]:
        async def one() -> int | None:
            return quorate.label()

        assert quorate.label() == quorate.label() != _labels.thread_label()
        return list(await asyncio.gather(one(), one(), one()))

    found = [quorate.label(), *asyncio.run(of_tasks()), *(elsewhere(quorate.label) for _ in range(3))]
    assert len(set(found)) == len(found)
    assert all(isinstance(label, int) and 0 < label < 1 << 31 for label in found)


def test_a_task_gets_no_label_that_an_ended_one_had() -> None:
    async def labels() -> list[int | None]:
        async def one() -> int | None:
            return quorate.label()

        return [await asyncio.create_task(one()) for _ in range(100)]

    assert len(set(asyncio.run(labels()))) == 100


BEFORE = """
import os, signal, sys, threading, quorate
from quorate.objects import RLock
lock = quorate.connect(sys.argv[1], RLock, session_timeout=60, resume=sys.argv[2]).proxy
acquire = lock.acquire if sys.argv[3] == "first" else lambda: lock.acquire(owner="mia")
thread = threading.Thread(target=acquire)
thread.start()
thread.join()
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("which", ["first", "named"])
def test_any_thread_of_a_process_that_resumed_the_session_has_what_the_one_before_held(
    nodes: LocalGroup[Counters], lock: RLock, tmp_path: Path, which: str
) -> None:
    path = tmp_path / "session"
    command = [sys.executable, "-c", BEFORE, endpoint_of(nodes, "lock"), str(path), which]
    ended = subprocess.run(command, cwd=Path(__file__).parent, timeout=PATIENCE_S, check=False)
    assert ended.returncode == -9 and lock.locked()
    with quorate.connect(
        endpoint_of(nodes, "lock"), RLock, session_timeout=60, resume=path, timeout=PATIENCE_S
    ) as own:
        assert quorate.session_resumed(own)
        for owner in (quorate.label(), 1, 2, "mia"):
            with pytest.raises(RuntimeError, match="this owner"):
                own.release(owner=owner)
        taken = own.acquire(timeout=PATIENCE_S)
        assert taken > 0 and own.acquire() == taken
        assert elsewhere(lambda: own.acquire(blocking=False)) == 0
        own.release()
        own.release()
        assert not own.locked()
