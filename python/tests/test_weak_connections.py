"""A weak connection takes one node that is up; every other one takes a majority."""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from subjects import Wallet

import quorate
from quorate import _local


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A group of which two nodes of three stand still from here on."""
    home = tmp_path_factory.mktemp("weak")
    options = ["--port", "0", "--persist", "memory", "--dir", str(home / "data"), "--args", "[7]"]
    tests = Path(__file__).parent
    with _local.start_group("subjects:Wallet", options, tests) as ready:
        with quorate.connect(ready["endpoint"], Wallet) as wallet:
            assert wallet.deposit(5) == 12
            names = ready["nodes"]
            until = time.monotonic() + 30.0
            while any(weak_total(f"quorate://{node['address']}/Wallet") != 12 for node in names):
                assert time.monotonic() < until, "a node does not catch up"
        pids = [int(node["pid"]) for node in names[1:]]
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield ready["endpoint"]
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGCONT)


def weak_total(endpoint: str) -> int:
    with quorate.connect(endpoint, Wallet, weak=True) as wallet:
        return wallet.total()


def test_one_node_answers_reads_of_a_weak_connection(endpoint: str) -> None:
    with quorate.connect(endpoint, Wallet, weak=True) as wallet:
        assert wallet.total() == 12
        assert quorate.freshness(wallet).slot > 0


def test_a_copy_of_a_weak_proxy_in_another_process_is_weak(endpoint: str) -> None:
    with quorate.connect(endpoint, Wallet, weak=True) as wallet:
        copy: Wallet = pickle.loads(pickle.dumps(wallet))
        assert copy.total() == 12


def test_one_node_answers_in_an_event_loop_too(endpoint: str) -> None:
    async def total() -> Any:
        async with quorate.aconnect(endpoint, Wallet, weak=True) as wallet:
            return await wallet.total()

    assert asyncio.run(total()) == 12


def test_calls_and_other_reads_of_a_weak_connection_wait_for_a_majority(endpoint: str) -> None:
    with quorate.connect(endpoint, Wallet, weak=True) as wallet:
        with pytest.raises(quorate.Unavailable):
            quorate.options(quorate.reading(wallet, level="confirmed"), timeout=0.5).total()
        with pytest.raises(quorate.NotReadOnly):
            wallet.deposit(1)


def test_without_weak_a_connection_needs_a_majority(endpoint: str) -> None:
    with pytest.raises(quorate.Unavailable):
        quorate.connect(endpoint, Wallet, timeout=0.5)


def test_where_no_node_answers_a_weak_connection_ends_in_time() -> None:
    with pytest.raises(quorate.Unavailable):
        quorate.connect("quorate://127.0.0.1:9/Wallet", Wallet, timeout=0.3, weak=True)


def test_weak_is_true_or_false() -> None:
    with pytest.raises(TypeError, match="weak must be True or False, not str"):
        quorate.connect("quorate://127.0.0.1:9/Wallet", weak="yes")  # type: ignore[call-overload]
