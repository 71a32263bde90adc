"""A group stands still at a call that a lost node has not reported, and an operator has it skipped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from subjects import Wallet

import quorate
from quorate import _local

HERE = Path(__file__).parent

PATIENCE_S = 60


def command(endpoint: str, *words: str) -> subprocess.CompletedProcess[str]:
    line = [_local.program(), *words, "--endpoint", endpoint]
    return subprocess.run(line, check=False, capture_output=True, text=True)


def status(endpoint: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(command(endpoint, "status", "--timeout", "1", "-o", "json").stdout)
    return document


def stands_still(endpoint: str) -> dict[str, Any]:
    """The call at which two hosts are down."""
    until = time.monotonic() + PATIENCE_S
    while True:
        document = status(endpoint)
        calls: list[dict[str, Any]] = [call for call in document["poison"] if call["down"] == [1, 2]]
        if calls:
            return calls[0]
        assert time.monotonic() < until, document


def test_an_operator_skips_a_call_that_a_lost_node_has_not_reported(tmp_path: Path) -> None:
    options = ["--dir", str(tmp_path), "--port", "0"]
    with (
        _local.start_group("subjects:Wallet", options, HERE) as ready,
        quorate.connect(ready["endpoint"], Wallet, timeout=120) as wallet,
    ):
        endpoint = ready["endpoint"].rsplit("/", 1)[0]
        assert wallet.deposit(1) == 1
        lost = ready["nodes"][2]["pid"]
        os.kill(lost, signal.SIGSTOP)
        try:
            ended = quorate.submit(wallet.end_the_process)
            call = stands_still(endpoint)
            assert (call["object"], call["method"], call["unreported"]) == ("Wallet", "end_the_process", [3])
            place = f"{call['slot']}:{call['index']}"
            assert call["command"].startswith(f"quorate object skip {place} --unsafe --endpoint {endpoint}")
            at = f"slot {call['slot']}, index {call['index']}"
            words = f"the call Wallet.end_the_process of {at}, has ended hosts"
            told = command(endpoint, "status", "--timeout", "1").stdout
            assert words in told and "node 3 has not reported" in told and call["command"] in told

            refused = command(endpoint, "object", "skip", place)
            assert refused.returncode == 7, refused
            for part in (
                words,
                "node 1 and node 2",
                "node 3 has not reported",
                "node 3 does not answer",
                "lost",
            ):
                assert part in refused.stderr, refused
            nothing = command(endpoint, "object", "skip", "100000", "--unsafe")
            assert nothing.returncode == 7 and "not decided yet" in nothing.stderr, nothing
            past = command(endpoint, "object", "skip", str(call["slot"] - 1), "--unsafe")
            assert past.returncode == 7 and "nothing has changed" in past.stderr, past
            assert not ended.done()

            done = command(endpoint, "object", "skip", str(call["slot"]), "--unsafe", "-o", "json")
            assert done.returncode == 0, done
            expected = {
                "slot": call["slot"],
                "index": call["index"],
                "unsafe": True,
                "callers_get": "MethodSkipped",
            }
            assert json.loads(done.stdout) == expected
            again = command(endpoint, "object", "skip", place, "--unsafe")
            assert again.returncode == 0 and place in again.stdout, again
            with pytest.raises(quorate.MethodSkipped):
                ended.result(timeout=PATIENCE_S)
            assert wallet.deposit(1) == 2
        finally:
            os.kill(lost, signal.SIGCONT)
        until = time.monotonic() + PATIENCE_S
        while True:
            nodes = status(endpoint)["nodes"]
            if len({node["digest"] for node in nodes}) == 1 and all(node["is_serving"] for node in nodes):
                break
            assert time.monotonic() < until, nodes
        assert wallet.deposit(1) == 3


def hangs(endpoint: str) -> dict[str, Any]:
    """The call that does not return, once a node that is up tells of it."""
    until = time.monotonic() + PATIENCE_S
    while True:
        document = status(endpoint)
        stuck: list[dict[str, Any]] = [node["stuck"] for node in document["nodes"] if node["stuck"]]
        if stuck:
            return stuck[0]
        assert time.monotonic() < until, document


def test_an_operator_skips_a_call_that_nothing_ends(tmp_path: Path) -> None:
    options = ["--dir", str(tmp_path), "--port", "0", "--call-timeout", "never"]
    with (
        _local.start_group("subjects:Wallet", options, HERE) as ready,
        quorate.connect(ready["endpoint"], Wallet, timeout=120) as wallet,
    ):
        endpoint = ready["endpoint"].rsplit("/", 1)[0]
        assert wallet.deposit(1) == 1
        endless = quorate.submit(wallet.hang)
        call = hangs(endpoint)
        place = f"{call['slot']}:{call['index']}"
        assert (call["object"], call["method"]) == ("Wallet", "hang")
        assert f"quorate object skip {place} --unsafe" in call["to_do"]
        refused = command(endpoint, "object", "skip", place)
        assert refused.returncode == 7 and "Wallet.hang" in refused.stderr, refused
        done = command(endpoint, "object", "skip", place, "--unsafe")
        assert done.returncode == 0, done
        with pytest.raises(quorate.MethodSkipped):
            endless.result(timeout=PATIENCE_S)
        assert wallet.deposit(1) == 2
