"""`describe` tells who holds what of an object since when, whatever the object does when it is asked."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from holder_classes import Bad, Desk, Homonym
from objects_stage import Stage
from patience import PATIENCE_S, until
from shelf_classes import Shelf

import quorate
from quorate import LocalGroup, _environment, _holders, _local, objects


@pytest.fixture(scope="module")
def nodes() -> Iterator[LocalGroup[Shelf]]:
    """Three nodes."""
    with (running := quorate.local(Shelf, persist="disk", timeout=PATIENCE_S)):
        yield running


@pytest.fixture
def group(nodes: LocalGroup[Shelf]) -> Iterator[quorate.Group]:
    """A session of the group, in which nothing was created."""
    with quorate.group(nodes.endpoint, timeout=PATIENCE_S) as group:
        yield group
        for name in list(group.objects())[1:]:
            group.drop(name)


def held(thing: Any) -> list[tuple[int, str, Any, int]]:
    """Session, what, label and count of each holder."""
    return [(each.session, each.what, each.label, each.count) for each in thing.__quorate_holders__()]


TAKES: list[tuple[str, tuple[Any, ...], list[Any], list[tuple[int, str, Any, int]]]] = [
    ("Lock", (), [(7, lambda it: it.acquire())], [(7, "", None, 1)]),
    (
        "RLock",
        (),
        [(7, lambda it: it.acquire(owner="mia")), (7, lambda it: it.acquire(owner="mia"))],
        [(7, "", "mia", 2)],
    ),
    (
        "RWLock",
        (),
        [(7, lambda it: it.acquire_read()), (8, lambda it: it.acquire_read())],
        [(7, "read", None, 1), (8, "read", None, 1)],
    ),
    ("RWLock", (), [(7, lambda it: it.acquire_write())], [(7, "write", None, 1)]),
    (
        "Semaphore",
        (3,),
        [(7, lambda it: it.acquire()), (8, lambda it: it.acquire()), (7, lambda it: it.acquire())],
        [(7, "", None, 2), (8, "", None, 1)],
    ),
    ("BoundedSemaphore", (3,), [(7, lambda it: it.acquire())], [(7, "", None, 1)]),
    ("Condition", (), [(7, lambda it: it.acquire())], [(7, "", None, 1)]),
    (
        "Barrier",
        (3,),
        [(7, lambda it: it.wait()), (8, lambda it: it.wait())],
        [(7, "seat", None, 1), (8, "seat", None, 1)],
    ),
    ("Election", (), [(7, lambda it: it.campaign("host-1"))], [(7, "leadership", "host-1", 1)]),
    ("Membership", (), [(7, lambda it: it.join("host-1", "10.0.0.1"))], [(7, "host-1", None, 1)]),
    (
        "ResourceBroker",
        ({"gpu": 4, "port": 1},),
        [(7, lambda it: it.acquire({"gpu": 2, "port": 1}))],
        [(7, "gpu=2, port=1", None, 1)],
    ),
    (
        "JobManager",
        (),
        [(8, lambda it: it.submit("wash")), (7, lambda it: it.take())],
        [(7, "job 1", None, 1)],
    ),
]


@pytest.mark.parametrize(("name", "given", "takes", "expected"), TAKES)
def test_each_object_that_is_owned_says_who_holds_what_since_when(
    name: str, given: tuple[Any, ...], takes: list[Any], expected: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(getattr(objects, name)(*given), monkeypatch)
    assert held(stage.thing) == []
    monkeypatch.setattr(time, "time", lambda: 1234.5)
    for session, take in takes:
        stage.call(session, take)
    monkeypatch.setattr(time, "time", lambda: 2345.5)
    stage.restart()
    assert held(stage.thing) == expected
    assert {each.since for each in stage.thing.__quorate_holders__()} == {1234.5}
    for session in (7, 8):
        stage.end(session)
    assert held(stage.thing) == []


def test_who_is_served_later_holds_since_then(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(objects.Lock(), monkeypatch)
    for session, now in ((1, 10.0), (2, 20.0)):
        monkeypatch.setattr(time, "time", lambda now=now: now)
        stage.call(session, lambda it: it.acquire())
    monkeypatch.setattr(time, "time", lambda: 30.0)
    stage.call(1, lambda it: it.release())
    (holder,) = stage.thing.__quorate_holders__()
    assert (holder.session, holder.since, holder.token) == (2, 30.0, stage.thing.token())


def test_describe_tells_who_holds_beside_who_waits(nodes: LocalGroup[Shelf], group: quorate.Group) -> None:
    lock = group.create(objects.Lock, "lock")
    before = time.time()
    token = lock.acquire()
    waiting = quorate.submit(lock.acquire)
    until(lambda: group.describe("lock")["waiting"])
    for node in nodes.nodes:
        nodes.kill(node)
        nodes.restart(node)
    described = group.describe("lock")
    (holder,) = described["holders"]
    assert holder["token"] == token
    assert before - 60 < holder["since"] < time.time() + 60
    assert [call[0] for call in described["waiting"]] == [holder["session"]]
    assert described["holders_problem"] == ""
    lock.release()
    assert waiting.result(PATIENCE_S) > token
    (later,) = group.describe("lock")["holders"]
    assert later["since"] > holder["since"]


def test_seats_of_a_barrier_are_those_that_wait(group: quorate.Group) -> None:
    barrier = group.create(objects.Barrier, "barrier", 3)
    waiting = [quorate.submit(barrier.wait) for _ in range(2)]
    until(lambda: len(group.describe("barrier")["holders"]) == 2)
    barrier.wait()
    assert {call.result(PATIENCE_S) for call in waiting} == {0, 1}
    assert group.describe("barrier")["holders"] == []


def test_a_class_of_ones_own_says_it_and_passes_on_what_its_parts_say(group: quorate.Group) -> None:
    desk = group.create(Desk, "desk")
    session = desk.take({"odd": [1, 2]})
    desk.lock_it()
    worker, drawer = group.describe("desk")["holders"]
    assert (worker["session"], worker["what"]) == (session, "desk")
    assert worker["label"] == "{'odd': [1, 2]}"
    assert drawer["session"] == session
    desk.take("x" * 100_000)
    assert len(group.describe("desk")["holders"][0]["label"]) == 200
    group.create(Homonym, "homonym")
    assert group.describe("homonym")["holders"] == []


@pytest.mark.parametrize(
    ("way", "problem", "count"),
    [
        ("raises", "__quorate_holders__ raised ZeroDivisionError: by far", 0),
        ("exits", "__quorate_holders__ raised SystemExit: 3", 0),
        ("hangs", "__quorate_holders__ did not answer within 0.3 s", 0),
        ("tells others", "TypeError: a holder is a quorate.Holder, not tuple", 0),
        ("tells nothing", "TypeError: 'NoneType' object is not iterable", 0),
        ("many", "200 more hold something", 1000),
    ],
)
def test_what_goes_wrong_when_an_object_is_asked_is_told_and_changes_nothing(
    nodes: LocalGroup[Shelf], group: quorate.Group, way: str, problem: str, count: int
) -> None:
    """Claim rp-86."""
    bad = group.create(Bad, "bad", way)
    for _ in range(2):
        described = group.describe("bad")
        assert problem in described["holders_problem"]
        assert len(described["holders"]) == count
        assert described["methods"]
    assert bad.seen() == []
    assert nodes.compare().is_equal


def test_the_command_shows_holders_as_a_table_and_as_json(
    nodes: LocalGroup[Shelf], group: quorate.Group
) -> None:
    group.create(objects.RWLock, "rw").acquire_read()
    group.create(Bad, "bad", "raises")

    def described(name: str, *options: str) -> str:
        command = [_local.program(), *options, "object", "describe", name, "--endpoint", nodes.endpoint]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    (holder,) = json.loads(described("rw", "-o", "json"))["holders"]
    shown = described("rw")
    rows = [line for line in shown.splitlines() if line.startswith(str(holder["session"]))]
    assert rows, shown
    assert rows[0].split()[1] == "read"
    day = time.strftime("%Y-%m-", time.gmtime(holder["since"]))
    assert any(cell.startswith(day) and cell.endswith("Z") for cell in rows[0].split())
    assert "raised ZeroDivisionError: by far" in described("bad")


def test_a_lock_in_rust_tells_it_too(tmp_path: Path) -> None:
    options = ["--port", "0", "--persist", "memory", "--dir", str(tmp_path / "data")]
    with (
        _local.start_group("rust:lock", options, tmp_path) as ready,
        quorate.connect(ready["endpoint"], objects.Lock, timeout=PATIENCE_S) as lock,
        quorate.group(ready["endpoint"], timeout=PATIENCE_S) as group,
    ):
        assert group.objects() == {"lock": "rust:lock"}
        assert group.describe("lock")["holders"] == []
        kinds = {row[0].partition("(")[0]: row[1] for row in group.describe("lock")["methods"]}
        assert kinds == {"acquire": "call", "locked": "read", "release": "call", "token": "read"}
        token = lock.acquire()
        waiting = quorate.submit(lock.acquire)
        assert lock.acquire(False) == 0
        described = group.describe("lock")
        (holder,) = described["holders"]
        assert holder["token"] == token
        assert abs(holder["since"] - time.time()) < 60
        assert [call[0] for call in described["waiting"]] == [holder["session"]]
        lock.release()
        waiting.result(PATIENCE_S)
        with pytest.raises(quorate.NotFound, match="no object 'key'"):
            group.describe("key")


def test_who_cannot_be_asked_apart_leaves_no_pipe_open(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_fork() -> int:
        raise BlockingIOError("no more processes")

    monkeypatch.setattr(os, "fork", no_fork)
    before, open_before = _environment.refuse_effects(True), os.listdir("/proc/self/fd")
    try:
        with pytest.raises(BlockingIOError):
            _holders.told_by(1, Desk())
    finally:
        is_refusing = _environment.refuse_effects(before)
    assert is_refusing
    assert os.listdir("/proc/self/fd") == open_before
