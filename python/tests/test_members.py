"""One client object goes on while the group grows from one node to seven and shrinks to another."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from patience import PATIENCE_S, until

import quorate
from quorate import _program


class Counter:
    """What `rust:counter` does."""

    def __init__(self) -> None:
        self.sum = 0

    def add(self, amount: int) -> int:
        """Add, and return the sum."""
        self.sum += amount
        return self.sum


def told(*words: str) -> dict[str, Any]:
    """What a command prints."""
    command = [_program.program(), *words, "-o", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{words}: {done.stderr}"
    document: dict[str, Any] = json.loads(done.stdout)
    return document


class Machines:
    """The group as its operator sees it."""

    def __init__(self, endpoint: str, home: Path) -> None:
        self.home = home
        self.ways = {1: endpoint.rpartition("/")[0]}
        self.processes: dict[int, subprocess.Popen[str]] = {}

    def any(self) -> str:
        """Where some member is."""
        return next(reversed(self.ways.values()))

    def grow(self) -> None:
        """Let one more node join."""
        token = told("node", "invite", "--endpoint", self.any())["token"]
        command = [_program.program(), "node", "join", "--endpoint", self.any(), "--token", token]
        command += ["--dir", str(self.home / f"joined-{len(self.processes)}"), "-o", "json"]
        log = (self.home / f"joined-{len(self.processes)}.log").open("w")
        with log:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        assert process.stdout is not None
        joined = json.loads(process.stdout.readline() or "{}")
        assert joined, Path(log.name).read_text()
        self.ways[joined["node"]] = f"quorate://{joined['address']}"
        self.processes[joined["node"]] = process

    def shrink(self, node: int) -> None:
        """Let one node leave; the process of one that joined ends by itself."""
        told("view", "remove", str(node), "--endpoint", self.any(), "--force")
        del self.ways[node]
        if node in self.processes:
            assert self.processes[node].wait(timeout=PATIENCE_S) == 0

    def voters(self) -> set[int]:
        """Who votes."""
        view = told("view", "show", "--endpoint", self.any())
        return {member["node"] for member in view["members"] if "acceptor" in member["roles"]}

    def stop(self) -> None:
        """End what is left."""
        for process in self.processes.values():
            if process.poll() is None:
                process.terminate()
                process.wait(timeout=PATIENCE_S)


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[tuple[str, Machines]]:
    """A group of one, and its operator."""
    up = ["--nodes", "1", "--port", "0", "--dir", str(tmp_path / "g")]
    with _program.start_group("rust:counter", up, tmp_path) as ready:
        machines = Machines(ready["endpoint"], tmp_path)
        with contextlib.closing(_Stopped(machines)):
            yield ready["endpoint"], machines


class _Stopped:
    def __init__(self, machines: Machines) -> None:
        self.close = machines.stop


class Load:
    """Adds one after the other with one client object, and counts what was acknowledged."""

    def __init__(self) -> None:
        self.is_over = threading.Event()
        self.acknowledged = 0
        self.unknown = 0
        self.failure: BaseException | None = None

    def note(self, error: BaseException | None) -> None:
        """One call has ended."""
        match error:
            case None:
                self.acknowledged += 1
            case quorate.OutcomeUnknown():
                self.unknown += 1
            case quorate.NotExecuted():
                pass
            case _:
                raise error

    def sync(self, endpoint: str) -> None:
        """With the client that blocks."""
        try:
            with quorate.connect(endpoint, Counter, timeout=PATIENCE_S) as counter:
                while not self.is_over.is_set():
                    try:
                        counter.add(1)
                    except quorate.QuorateError as error:
                        self.note(error)
                    else:
                        self.note(None)
        except BaseException as error:
            self.failure = error

    def asynchronous(self, endpoint: str) -> None:
        """With its asyncio twin."""

        async def run() -> None:
            async with quorate.aconnect(endpoint, Counter, timeout=PATIENCE_S) as counter:
                while not self.is_over.is_set():
                    try:
                        await counter.add(1)
                    except quorate.QuorateError as error:
                        self.note(error)
                    else:
                        self.note(None)

        try:
            asyncio.run(run())
        except BaseException as error:
            self.failure = error


def _go_on(loads: list[Load], before: list[int]) -> bool:
    """Whether each has had an answer since, or has failed."""
    now = zip(loads, before, strict=True)
    return all(load.acknowledged > count or load.failure for load, count in now)


def test_one_client_object_is_used_from_one_node_to_seven_and_back_to_another_one(
    machines: tuple[str, Machines],
) -> None:
    endpoint, group = machines
    loads = [Load(), Load()]
    ways = [loads[0].sync, loads[1].asynchronous]
    threads = [threading.Thread(target=way, args=(endpoint,)) for way in ways]
    for thread in threads:
        thread.start()
    try:
        for size in (3, 5, 7):
            while len(group.ways) < size:
                group.grow()
            assert len(group.voters()) == size
        for gone in (1, 2, 3, 4):
            group.shrink(gone)
        assert group.voters() == {5, 6, 7}
        for gone in (5, 6):
            group.shrink(gone)
        assert group.voters() == {7}
        before = [load.acknowledged for load in loads]
        until(lambda: _go_on(loads, before))
    finally:
        for load in loads:
            load.is_over.set()
        for thread in threads:
            thread.join()
    assert [load.failure for load in loads] == [None, None]
    with quorate.connect(f"{group.any()}/counter", Counter, timeout=PATIENCE_S) as counter:
        total = counter.add(0)
    acknowledged = sum(load.acknowledged for load in loads)
    unknown = sum(load.unknown for load in loads)
    assert acknowledged <= total <= acknowledged + unknown
