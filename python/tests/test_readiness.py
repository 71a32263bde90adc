"""A node whose state is older than its bound, or of unknown age, says so wherever somebody asks."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from subjects import Wallet

import quorate
from quorate import _local

BOUND_MS = 2_000
"""How old a state may be that counts as serving; see `shell/node/src/limits.rs`."""

SECONDS = 60
CALLS = 10


def ask(admin: str, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://{admin}{path}", timeout=SECONDS) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read().decode()


def status(admin: str) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(ask(admin, "/status")[1])
    return told


def group(home: Path, persist: str = "disk") -> Any:
    options = ["--no-restart", "--port", "0", "--dir", str(home), "--persist", persist]
    return _local.start_group("rust:counter", options, home)


def test_a_node_that_is_cut_off_serves_until_its_state_is_older_than_the_bound(tmp_path: Path) -> None:
    with group(tmp_path) as ready:
        left, *others = ready["nodes"]
        assert ask(left["admin"], "/readyz")[0] == 200
        for node in others:
            os.kill(node["pid"], signal.SIGKILL)
        deadline = time.monotonic() + SECONDS
        while (told := status(left["admin"]))["age_ms"] <= BOUND_MS:
            # Ages are told in whole milliseconds: at the bound itself it may be a little older.
            assert told["is_serving"] or told["age_ms"] == BOUND_MS
            assert time.monotonic() < deadline, "its state grows no older"
        assert told["is_serving"] is False
        assert ask(left["admin"], "/readyz") == (
            503,
            "this replica is behind, or is cut off from the leader\n",
        )
        assert ask(left["admin"], "/livez")[0] == 200, "it is not to be restarted for that"


@pytest.mark.parametrize("persist", ["disk", "memory"])
def test_a_node_that_has_heard_no_leader_knows_neither_age_nor_lag(tmp_path: Path, persist: str) -> None:
    with group(tmp_path, persist) as ready:
        admin = ready["nodes"][0]["admin"]
    command = [_local.program(), "node", "run", "--config", str(tmp_path / "node-1.toml")]
    alone = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + SECONDS
        while not (answer := answered(admin)):
            assert time.monotonic() < deadline, "the node never listened"
        assert (answer["is_serving"], answer["lag"], answer["age_ms"]) == (False, None, None)
        code, why = ask(admin, "/readyz")
        assert (code, "does not know how old its state is" in why) == (503, True), why
    finally:
        alone.terminate()
        alone.wait()


def answered(admin: str) -> dict[str, Any] | None:
    try:
        return status(admin)
    except OSError:
        return None


def hosts(node: int) -> list[int]:
    """The processes in which a node's objects are."""
    tasks = Path(f"/proc/{node}/task").glob("*/children")
    return [int(child) for task in tasks for child in task.read_text().split()]


def status_when(admin: str, what: str, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    deadline = time.monotonic() + SECONDS
    while not holds(told := status(admin)):
        assert time.monotonic() < deadline, f"never {what}: {told}"
    return told


def test_a_node_whose_objects_stand_still_says_how_far_it_is_behind_until_it_is_not(tmp_path: Path) -> None:
    words = ["--args", "[100]", "--port", "0", "--dir", str(tmp_path)]
    with (
        _local.start_group("subjects:Wallet", words, Path(__file__).parent) as ready,
        contextlib.ExitStack() as resumed,
    ):
        leads = status_when(ready["nodes"][0]["admin"], "led", lambda told: told["leader"] is not None)
        leader = next(node for node in ready["nodes"] if node["id"] == leads["leader"])
        behind = next(node for node in ready["nodes"] if node is not leader)
        status_when(behind["admin"], "up to date", lambda told: bool(told["is_serving"]))
        for host in hosts(behind["pid"]):
            os.kill(host, signal.SIGSTOP)
            resumed.callback(os.kill, host, signal.SIGCONT)
        with quorate.connect(f"quorate://{leader['address']}/Wallet", Wallet) as wallet:
            for _ in range(CALLS):
                wallet.deposit(1)
        told = status_when(behind["admin"], "behind", lambda told: not told["is_serving"])
        assert told["lag"] >= CALLS
        assert told["age_ms"] >= BOUND_MS
        assert ask(behind["admin"], "/readyz")[0] == 503
        resumed.close()
        told = status_when(behind["admin"], "up to date", lambda told: bool(told["is_serving"]))
        assert told["lag"] < CALLS
        assert ask(behind["admin"], "/readyz")[0] == 200
