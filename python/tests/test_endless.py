"""Calls and reads that never return: named everywhere, and ended."""

from __future__ import annotations

import json
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from subjects import Wallet

import quorate
from quorate import _local

HERE = Path(__file__).parent


def readyz(node: dict[str, Any]) -> str:
    try:
        with urllib.request.urlopen(f"http://{node['admin']}/readyz", timeout=10) as answer:
            text: bytes = answer.read()
    except urllib.error.HTTPError as refused:
        text = refused.read()
    return text.decode()


def status(endpoint: str, *options: str) -> str:
    command = [_local.program(), "status", "--endpoint", endpoint, *options]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_an_endless_call_is_named_everywhere_and_skipped(tmp_path: Path) -> None:
    options = ["--dir", str(tmp_path), "--port", "0", "--call-timeout", "2"]
    with (
        _local.start_group("subjects:Wallet", options, HERE) as ready,
        quorate.connect(ready["endpoint"], Wallet, timeout=60) as wallet,
    ):
        assert ready["settings"]["call_timeout"] == 2
        wallet.deposit(1)
        skipped = quorate.submit(wallet.hang)
        words = "the call Wallet.hang of slot"
        # The answers come from nodes that are up, so each question waits until the call is noticed or over.
        while words not in (told := readyz(ready["nodes"][0])):
            assert not skipped.done(), "it was over before it was told"
        assert "--call-timeout, 2s" in told
        # Its host is started anew meanwhile, and the call is still the one that holds it up.
        document = json.loads(status(ready["endpoint"], "-o", "json"))
        stuck = [node["stuck"] for node in document["nodes"] if node["stuck"]]
        assert stuck and stuck[0]["object"] == "Wallet" and stuck[0]["method"] == "hang"
        assert words in status(ready["endpoint"])
        words = "the call of `hang`: .* ran into --call-timeout; it has changed nothing, .* name its slot"
        with pytest.raises(quorate.MethodSkipped, match=words):
            skipped.result(timeout=60)
        assert wallet.deposit(1) == 2
        # The host of this node may take a moment longer than those that answered.
        until = time.monotonic() + 30
        while not (told := readyz(ready["nodes"][0])).startswith("ok"):
            assert time.monotonic() < until, told
    log = (tmp_path / "node-1.log").read_text()
    line = next(line for line in log.splitlines() if "a call keeps the objects from going on" in line)
    assert "Wallet" in line and "hang" in line and "since_ms" in line and "--call-timeout" in line


def test_an_endless_call_of_a_created_object_is_named_also_after_a_start_from_a_snapshot(
    tmp_path: Path,
) -> None:
    options = ["--dir", str(tmp_path), "--port", "0", "--call-timeout", "2", "--nodes", "1"]
    for is_new in (True, False):
        with (
            _local.start_group("subjects:Wallet", options, HERE) as ready,
            quorate.group(ready["endpoint"], timeout=60) as group,
        ):
            wallet = group.create(Wallet, "hall/wallet") if is_new else group.get("hall/wallet", Wallet)
            skipped = quorate.submit(wallet.hang)
            while "the call hall/wallet.hang of slot" not in status(ready["endpoint"]):
                assert not skipped.done(), "it was over before it was told"
            with pytest.raises(quorate.MethodSkipped):
                skipped.result(timeout=60)
            command = [_local.program(), "snapshot", "--endpoint", ready["endpoint"]]
            subprocess.run(command, check=True, capture_output=True)


def test_an_endless_read_is_answered_and_its_host_goes_on(tmp_path: Path) -> None:
    options = ["--dir", str(tmp_path), "--port", "0", "--call-timeout", "2"]
    with (
        _local.start_group("subjects:Wallet", options, HERE) as ready,
        quorate.connect(ready["endpoint"], Wallet, timeout=60) as wallet,
    ):
        wallet.deposit(1)
        with pytest.raises(quorate.ReadEnded, match="`hang_reading` ran longer than 2s"):
            wallet.hang_reading()
        assert wallet.deposit(1) == 2
        assert wallet.total() == 2
