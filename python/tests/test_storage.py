"""A storage in groups: its files are each replica's own, whatever becomes of replicas, disks and files."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import random
import shutil
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from depot_class import Depot
from patience import PATIENCE_S, until
from test_full_disk import DISK_MIB, group_on_small_disks

import quorate
from quorate import LocalGroup, _on_disk
from quorate.objects import Storage

NODES = (1, 2, 3)


@pytest.fixture
def nodes() -> Iterator[LocalGroup[Storage]]:
    """Three nodes."""
    with (running := quorate.local(Storage, persist="disk", timeout=PATIENCE_S)):
        yield running


def folder(nodes: LocalGroup[Any], node: int) -> Path:
    """Where the host of a node has its files."""
    return Path(nodes._running()["dir"]) / f"node-{node}" / "scratch" / "contents"


def files(nodes: LocalGroup[Any], node: int) -> set[str]:
    """None while it starts."""
    with contextlib.suppress(FileNotFoundError):
        return set(os.listdir(folder(nodes, node)))
    return set()


def content(at: int, size: int = 50_000) -> bytes:
    return random.Random(at).randbytes(size)


def names_of(*contents: bytes) -> set[str]:
    return {_on_disk._name_of(each) for each in contents}


def host_of(nodes: LocalGroup[Any], node: int) -> dict[str, Any]:
    told = nodes.status(node)
    return {} if told is None else told


def log_of(nodes: LocalGroup[Any], node: int) -> str:
    return (Path(nodes._running()["dir"]) / f"node-{node}.log").read_text()


def test_contents_lie_in_files_at_each_replica_and_outlive_nodes(nodes: LocalGroup[Storage]) -> None:
    """Claim rp-96."""
    shelf = nodes.proxy
    for at in range(10):
        shelf[str(at)] = content(at)
    assert shelf.append("0", b"more") == 50_004
    assert shelf.get("0", 49_990) == content(0)[49_990:] + b"more"
    for node in NODES:
        # A replica executes what was decided without it too.
        until(functools.partial(is_subset, nodes, node, names_of(*map(content, range(1, 10)))))
    killed = nodes.leader
    nodes.kill(killed)
    del shelf["1"]
    shelf["2"] = content(99)
    # Nothing of what was on its disk is left.
    shutil.rmtree(folder(nodes, killed))
    nodes.restart(killed)
    assert nodes.compare().is_equal
    for node in NODES:
        nodes.kill(node)
    with ThreadPoolExecutor(len(NODES)) as threads:
        list(threads.map(nodes.restart, NODES))
    assert shelf["2"] == content(99)
    assert shelf.names() == [str(at) for at in range(10) if at != 1]
    assert nodes.compare().is_equal


def is_subset(nodes: LocalGroup[Any], node: int, names: set[str]) -> bool:
    return names <= files(nodes, node)


def test_a_replica_that_was_away_gets_the_contents_with_a_snapshot(nodes: LocalGroup[Storage]) -> None:
    shelf = nodes.proxy
    away = next(node for node in NODES if node != nodes.leader)
    nodes.kill(away)
    shutil.rmtree(folder(nodes, away))
    for at in range(40):
        shelf[str(at)] = content(at, 200_000)
    nodes.snapshot()
    for at in range(20):
        del shelf[str(at)]
    nodes.snapshot()
    nodes.restart(away)
    assert nodes.compare().is_equal
    until(lambda: names_of(content(30, 200_000)) <= files(nodes, away))
    assert shelf["30"] == content(30, 200_000)


def test_files_go_while_snapshots_are_taken_and_no_snapshot_misses_one(nodes: LocalGroup[Storage]) -> None:
    shelf = nodes.proxy
    over = threading.Event()

    def change(writer: int) -> int:
        draw, count = random.Random(writer), 0
        while not over.is_set():
            name = f"{writer}-{draw.randrange(20)}"
            if draw.random() < 0.3 and name in shelf:
                del shelf[name]
            elif draw.random() < 0.5:
                shelf.append(name, content(draw.randrange(50), 30_000))
            else:
                shelf[name] = content(draw.randrange(50), 30_000)
            count += 1
        return count

    with ThreadPoolExecutor(3) as threads:
        changing = [threads.submit(change, writer) for writer in range(3)]
        try:
            for at in range(12):
                nodes.snapshot()
                if at % 4 == 3:
                    killed = nodes.leader
                    nodes.kill(killed)
                    nodes.restart(killed)
        finally:
            over.set()
        assert all(each.result(PATIENCE_S) for each in changing)
    assert nodes.compare().is_equal
    for node in NODES:
        assert "no snapshot: the objects' state cannot be encoded" not in log_of(nodes, node)
    shelf.clear()
    shelf["last"] = content(7)
    nodes.snapshot()
    # What a snapshot held is removed when it is written.
    until(lambda: all(files(nodes, node) == names_of(content(7)) for node in NODES))


def test_a_replica_whose_disk_takes_nothing_answers_as_the_others(nodes: LocalGroup[Storage]) -> None:
    """Claim rp-96: what one replica cannot write is no outcome, for the others can."""
    shelf = nodes.proxy
    shelf["a"] = content(1)
    (name,) = names_of(content(2))
    full = next(node for node in NODES if node != nodes.leader)
    block = folder(nodes, full) / name
    until(functools.partial(is_subset, nodes, full, names_of(content(1))))
    # No file takes the place of a directory.
    block.mkdir()
    shelf["b"] = content(2)
    assert shelf.append("b", b"!") == 50_001
    shelf["b"] = content(2)
    assert nodes.compare().is_equal
    until(lambda: "does not take what an object stores, which stays in memory" in log_of(nodes, full))
    assert block.is_dir()
    block.rmdir()
    shelf["c"] = content(3)
    nodes.snapshot()
    until(functools.partial(holds, block, content(2)))
    assert nodes.compare().is_equal
    assert all(digest is not None for digest in nodes.compare().digests.values())


def test_a_group_on_full_disks_refuses_what_it_has_no_room_for_and_goes_on_answering(tmp_path: Path) -> None:
    """Contents, log and images share the disks: calls are refused before they would be decided."""
    accepted: list[int] = []
    with group_on_small_disks(tmp_path, 3, "quorate.objects:Storage") as small:
        with quorate.connect(small.endpoint, Storage, timeout=PATIENCE_S) as shelf:
            # A call that is being decided when the last disk fills has no outcome yet.
            with pytest.raises((quorate.StorageFull, quorate.TimedOut)) as full:
                for at in range(2 * DISK_MIB):
                    shelf[str(at)] = content(at, 1 << 20)
                    accepted.append(at)
            names = [str(at) for at in accepted]
            if full.type is quorate.TimedOut and len(shelf) > len(names):
                names.append(str(len(names)))
            assert shelf.names() == names
            for at in accepted:
                assert shelf.get(str(at)) == content(at, 1 << 20)
        # A node that did not hear the leader for a moment, on a machine that does much, says so.
        until(lambda: is_served(small.statuses()), shown=lambda: json.dumps(small.statuses(), indent=1))


def is_served(nodes: list[dict[str, Any]]) -> bool:
    """Whether a majority serves, and who does not has a disk on which not even the log's reserve is left.

    A leader whose disk is full passes its place on while it proposes, and its successor writes that again.
    Where this fills the successor's reserve, the others decide, and it stays behind until it has room.
    """
    others = [node for node in nodes if not node["is_serving"]]
    is_known = all(node["counts"]["log_shortage"] == 3 for node in others)
    return is_known and 2 * len(others) < len(nodes) and all(node["is_host_up"] for node in nodes)


def test_a_file_that_is_gone_or_changed_is_made_anew_and_never_answered(nodes: LocalGroup[Storage]) -> None:
    """Claim rp-96."""
    shelf = nodes.proxy
    shelf["a"], shelf["b"] = content(1), content(2)
    leader = nodes.leader
    for at in range(2):
        (name,) = names_of(content(1))
        file = folder(nodes, leader) / name
        until(functools.partial(holds, file, content(1)))
        if at:
            file.unlink()
        else:
            file.write_bytes(b"something else")
        # This one finds it, unless another replica leads by now: what that answers is right.
        with contextlib.suppress(quorate.ReadEnded):
            assert shelf.get("a", at) == content(1)[at:]
        # All replicas read what they append to.
        assert shelf.append("a", b"!") == len(content(1)) + 1
        assert nodes.compare().is_equal
        shelf["a"] = content(1)
        assert "gone or damaged: it is made anew" in log_of(nodes, leader)
    assert shelf.get("a", 10) == content(1)[10:]
    assert nodes.compare().is_equal


def test_a_damaged_file_that_nobody_reads_keeps_no_snapshot_from_being_taken(
    nodes: LocalGroup[Storage],
) -> None:
    """The process that writes the image finds it, and the host makes the files anew."""
    nodes.proxy["a"] = content(1)
    (name,) = names_of(content(1))
    for node in NODES:
        until(functools.partial(is_subset, nodes, node, {name}))
        (folder(nodes, node) / name).write_bytes(content(2))
    with contextlib.suppress(quorate.Unavailable):
        nodes.snapshot()
    until(lambda: all(holds(folder(nodes, node) / name, content(1)) for node in NODES))
    assert nodes.compare().is_equal


def test_tries_that_leave_no_trace_leave_no_files() -> None:
    with ThreadPoolExecutor(2) as threads, (running := quorate.local(Depot, timeout=PATIENCE_S)) as depot:
        taking = [threads.submit(depot.take, "a") for _ in range(2)]
        with quorate.group(running.endpoint) as group:
            until(lambda: len(group.describe("Depot")["waiting"]) == 2)
        for at in range(2):
            depot.leave("a", content(at))
            until(functools.partial(is_done, taking, at + 1))
        assert {each.result(PATIENCE_S) for each in taking} == {content(0), content(1)}
        assert depot.taken == 2
        assert running.compare().is_equal
        depot.leave("b", content(2))
        running.snapshot()
        until(lambda: all(files(running, node) == names_of(content(2)) for node in NODES))


def is_done(calls: list[Future[bytes]], count: int) -> bool:
    return sum(each.done() for each in calls) == count


def holds(file: Path, content: bytes) -> bool:
    with contextlib.suppress(FileNotFoundError):
        return file.read_bytes() == content
    return False


def test_a_storage_in_an_object_of_ones_own_and_beside_others(nodes: LocalGroup[Storage]) -> None:
    group = quorate.group(nodes.endpoint)
    try:
        other = group.create(Storage, "other")
        nodes.proxy["a"] = content(1)
        other["a"] = content(1)
        until(lambda: names_of(content(1)) <= files(nodes, 1))
        del nodes.proxy["a"]
        assert other["a"] == content(1)
        nodes.snapshot()
        assert other["a"] == content(1)
        group.drop("other")
        nodes.proxy["b"] = content(2)
        nodes.snapshot()
        until(lambda: all(files(nodes, node) == names_of(content(2)) for node in NODES))
    finally:
        group.close()
