"""A further group of a cluster outlives a machine: its member moves to a node that joined, with the state."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from patience import PATIENCE_S, until

import quorate
from quorate import _program


def say(*words: str) -> subprocess.CompletedProcess[str]:
    """What a command prints, and how it ends."""
    command = [_program.program(), *words, "-o", "json"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def told(*words: str) -> Any:
    """What a command prints that succeeds."""
    done = say(*words)
    assert done.returncode == 0, f"{words}: {done.stderr}"
    return json.loads(done.stdout)


def refused(*words: str) -> tuple[int, str]:
    """Exit code and words of a command that fails."""
    done = say(*words)
    assert done.returncode != 0, f"{words}: {done.stdout}"
    return done.returncode, done.stderr


def answer(way: str) -> Any:
    """What `g2` has, once it has a leader again."""
    get = ["call", "--endpoint", way, "--group", "g2", "kv", "get", "a"]
    until(lambda: say(*get).returncode == 0)
    return told(*get)["result"]


class Cluster:
    """Three nodes of a level at which groups can move, and one that joined."""

    def __init__(self, ready: dict[str, Any], home: Path) -> None:
        self.pids = {node["id"]: node["pid"] for node in ready["nodes"]}
        self.ways = {node["id"]: f"quorate://{node['address']}" for node in ready["nodes"]}
        self.home = home
        self.joined: subprocess.Popen[str] | None = None

    def grow(self) -> int:
        """Let a node join the first group."""
        token = told("node", "invite", "--endpoint", self.ways[1])["token"]
        command = [_program.program(), "node", "join", "--endpoint", self.ways[1], "--token", token]
        command += ["--dir", str(self.home / "joined"), "-o", "json"]
        log = (self.home / "joined.log").open("w")
        with log:
            self.joined = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        assert self.joined.stdout is not None
        joined = json.loads(self.joined.stdout.readline() or "{}")
        assert joined, Path(log.name).read_text()
        self.ways[joined["node"]] = f"quorate://{joined['address']}"
        node: int = joined["node"]
        return node

    def members(self, name: str) -> dict[int, list[str]]:
        """Who belongs to a group, and in which roles."""
        view = told("view", "show", "--endpoint", self.ways[1], "--group", name)
        return {member["node"]: member["roles"] for member in view["members"]}

    def stop(self) -> None:
        """End what was started beside the group."""
        if self.joined is not None and self.joined.poll() is None:
            self.joined.terminate()
            self.joined.wait(timeout=PATIENCE_S)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """Three nodes, and their operator."""
    up = ["--nodes", "3", "--port", "0", "--dir", str(tmp_path / "g"), "--no-restart", "--level", "19"]
    with _program.start_group("rust:counter", up, tmp_path) as ready:
        cluster = Cluster(ready, tmp_path)
        with contextlib.ExitStack() as stack:
            stack.callback(cluster.stop)
            yield cluster


def test_a_further_group_goes_on_with_its_state_when_a_machine_is_gone_for_good(cluster: Cluster) -> None:
    way = cluster.ways[1]
    told("group", "create", "g2", "rust:kv", "--nodes", "1,2,3", "--endpoint", way)
    told("call", "--endpoint", way, "--group", "g2", "kv", "put", "a", "kept")
    new = cluster.grow()
    replace = ["view", "replace", "3", str(new), "--endpoint", way, "--group", "g2"]

    code, words = refused(*replace)
    assert code == 7 and "is at level 21" in words, words
    told("view", "set", "level=21", "--endpoint", way)
    code, words = refused("view", "remove", "3", "--endpoint", way)
    assert code == 7 and "serves the group g2 too" in words, words
    assert "quorate view replace 3 NEW --group g2" in words
    code, words = refused("view", "replace", "3", "9", "--endpoint", way, "--group", "g2")
    assert code == 3 and "nor of the cluster's first group" in words, words
    planned = told(*replace, "--dry-run")
    assert (planned["serves"], planned["acceptors"]) == (new, [1, 2, new])
    assert set(cluster.members("g2")) == {1, 2, 3}

    assert told(*replace)["acceptors"] == [1, 2, new]
    assert cluster.members("g2") == {node: ["replica", "acceptor"] for node in (1, 2, new)}
    told("view", "remove", "3", "--endpoint", way)
    with contextlib.suppress(ProcessLookupError):
        os.kill(cluster.pids[3], signal.SIGKILL)
    listed = told("group", "list", "--endpoint", way)
    assert [group["nodes"] for group in listed] == [[1, 2, new]]

    # Without the one that joined, one of three is left.
    os.kill(cluster.pids[2], signal.SIGKILL)
    for endpoint in (way, cluster.ways[new]):
        assert answer(endpoint) == "kept"
    told("call", "--endpoint", way, "--group", "g2", "kv", "put", "b", "new")


def test_a_node_that_left_a_further_group_comes_back_to_it(cluster: Cluster) -> None:
    way = cluster.ways[1]
    told("group", "create", "g2", "rust:kv", "--nodes", "1,2,3", "--persist", "memory", "--endpoint", way)
    told("view", "set", "level=21", "--endpoint", way)
    for value in ("first", "second"):
        told("call", "--endpoint", way, "--group", "g2", "kv", "put", "a", value)
        told("view", "remove", "3", "--endpoint", way, "--group", "g2", "--force")
        assert set(cluster.members("g2")) == {1, 2}
        told("view", "add", "3", "--endpoint", way, "--group", "g2")
        assert set(cluster.members("g2")) == {1, 2, 3}
    os.kill(cluster.pids[2], signal.SIGKILL)
    assert answer(cluster.ways[3]) == "second"


def test_who_asks_for_a_group_that_there_is_not_is_told_which_ones_there_are(cluster: Cluster) -> None:
    way = cluster.ways[1]
    code, words = refused("status", "--endpoint", way, "--group", "nope")
    assert code == 3 and "there is no group nope: the cluster has no group beside its first one" in words
    told("group", "create", "g2", "rust:kv", "--persist", "memory", "--endpoint", way)
    for command in (["status"], ["view", "show"], ["call", "kv", "get", "a"], ["view", "add", "1"]):
        code, words = refused(*command, "--endpoint", way, "--group", "nope")
        assert code == 3 and "there is no group nope: beside its first one the cluster has g2" in words, words
    with pytest.raises(quorate.NotFound, match="knows no group nope: `quorate group list` shows"):
        quorate.connect(f"{way.replace('//', '//nope@')}/kv", timeout=PATIENCE_S)
    status = [_program.program(), "status", "--endpoint", way, "--group", "g2"]
    assert subprocess.check_output(status, text=True).startswith("group g2, view ")
    code, words = refused("status", "--endpoint", way.replace("//", "//g2@"), "--group", "g3")
    assert code == 2 and "--endpoint names the group g2, and --group g3" in words, words
