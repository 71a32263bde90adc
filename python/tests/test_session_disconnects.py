"""Sessions that end sooner when their client's process dies, and those that only look so."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from fenced_classes import Store, TimedLock
from patience import PATIENCE_S, until

import quorate
from quorate import LocalGroup

HOLDER = """
import sys
from fenced_classes import TimedLock
import quorate
with quorate.connect(sys.argv[1], TimedLock, session_timeout=30, session_on_disconnect=sys.argv[2]) as lock:
    lock.acquire()
    print("holds", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture(scope="module")
def nodes() -> Iterator[LocalGroup[Store]]:
    """Three nodes."""
    with (running := quorate.local(Store, persist="disk", timeout=PATIENCE_S)):
        yield running


@pytest.fixture
def lock(group: quorate.Group) -> TimedLock:
    """The lock, as the session of the group sees it."""
    return group.create(TimedLock, "lock")


@pytest.fixture
def holder(nodes: LocalGroup[Store], lock: TimedLock) -> Iterator[subprocess.Popen[str]]:
    """Another process, which has the lock; nothing but its death ends its session within the test."""
    endpoint = f"{nodes.endpoint.rpartition('/')[0]}/lock"
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", HOLDER, endpoint, "2s"]
    process = subprocess.Popen(command, cwd=Path(__file__).parent, stdin=pipe, stdout=pipe, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "holds\n"
    yield process
    process.kill()
    process.communicate()


def seconds_until_next(group: quorate.Group, lock: TimedLock, begin: Callable[[], Any]) -> float:
    """How long after `begin` another client has the lock, which has waited for it."""
    with ThreadPoolExecutor() as threads:
        waits = threads.submit(lock.acquire)
        until(lambda: group.describe("lock")["waiting"])
        began = time.monotonic()
        begin()
        waits.result(PATIENCE_S)
        return time.monotonic() - began


def test_a_lock_whose_holder_is_killed_is_free_after_the_time_that_it_asked_for(
    group: quorate.Group, lock: TimedLock, holder: subprocess.Popen[str]
) -> None:
    seconds = seconds_until_next(group, lock, holder.kill)
    assert 1.9 < seconds < 8, "far below the 30 seconds of its session"


def test_it_is_free_although_the_leader_is_killed_just_after(
    nodes: LocalGroup[Store], group: quorate.Group, lock: TimedLock, holder: subprocess.Popen[str]
) -> None:
    leader = nodes.leader

    unknown = {"counts": {"clients": float("inf")}}

    def connected() -> float:
        return sum((nodes.status(node) or unknown)["counts"]["clients"] for node in nodes.nodes)

    def kill_both() -> None:
        before = connected()
        holder.kill()
        # A node that dies before its system has told it reports nothing.
        until(lambda: connected() < before)
        nodes.kill(leader)

    seconds = seconds_until_next(group, lock, kill_both)
    nodes.restart(leader)
    assert 1.9 < seconds < 15


def test_a_holder_that_stands_still_or_whose_nodes_die_keeps_its_lock(
    nodes: LocalGroup[Store], group: quorate.Group, lock: TimedLock, holder: subprocess.Popen[str]
) -> None:
    for _ in range(3):
        leader = nodes.leader
        nodes.kill(leader)
        assert lock.locked()
        nodes.restart(leader)
    os.kill(holder.pid, signal.SIGSTOP)
    leader = nodes.leader
    nodes.kill(leader)
    time.sleep(4)
    nodes.restart(leader)
    assert lock.locked()
    os.kill(holder.pid, signal.SIGCONT)
    assert seconds_until_next(group, lock, holder.kill) < 8


def test_milliseconds_mean_what_the_same_seconds_mean() -> None:
    with pytest.raises(quorate.Unavailable):
        quorate.connect(
            "quorate://127.0.0.1:1/A", timeout=0.1, session_timeout=1.001, session_on_disconnect="1001ms"
        )


@pytest.mark.parametrize("short", ["0.9s", 0, 5.1, "6s", float("nan"), "1h", "-2s", ""])
def test_a_time_out_of_bounds_is_refused_with_advice(short: Any) -> None:
    for connect in (quorate.connect, quorate.aconnect, quorate.group, quorate.agroup):
        with pytest.raises(ValueError, match=r"session_on_disconnect .*: (use 1 to|write a number)"):
            connect("quorate://127.0.0.1:1/A", session_on_disconnect=short)
    with pytest.raises(TypeError, match="session_on_disconnect is a number of seconds"):
        quorate.connect("quorate://127.0.0.1:1/A", session_on_disconnect=True)
