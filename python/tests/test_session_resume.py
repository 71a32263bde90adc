"""Processes that go on with the session of one before, on groups of real nodes."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from fenced_classes import Store, TimedLock
from patience import PATIENCE_S, until

import quorate
from quorate import LocalGroup, StaleToken, _local
from quorate.objects import Election, Membership

SECONDS = 60.0
"""Of sessions that nothing ends within a test."""

HOLDER = """
import sys
from fenced_classes import TimedLock
import quorate
with quorate.connect(sys.argv[1], TimedLock, session_timeout=float(sys.argv[3]), resume=sys.argv[2]) as lock:
    with quorate.guard(lock, on_lost=lambda _: print("lost", flush=True)) as guard:
        print(guard.token, flush=True)
        for _ in sys.stdin:
            try:
                guard.check()
                lock.release()
            except Exception as error:
                print(type(error).__name__, error, flush=True)
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


def endpoint_of(nodes: LocalGroup[Store], name: str) -> str:
    """Of one object."""
    return f"{nodes.endpoint.rpartition('/')[0]}/{name}"


@contextlib.contextmanager
def holding(
    endpoint: str, path: Path, seconds: float = SECONDS
) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Another process that has the lock, and its token."""
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", HOLDER, endpoint, str(path), str(seconds)]
    process = subprocess.Popen(command, cwd=Path(__file__).parent, stdin=pipe, stdout=pipe, text=True)
    assert process.stdout is not None
    try:
        yield process, int(process.stdout.readline())
    finally:
        process.kill()
        process.communicate()


def said(process: subprocess.Popen[str], asked: str = "") -> str:
    """The next line of a process, which it may be asked for."""
    assert process.stdin is not None and process.stdout is not None
    if asked:
        process.stdin.write(asked)
        process.stdin.flush()
    return process.stdout.readline().strip()


def test_a_holder_that_is_killed_and_started_again_has_its_lock_with_another_token(
    nodes: LocalGroup[Store], group: quorate.Group, lock: TimedLock, tmp_path: Path
) -> None:
    store = group.create(Store, "fenced")
    path = tmp_path / "session"
    with ThreadPoolExecutor() as threads:
        with holding(endpoint_of(nodes, "lock"), path) as (_, first):
            store.write(first, "before")
            waits = threads.submit(lock.acquire)
            until(lambda: group.describe("lock")["waiting"])
        with holding(endpoint_of(nodes, "lock"), path) as (_, second):
            assert second > first
            assert not waits.done() and lock.token() == second
            store.write(second, "after")
            with pytest.raises(StaleToken):
                store.write(first, "late")
        with quorate.connect(
            endpoint_of(nodes, "lock"), TimedLock, session_timeout=SECONDS, resume=path
        ) as own:
            assert quorate.session_resumed(own)
            own.release()
            assert waits.result(PATIENCE_S) > second
    assert path.stat().st_mode & 0o777 == 0o600
    assert os.listdir(tmp_path) == ["session"]


def test_one_that_stood_still_while_its_session_was_resumed_is_told_and_refused(
    nodes: LocalGroup[Store], lock: TimedLock, tmp_path: Path
) -> None:
    """Claim rp-90."""
    path, copy = tmp_path / "session", tmp_path / "copy"
    with holding(endpoint_of(nodes, "lock"), path) as (before, first):
        os.kill(before.pid, signal.SIGSTOP)
        shutil.copy(path, copy)
        with holding(endpoint_of(nodes, "lock"), copy) as (after, second):
            assert second > first
            os.kill(before.pid, signal.SIGCONT)
            assert said(before) == "lost"
            refused = said(before, "release\n")
            assert refused.startswith("LockLost") and "another process has resumed" in refused, refused
            assert lock.token() == second
            assert after.poll() is None


def test_a_session_is_not_resumed_while_the_process_that_has_it_runs(
    nodes: LocalGroup[Store], lock: TimedLock, tmp_path: Path
) -> None:
    path = tmp_path / "session"
    endpoint = endpoint_of(nodes, "lock")
    with holding(endpoint_of(nodes, "lock"), path) as (before, first):
        os.kill(before.pid, signal.SIGSTOP)
        for connect in (quorate.connect, quorate.group):
            with pytest.raises(quorate.SessionInUse, match="is running"):
                connect(endpoint, resume=path)
        os.kill(before.pid, signal.SIGCONT)
        assert lock.token() == first


def test_what_the_process_before_waited_for_goes_to_nobody(
    nodes: LocalGroup[Store], group: quorate.Group, lock: TimedLock, tmp_path: Path
) -> None:
    path, endpoint = tmp_path / "session", endpoint_of(nodes, "lock")
    assert lock.acquire()
    waiter = f"""
import quorate
quorate.connect({endpoint!r}, session_timeout=60, resume={str(path)!r}).proxy.acquire()
"""
    process = subprocess.Popen([sys.executable, "-c", waiter])
    until(lambda: group.describe("lock")["waiting"])
    process.kill()
    process.wait()
    with quorate.connect(endpoint, TimedLock, session_timeout=SECONDS, resume=path) as own:
        assert quorate.session_resumed(own)
        until(lambda: not group.describe("lock")["waiting"])
        lock.release()
        assert not own.locked()


def test_leaders_and_members_stay_what_they_were(
    nodes: LocalGroup[Store], group: quorate.Group, tmp_path: Path
) -> None:
    path = tmp_path / "session"
    election: Election[str] = group.create(Election, "election")
    members: Membership[str] = group.create(Membership, "members")
    worker = f"""
import os, signal, quorate
own = quorate.group({nodes.endpoint.rpartition("/")[0]!r}, session_timeout=60, resume={str(path)!r})
own.get("election").campaign("first")
own.get("members").join("worker", "first")
os.kill(os.getpid(), signal.SIGKILL)
"""
    subprocess.run([sys.executable, "-c", worker], check=False)
    term = election.term()
    assert (election.leader(), members.members()) == ("first", {"worker": "first"})
    changes = ThreadPoolExecutor()
    watched = changes.submit(election.watch, term)
    with quorate.group(nodes.endpoint.rpartition("/")[0], session_timeout=SECONDS, resume=path) as own:
        assert own.get("election").campaign("second") > term
        own.get("members").join("worker", "second")
        assert (election.leader(), members.members()) == ("second", {"worker": "second"})
        assert watched.result(PATIENCE_S) == own.get("election").campaign("second")
    changes.shutdown()
    # A session of more than the usual time ends with its connection.
    until(lambda: election.leader() is None)


def test_who_has_another_secret_or_comes_too_late_gets_a_session_of_its_own(
    nodes: LocalGroup[Store], lock: TimedLock, tmp_path: Path
) -> None:
    path, endpoint = tmp_path / "session", endpoint_of(nodes, "lock")
    with quorate.connect(endpoint, TimedLock, session_timeout=SECONDS, resume=path) as own:
        assert own.acquire() and not quorate.session_resumed(own)
        with quorate.connect(endpoint, TimedLock, resume=tmp_path / "other") as other:
            assert not quorate.session_resumed(other)
            assert other.acquire(blocking=False) == 0
            with pytest.raises(RuntimeError, match="does not hold"):
                other.release()
    # It was closed, and is free to be opened with the same secret.
    with quorate.connect(endpoint, TimedLock, session_timeout=SECONDS, resume=path) as own:
        assert not quorate.session_resumed(own) and not own.locked()


def test_of_two_that_resume_a_session_at_once_one_has_it_and_the_other_is_told(
    nodes: LocalGroup[Store], lock: TimedLock, tmp_path: Path
) -> None:
    path, copy = tmp_path / "session", tmp_path / "copy"
    endpoint = endpoint_of(nodes, "lock")
    with holding(endpoint_of(nodes, "lock"), path) as (_, first):
        pass
    shutil.copy(path, copy)
    with ThreadPoolExecutor() as threads:

        def resume(own: Path) -> quorate.Connection[TimedLock]:
            return quorate.connect(endpoint, TimedLock, session_timeout=SECONDS, resume=own)

        connections = list(threads.map(resume, (path, copy)))
    proxies = [connection.proxy for connection in connections]
    until(lambda: [quorate.session_resumed(proxy) for proxy in proxies].count(True) == 1)
    owner, other = sorted(proxies, key=quorate.session_resumed, reverse=True)
    assert other.acquire(blocking=False) == 0
    assert owner.acquire() > first
    for connection in connections:
        connection.close()


def test_a_file_that_others_may_read_or_of_another_kind_is_refused(
    nodes: LocalGroup[Store], tmp_path: Path
) -> None:
    path = tmp_path / "session"
    path.write_text("my diary\n")
    path.chmod(0o644)
    with pytest.raises(quorate.Refused, match="chmod 600"):
        quorate.connect(nodes.endpoint, resume=path)
    path.chmod(0o600)
    with pytest.raises(quorate.Refused, match="not the file of a session"):
        quorate.connect(nodes.endpoint, resume=path)
    assert path.read_text() == "my diary\n"


def test_the_secret_of_a_session_that_has_expired_opens_another_one_that_has_nothing(
    nodes: LocalGroup[Store], lock: TimedLock, tmp_path: Path
) -> None:
    path = tmp_path / "session"
    with holding(endpoint_of(nodes, "lock"), path, seconds=2.0) as (_, first):
        pass
    assert lock.acquire() > first, "it was killed, and its session expired"
    with quorate.connect(endpoint_of(nodes, "lock"), TimedLock, session_timeout=SECONDS, resume=path) as own:
        assert not quorate.session_resumed(own)
        assert own.acquire(blocking=False) == 0
        with pytest.raises(RuntimeError, match="does not hold"):
            own.release()
        lock.release()
        assert own.acquire() > first


def test_no_node_tells_the_secret(tmp_path: Path) -> None:
    path, data = tmp_path / "session", tmp_path / "data"
    words = ["--port", "0", "--dir", str(data), "--log", "trace"]
    with _local.start_group("fenced_classes:TimedLock", words, Path(__file__).parent) as ready:
        tokens = []
        for _ in range(2):
            with holding(ready["endpoint"], path) as (_, token):
                tokens.append(token)
                asked = [_local.program(), "status", "--endpoint", ready["endpoint"], "-o", "json"]
                status = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
        assert tokens[0] < tokens[1], "it was resumed"
        logs = [log.read_text() for log in data.glob("node-*.log*")]
    secret = path.read_text().split()[-1]
    forms = {secret, secret.upper(), str(list(bytes.fromhex(secret))), repr(bytes.fromhex(secret))[2:-1]}
    assert (len(logs), len(json.loads(status)["nodes"])) == (3, 3)
    for told in (status, *logs):
        assert told and not [form for form in forms if form in told]
