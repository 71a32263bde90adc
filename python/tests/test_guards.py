"""Guards on groups of real nodes: the holder knows of a loss before others have what it held."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from fenced_classes import Store, TimedLock
from many_objects import killer
from patience import PATIENCE_S, until

import quorate
from quorate import LocalGroup, LockLost, _session_states
from quorate.objects import Election


@pytest.fixture(scope="module")
def nodes() -> Iterator[LocalGroup[Store]]:
    """Three nodes."""
    with (running := quorate.local(Store, persist="disk", timeout=PATIENCE_S)):
        yield running


@pytest.fixture
def lock(group: quorate.Group) -> TimedLock:
    """The lock, as the session of the group sees it."""
    return group.create(TimedLock, "lock")


def endpoint_of_lock(nodes: LocalGroup[Store]) -> str:
    """For a session of its own."""
    return f"{nodes.endpoint.rpartition('/')[0]}/lock"


@contextlib.contextmanager
def nobody_answers(nodes: LocalGroup[Store]) -> Iterator[None]:
    """All nodes stand still."""
    try:
        for node in nodes.nodes:
            nodes.cut(node)
        yield
    finally:
        nodes.heal()


def test_a_guard_holds_the_lock_for_its_block_and_its_token_grows(lock: TimedLock) -> None:
    tokens = []
    for _ in range(3):
        with quorate.guard(lock) as guard:
            guard.check()
            assert lock.locked() and lock.token() == guard.token
            assert not guard.is_lost and 0 < guard.remaining <= 4.5
            assert guard.deadline == pytest.approx(
                time.clock_gettime(time.CLOCK_BOOTTIME) + guard.remaining, abs=0.5
            )
        assert not lock.locked()
        tokens.append(guard.token)
    assert tokens == sorted(set(tokens)) and tokens[0] > 0


def test_an_error_in_the_block_gives_the_lock_back_and_stays(lock: TimedLock) -> None:
    with pytest.raises(KeyError), quorate.guard(lock):
        raise KeyError("mine")
    assert not lock.locked()


def test_a_guard_is_good_for_one_block(lock: TimedLock) -> None:
    guard = quorate.guard(lock)
    with pytest.raises(LockLost, match="not acquired yet"):
        guard.check()
    with guard:
        pass
    with pytest.raises(RuntimeError, match="used before"), guard:
        pass
    assert not lock.locked()


def test_a_lock_that_is_not_free_in_time_is_a_timeout(nodes: LocalGroup[Store], lock: TimedLock) -> None:
    with (
        quorate.group(nodes.endpoint) as others,
        quorate.guard(others.get("lock", TimedLock)),
        pytest.raises(TimeoutError, match=r"not free for 0\.2 s"),
        quorate.guard(lock, timeout=0.2),
    ):
        pass
    with quorate.guard(lock, timeout=0.2) as guard:
        assert guard.token == lock.token()


def test_a_guard_that_cannot_be_told_of_a_loss_gives_the_lock_back(
    lock: TimedLock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_session_states, "LISTENERS_MAX", 0)
    with pytest.raises(RuntimeError, match="callbacks listen"), quorate.guard(lock, on_lost=print):
        pass
    until(lambda: not lock.locked())


def test_what_is_no_lock_of_this_kind_is_refused(group: quorate.Group, lock: TimedLock) -> None:
    with pytest.raises(TypeError, match=r"use quorate\.guard"):
        quorate.aguard(lock)
    with pytest.raises(TypeError, match="is not a replicated object"):
        quorate.guard(TimedLock())


def test_whoever_leads_holds_the_term_of_its_guard(group: quorate.Group) -> None:
    election = group.create(Election[str], "election")
    with quorate.guard(election, "host-1", methods=("campaign", "resign")) as guard:
        assert (election.leader(), election.term()) == ("host-1", guard.token)
    assert election.leader() is None


def test_killed_leaders_cost_no_guard_its_lock(nodes: LocalGroup[Store], lock: TimedLock) -> None:
    lost: list[quorate.Guard] = []
    with quorate.guard(lock, on_lost=lost.append) as guard:
        for _ in range(3):
            killed = nodes.leader
            nodes.kill(killed)
            assert lock.token() == guard.token
            nodes.restart(killed)
        guard.check()
    assert lost == []


def run(script: str, endpoint: str) -> subprocess.Popen[str]:
    """A holder in a process of its own."""
    command = [sys.executable, "-c", script, endpoint]
    here = Path(__file__).parent
    return subprocess.Popen(command, cwd=here, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def lines_of(holder: subprocess.Popen[str]) -> list[str]:
    """What it says before it ends."""
    try:
        said, _ = holder.communicate("\n", timeout=PATIENCE_S)
    finally:
        holder.kill()
        holder.wait()
    assert holder.returncode == 0
    return said.splitlines()


CUT_OFF = """
import asyncio, os, resource, socket, stat, sys, time
import quorate
from fenced_classes import TimedLock

dead = socket.socketpair()

def cut_off():
    sys.stdin.readline()
    for fd in map(int, os.listdir("/proc/self/fd")):
        try:
            is_connection = socket.socket(fileno=os.dup(fd)).family == socket.AF_INET
        except OSError:
            continue
        if is_connection:
            os.dup2(dead[0].fileno(), fd)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))

def tell(guard):
    print(time.time(), guard.is_lost, flush=True)

def hold():
    with quorate.connect(sys.argv[1], TimedLock, session_timeout=3) as lock:
        with quorate.guard(lock, on_lost=tell) as guard:
            print(guard.token, flush=True)
            cut_off()
            while not guard.is_lost:
                time.sleep(0.001)
            time.sleep(0.5)

async def ahold():
    async with quorate.aconnect(sys.argv[1], TimedLock, session_timeout=3) as lock:
        async with quorate.aguard(lock, on_lost=tell) as guard:
            print(guard.token, flush=True)
            cut_off()
            await asyncio.sleep(60)

try:
    HOLD
except quorate.LockLost as loss:
    print("lost", loss.token, flush=True)
"""


@pytest.mark.parametrize("hold", ["hold()", "asyncio.run(ahold())"])
def test_a_holder_that_is_cut_off_is_told_of_the_loss_before_others_get_the_lock(
    nodes: LocalGroup[Store], lock: TimedLock, hold: str
) -> None:
    """Claim rp-71."""
    holder = run(CUT_OFF.replace("HOLD", hold), endpoint_of_lock(nodes))
    assert holder.stdout is not None
    token = int(holder.stdout.readline())
    with ThreadPoolExecutor(1) as threads:
        newer = threads.submit(lock.acquire)
        told, loss = lines_of(holder)
        assert newer.result(PATIENCE_S) > token
    told_at, is_lost = told.split()
    assert (is_lost, loss) == ("True", f"lost {token}")
    ahead = lock.granted_at - float(told_at)
    lock.release()
    assert 0 < ahead < 10, f"told {ahead:.3f} s before the lock was given to another"


PAUSED = """
import os, signal, sys
import quorate
from fenced_classes import Store, TimedLock

base = sys.argv[1].rpartition("/")[0]
with (
    quorate.connect(sys.argv[1], Store, timeout=30, session_timeout=60) as store,
    quorate.connect(base + "/lock", TimedLock, timeout=30, session_timeout=1) as lock,
):
    try:
        with quorate.guard(lock) as guard:
            store.write(guard.token, "first")
            os.kill(os.getpid(), signal.SIGSTOP)
            try:
                store.write(guard.token, "first, late")
            except quorate.StaleToken as refused:
                print(refused.token == guard.token, refused.newest > guard.token, flush=True)
            guard.check()
            print("the guard did not notice", flush=True)
    except quorate.LockLost as loss:
        print("lost", loss.token == guard.token, flush=True)
    with quorate.guard(lock) as again:
        store.write(again.token, "third")
"""


def test_a_holder_that_stood_still_is_told_and_refused(nodes: LocalGroup[Store], lock: TimedLock) -> None:
    """Claim rp-73."""
    holder = run(PAUSED, nodes.endpoint)
    os.waitpid(holder.pid, os.WUNTRACED)
    with quorate.guard(lock) as guard:
        nodes.proxy.write(guard.token, "second")
    holder.send_signal(signal.SIGCONT)
    assert lines_of(holder) == ["True True", "lost True"]
    with quorate.guard(lock) as guard:
        assert nodes.proxy.look(guard.token)[-3:] == ["first", "second", "third"]


def test_a_holder_that_stood_still_while_leaders_were_killed_is_told_and_refused(
    nodes: LocalGroup[Store], lock: TimedLock
) -> None:
    """Claim rp-73."""
    with contextlib.ExitStack() as block:
        holder = run(PAUSED, nodes.endpoint)
        block.callback(holder.kill)
        os.waitpid(holder.pid, os.WUNTRACED)
        held = block.enter_context(contextlib.ExitStack())
        with killer(nodes, every=1.5) as killed:
            until(lambda: killed)
            guard = held.enter_context(quorate.guard(lock))
            before = len(killed)
            until(lambda: len(killed) > before)
            nodes.proxy.write(guard.token, "second")
            until(lambda: len(killed) > before + 1)
            holder.send_signal(signal.SIGCONT)
            # It was told and refused, and asks for the lock again, which is not free.
            until(lambda: lock.waiting_here() == 1)
        guard.check()
        held.close()
        assert lines_of(holder) == ["True True", "lost True"]
    assert len(killed) > 2
    with quorate.guard(lock) as guard:
        assert nodes.proxy.look(guard.token)[-3:] == ["first", "second", "third"]
    assert nodes.compare().is_equal


def test_a_lock_that_the_holder_counts_as_lost_is_given_back_once_the_group_answers(
    nodes: LocalGroup[Store], lock: TimedLock
) -> None:
    connection = quorate.connect(endpoint_of_lock(nodes), TimedLock, session_timeout=2)
    lost: list[quorate.Guard] = []
    with connection as theirs:
        with pytest.raises(LockLost), quorate.guard(theirs, on_lost=lost.append) as guard:
            with nobody_answers(nodes):
                until(lambda: guard.is_lost)
                with pytest.raises(LockLost):
                    guard.check()
                until(lambda: lost)
            assert theirs.token() == guard.token, "it was lost for nothing, and stays lost"
            assert guard.is_lost
        with quorate.guard(lock, timeout=PATIENCE_S) as next_one:
            assert next_one.token > guard.token
    assert lost == [guard]


def test_what_the_block_raises_stays_and_says_that_the_lock_was_lost(
    nodes: LocalGroup[Store], lock: TimedLock
) -> None:
    connection = quorate.connect(endpoint_of_lock(nodes), TimedLock, session_timeout=1)
    with connection as theirs:
        with pytest.raises(KeyError) as raised, quorate.guard(theirs) as guard, nobody_answers(nodes):
            until(lambda: guard.is_lost)
            raise KeyError("mine")
        assert "is lost, or may be another's" in raised.value.__notes__[0]


def test_who_notices_the_loss_first_does_not_matter(nodes: LocalGroup[Store], lock: TimedLock) -> None:
    lost: list[quorate.Guard] = []

    def fail(guard: quorate.Guard) -> None:
        lost.append(guard)
        raise ValueError("a callback that fails")

    connection = quorate.connect(endpoint_of_lock(nodes), TimedLock, session_timeout=1)
    with connection as theirs:
        with pytest.raises(LockLost), quorate.guard(theirs, on_lost=fail) as guard, nobody_answers(nodes):
            while True:
                guard.check()
        assert lost == [guard]


def test_the_task_that_holds_is_cancelled_and_its_block_ends_as_lost(
    nodes: LocalGroup[Store], lock: TimedLock
) -> None:
    async def hold() -> None:
        async with quorate.aconnect(endpoint_of_lock(nodes), TimedLock, session_timeout=1) as theirs:
            with pytest.raises(LockLost):
                async with quorate.aguard(theirs) as guard:
                    with nobody_answers(nodes):
                        await asyncio.sleep(PATIENCE_S)
            async with quorate.aguard(theirs) as again:
                assert again.token > guard.token
                again.check()
            assert not await theirs.locked()
            with pytest.raises(RuntimeError, match="used before"):
                async with again:
                    pass

    asyncio.run(hold())
    assert not lock.locked()


def test_a_task_that_somebody_else_cancels_stays_cancelled_and_gives_the_lock_back(
    nodes: LocalGroup[Store], lock: TimedLock
) -> None:
    async def cancel() -> None:
        async with quorate.aconnect(endpoint_of_lock(nodes), TimedLock) as theirs:
            holds = asyncio.Event()

            async def hold() -> None:
                async with quorate.aguard(theirs):
                    holds.set()
                    await asyncio.sleep(PATIENCE_S)

            task = asyncio.create_task(hold())
            await holds.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert not await theirs.locked()

    asyncio.run(cancel())
    assert not lock.locked()


def test_a_lock_whose_release_nobody_answers_is_given_back_later(
    nodes: LocalGroup[Store], lock: TimedLock
) -> None:
    connection = quorate.connect(endpoint_of_lock(nodes), TimedLock, session_timeout=60, timeout=0.5)
    with connection as theirs:
        with (
            contextlib.ExitStack() as cut,
            pytest.raises(quorate.TimedOut, match="as soon as the group"),
            quorate.guard(theirs) as guard,
        ):
            cut.enter_context(nobody_answers(nodes))
        with pytest.raises(LockLost, match="the block has ended"):
            guard.check()
        with quorate.guard(lock, timeout=PATIENCE_S) as next_one:
            assert next_one.token > guard.token


def test_a_guard_that_was_lost_takes_nothing_from_the_next_one_of_its_client(
    nodes: LocalGroup[Store], lock: TimedLock
) -> None:
    connection = quorate.connect(endpoint_of_lock(nodes), TimedLock, session_timeout=1, timeout=PATIENCE_S)
    with connection as theirs:
        for _ in range(3):
            with pytest.raises(LockLost), quorate.guard(theirs) as first, nobody_answers(nodes):
                until(lambda: first.is_lost)
            with quorate.guard(theirs) as second:
                assert second.token > first.token
                assert theirs.token() == lock.token() == second.token
