"""Two replicas and a witness: one replica dies and loses its directory, and no call is lost."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from patience import PATIENCE_S, until

import quorate
from quorate import _program

TILL = '''
class Till:
    """What was paid in."""

    def __init__(self):
        self.paid = []

    def pay(self, amount):
        """Pay, and return how much there is."""
        self.paid.append(amount)
        return sum(self.paid)
'''


class Till:
    """A till as the nodes have it, for the proxy."""

    def __init__(self) -> None:
        self.paid: list[int] = []

    def pay(self, amount: int) -> int:
        """Pay, and return how much there is."""
        self.paid.append(amount)
        return sum(self.paid)


def tell(*words: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    command = [_program.program(), *words, "-o", "json"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def told(*words: str) -> dict[str, Any]:
    """What a command prints."""
    done = tell(*words)
    assert done.returncode == 0, f"{words}: {done.stderr}"
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def begin(log: Path, *words: str) -> subprocess.Popen[str]:
    """Start a node that goes on."""
    environment = {**os.environ, "QUORATE_PYTHON": sys.executable}
    with log.open("w") as said:
        command = [_program.program(), *words, "-o", "json"]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=said, text=True, env=environment)


def children(process: int) -> list[int]:
    """The processes that a process has started."""
    tasks = Path(f"/proc/{process}/task").iterdir()
    return [int(child) for task in tasks for child in (task / "children").read_text().split()]


def node(endpoint: str, number: int) -> dict[str, Any]:
    """What the status says of a node."""
    nodes = told("status", "--endpoint", endpoint)["nodes"]
    found: dict[str, Any] = next(node for node in nodes if node["id"] == number)
    return found


def end(process: subprocess.Popen[str]) -> None:
    """Ask a process to stop, if it has not ended."""
    if process.poll() is None:
        process.terminate()
        process.wait(timeout=PATIENCE_S)


@pytest.fixture
def group(tmp_path: Path) -> Iterator[dict[str, Any]]:
    """A group of two, whose nodes stay down when they die."""
    (tmp_path / "till.py").write_text(TILL)
    options = ["--nodes", "2", "--persist", "disk", "--port", "0", "--no-restart", "--level", "19"]
    options += ["--dir", str(tmp_path / "group")]
    with _program.start_group("till:Till", options, tmp_path) as ready:
        yield ready


def join(group: dict[str, Any], tmp_path: Path) -> tuple[subprocess.Popen[str], dict[str, Any]]:
    """Let a witness join."""
    endpoint = group["endpoint"].rpartition("/")[0]
    token = told("node", "invite", "--endpoint", endpoint)["token"]
    words = ["node", "join", "--endpoint", endpoint, "--token", token, "--dir", str(tmp_path / "witness")]
    refused = tell(*words, "--roles", "acceptor")
    assert refused.returncode == 7 and "quorate view set level=22" in refused.stderr, refused.stderr
    assert tell(*words, "--roles", "names").returncode == 2
    told("view", "set", "level=22", "--endpoint", endpoint)
    log = tmp_path / "witness.log"
    process = begin(log, *words, "--roles", "acceptor")
    assert process.stdout is not None
    joined = json.loads(process.stdout.readline() or "{}")
    assert joined, log.read_text()
    return process, joined


def test_a_replica_comes_back_whole_from_a_witness_and_calls_go_on_meanwhile(
    group: dict[str, Any], tmp_path: Path
) -> None:
    witness, joined = join(group, tmp_path)
    again: subprocess.Popen[str] | None = None
    way = f"quorate://{joined['address']}"
    try:
        members = told("view", "show", "--endpoint", way)["members"]
        assert [member["roles"] for member in members][2] == ["acceptor"]
        assert "witness" in node(way, joined["node"])["roles"]
        with quorate.connect(f"{way}/Till", Till, timeout=PATIENCE_S) as till:
            assert till.pay(5) == 5
            told("snapshot", "--endpoint", way)
            until(lambda: node(way, 3)["snapshot"] == node(way, 1)["snapshot"] > 0)
            lost = node(way, 1)
            os.kill(lost["pid"], signal.SIGKILL)
            assert [till.pay(amount) for amount in (7, 11)] == [12, 23]
            directory = tmp_path / "group" / "node-1"
            shutil.rmtree(directory)
            config = str(tmp_path / "group" / "node-1.toml")
            again = begin(tmp_path / "again.log", "node", "run", "--remake", "--config", config)
            until(lambda: node(way, 1)["up"] and "acceptor" in node(way, 1)["roles"])
            assert till.pay(13) == 36
            until(lambda: node(way, 1)["digest"] == node(way, 2)["digest"])
            # The other replica dies: the one that came back leads, with the witness's vote.
            os.kill(node(way, 2)["pid"], signal.SIGKILL)
            assert till.pay(17) == 53
        node_process = node(way, 3)["pid"]
        assert children(node_process) == [], "a witness has no host"
        assert children(node(way, 1)["pid"]) != [], "a replica has one"
        assert witness.poll() is None
    finally:
        for process in (again, witness):
            if process is not None:
                end(process)


def test_a_witness_with_the_number_of_a_replica_that_left_serves_no_group_of_that_one(
    group: dict[str, Any], tmp_path: Path
) -> None:
    way = f"quorate://{group['nodes'][0]['address']}"
    gone = group["nodes"][1]
    told("view", "set", "level=22", "--endpoint", way)
    told("group", "create", "g2", "rust:counter", "--nodes", "1,2", "--endpoint", way)
    told("view", "remove", "2", "--force", "--endpoint", way)
    os.kill(gone["pid"], signal.SIGKILL)
    token = told("node", "invite", "--endpoint", way)["token"]
    words = ["node", "join", "--endpoint", way, "--token", token, "--dir", str(tmp_path / "witness")]
    words += ["--node", "2", "--listen", gone["address"], "--roles", "acceptor"]
    witness = begin(tmp_path / "witness.log", *words)
    try:
        assert witness.stdout is not None
        assert json.loads(witness.stdout.readline() or "{}")["node"] == 2
        until(lambda: node(way, 2)["executed"] == node(way, 1)["executed"])
        assert "witness" in node(way, 2)["roles"]
        listed = tell("group", "list", "--endpoint", way)
        states = {state["node"]: state["state"] for state in json.loads(listed.stdout)[0]["states"]}
        assert (states[1], states.get(2)) == ("running", None)
        assert not (tmp_path / "witness" / "groups").exists()
    finally:
        end(witness)
