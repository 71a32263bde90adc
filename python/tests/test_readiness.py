"""A node whose state is older than its bound, or of unknown age, says so wherever somebody asks."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from quorate import _local

BOUND_MS = 2_000
"""How old a state may be that counts as serving; see `shell/node/src/limits.rs`."""

SECONDS = 60


def ask(admin: str, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://{admin}{path}", timeout=SECONDS) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read().decode()


def status(admin: str) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(ask(admin, "/status")[1])
    return told


def group(home: Path) -> Any:
    return _local.start_group("rust:counter", ["--no-restart", "--port", "0", "--dir", str(home)], home)


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


def test_a_node_that_has_heard_no_leader_knows_neither_age_nor_lag(tmp_path: Path) -> None:
    with group(tmp_path) as ready:
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
