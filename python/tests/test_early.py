"""Tentative results: told ahead of the decision, confirmed or replaced by it, and never taken for it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import textwrap
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from patience import PATIENCE_S, until

import quorate
from quorate import _local


class Nodes:
    """The processes of a counter's nodes, which execute ahead of decisions."""

    def __init__(self, nodes: list[dict[str, Any]]) -> None:
        self.nodes = {int(node["id"]): node for node in nodes}

    def leader(self) -> int:
        """Who leads, once all say the same."""
        found: set[Any] = set()

        def agree() -> bool:
            found.clear()
            found.update(self.status(number).get("leader") for number in self.nodes)
            return len(found) == 1 and None not in found

        until(agree)
        return int(found.pop())

    def status(self, number: int) -> dict[str, Any]:
        """What a node says of itself."""
        with urllib.request.urlopen(f"http://{self.nodes[number]['admin']}/status", timeout=5) as answer:
            told: dict[str, Any] = json.load(answer)
        return told

    def at(self, number: int) -> str:
        """The endpoint that names one node."""
        return f"quorate://{self.nodes[number]['address']}"

    def signal(self, what: signal.Signals, *numbers: int) -> None:
        """Send a signal to nodes that run."""
        for number in numbers:
            with suppress(ProcessLookupError):
                os.kill(int(self.nodes[number]["pid"]), what)

    def others(self, number: int) -> list[int]:
        """All but one."""
        return [other for other in self.nodes if other != number]


@contextmanager
def counter(directory: Path, speculation: int = 16, path: str = "rust:counter") -> Iterator[Nodes]:
    options = ["--port", "0", "--persist", "memory", "--no-restart", "--dir", str(directory / "data")]
    options += ["--speculation", str(speculation)]
    with _local.start_group(path, options, Path(__file__).parent) as ready:
        nodes = Nodes(ready["nodes"])
        try:
            yield nodes
        finally:
            nodes.signal(signal.SIGCONT, *nodes.nodes)


def test_a_result_is_told_before_it_is_decided_and_stands(tmp_path: Path) -> None:
    with counter(tmp_path) as nodes:
        leader = nodes.leader()
        with quorate.connect(nodes.at(leader), timeout=PATIENCE_S) as proxy:
            assert proxy.add(1) == 1
            # Nothing can be decided.
            nodes.signal(signal.SIGSTOP, *nodes.others(leader))
            early = quorate.early(proxy.add, 10)
            assert (early.tentative, early.state) == (11, "tentative")
            with pytest.raises(TimeoutError):
                early.confirmed(timeout=0.05)
            nodes.signal(signal.SIGCONT, *nodes.others(leader))
            assert early.confirmed() == 11
            assert (early.tentative, early.state) == (11, "stood")
            assert early.confirmed() == 11, "as often as one likes"
            assert proxy.get() == 11


def test_an_event_loop_hears_it_early_and_then_truly(tmp_path: Path) -> None:
    async def call(nodes: Nodes, leader: int) -> None:
        async with quorate.aconnect(nodes.at(leader), timeout=PATIENCE_S) as proxy:
            assert await proxy.add(1) == 1
            nodes.signal(signal.SIGSTOP, *nodes.others(leader))
            early = await quorate.aearly(proxy.add, 10)
            assert (early.tentative, early.state) == (11, "tentative")
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(early.confirmed(), 0.05)
            nodes.signal(signal.SIGCONT, *nodes.others(leader))
            assert await early.confirmed() == 11
            assert early.state == "stood"
            assert [*await quorate.agather(early.confirmed(), proxy.get())] == [11, 11]

    with counter(tmp_path) as nodes:
        asyncio.run(call(nodes, nodes.leader()))


CALLER = """
    import sys, quorate
    with quorate.connect(sys.argv[1], timeout=60, session_timeout=120) as counter:
        assert counter.add(1) == 1
        print("ready", flush=True)
        sys.stdin.readline()
        early = quorate.early(counter.add, 10)
        print(early.tentative, early.state, flush=True)
        print(early.confirmed(), early.tentative, early.state, flush=True)
"""


def test_a_leader_that_dies_before_the_decision_takes_the_tentative_result_along(tmp_path: Path) -> None:
    with counter(tmp_path) as nodes:
        leader = nodes.leader()
        command = [sys.executable, "-c", textwrap.dedent(CALLER), nodes.at(leader)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as caller:
            assert caller.stdin is not None
            assert caller.stdout is not None
            try:
                assert caller.stdout.readline() == "ready\n"
                others = nodes.others(leader)
                nodes.signal(signal.SIGSTOP, *others)
                caller.stdin.write("go\n")
                caller.stdin.flush()
                assert caller.stdout.readline() == "11 tentative\n"
                # The caller sends its call again once it goes on: after a call of somebody else.
                caller.send_signal(signal.SIGSTOP)
                nodes.signal(signal.SIGKILL, leader)
                nodes.signal(signal.SIGCONT, *others)
                with quorate.connect(nodes.at(others[0]), timeout=PATIENCE_S) as proxy:
                    before = proxy.add(100)
                    caller.send_signal(signal.SIGCONT)
                    # Its node may have passed the call on before it stood still.
                    told = "111 11 fell\n" if before == 101 else "11 11 stood\n"
                    assert caller.stdout.readline() == told
                    assert proxy.get() == 111, "it was executed once"
            finally:
                caller.kill()


def test_a_group_that_does_not_execute_ahead_gives_the_decided_result(tmp_path: Path) -> None:
    with counter(tmp_path, speculation=0) as nodes:
        endpoint = nodes.at(nodes.leader())
        with quorate.connect(endpoint, timeout=PATIENCE_S) as proxy:
            early = quorate.early(proxy.add, 10)
            assert (early.tentative, early.state, early.confirmed()) == (10, "decided", 10)
            assert quorate.early(proxy.get).state == "decided"
            with pytest.raises(TypeError):
                quorate.early(proxy.add, "much")


def test_what_a_call_raises_is_raised_once_it_is_decided(tmp_path: Path) -> None:
    async def refused(endpoint: str) -> None:
        async with quorate.aconnect(endpoint, timeout=PATIENCE_S) as proxy:
            with pytest.raises(TypeError):
                await quorate.aearly(proxy.add, "much")

    with counter(tmp_path) as nodes:
        endpoint = nodes.at(nodes.leader())
        with quorate.connect(endpoint, timeout=PATIENCE_S) as proxy:
            with pytest.raises(TypeError):
                quorate.early(proxy.add, "much")
            assert proxy.add(1) == 1
        asyncio.run(refused(endpoint))


def test_many_calls_are_told_early_at_once_and_each_is_executed_once(tmp_path: Path) -> None:
    with counter(tmp_path) as nodes, quorate.connect(nodes.at(nodes.leader())) as proxy:
        results = [quorate.early(proxy.add, 1) for _ in range(200)]
        confirmed = [early.confirmed() for early in results]
        assert confirmed == list(range(1, 201))
        assert {early.state for early in results} <= {"stood", "fell", "decided"}
        assert all(
            (early.tentative == true) == (early.state != "fell")
            for early, true in zip(results, confirmed, strict=True)
        )


def test_each_way_to_wait_takes_methods_of_its_own(tmp_path: Path) -> None:
    async def mixed(endpoint: str) -> None:
        async with quorate.aconnect(endpoint, timeout=PATIENCE_S) as proxy:
            with pytest.raises(TypeError, match=r"quorate\.aearly"):
                quorate.early(proxy.add, 1)

    with counter(tmp_path) as nodes:
        asyncio.run(mixed(nodes.at(nodes.leader())))
