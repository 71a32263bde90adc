"""A whole group of real processes, called through proxies; needs the `quorate` program beside this Python."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from subjects import Overdrawn, Wallet

import quorate
from quorate._connect import AsyncProxy
from quorate._proxy import flow_of


@pytest.fixture(scope="module")
def wallet() -> Iterator[Wallet]:
    with quorate.local(Wallet, 100) as proxy:
        yield proxy


def test_methods_look_local(wallet: Wallet) -> None:
    before = wallet.total()
    assert wallet.deposit(10) == before + 10
    assert wallet.deposit(amount=-10) == before


def test_an_exception_keeps_its_class_and_what_changed_before_stays(wallet: Wallet) -> None:
    before = wallet.attempts()
    with pytest.raises(Overdrawn) as caught:
        wallet.withdraw(10**9)
    assert caught.value.missing > 0
    assert wallet.attempts() == before + 1
    with pytest.raises(TypeError):
        wallet.deposit("ten")  # type: ignore[arg-type]


def test_calls_are_pipelined_and_each_is_executed_once(wallet: Wallet) -> None:
    before = wallet.total()
    totals = quorate.gather(*[quorate.submit(wallet.deposit, 1) for _ in range(3000)])
    assert sorted(totals) == list(range(before + 1, before + 3001))


def test_reads_change_nothing_and_say_how_fresh_they_are(wallet: Wallet) -> None:
    total = wallet.deposit(1)
    for level in ("ordered", "confirmed", "broadcast", "lease"):
        assert quorate.reading(wallet, level=level).total() == total
    view = quorate.weak(wallet)
    view.total()
    assert quorate.freshness(view).slot > 0


def test_rich_values_travel_both_ways(wallet: Wallet) -> None:
    value = {"a": (1, {2, 3}), "b": [None, 1.5, b"x", 2**70]}
    assert wallet.echo(value) == value


def test_what_cannot_be_called_or_sent_is_refused_with_a_type(wallet: Wallet) -> None:
    with pytest.raises(quorate.NoSuchMethod):
        wallet._secret()
    with pytest.raises(quorate.UnsupportedValue, match=r"args\[0\]\.?\['x'\]: object is not supported"):
        wallet.echo({"x": object()})


def test_a_result_that_cannot_travel_is_an_exception_and_the_next_call_goes_on(wallet: Wallet) -> None:
    with pytest.raises(quorate.UnsupportedResult, match="at most 8384512") as too_large:
        wallet.tower(9 << 20)
    assert too_large.value.executed is True
    tried = wallet.attempts()
    with pytest.raises(quorate.UnsupportedResult, match="was executed; result: object") as odd:
        wallet.try_oddly()
    assert wallet.attempts() == tried + 1
    assert odd.value.executed is True and not isinstance(odd.value, quorate.NotExecuted)
    assert wallet.tower(10) == "x" * 10


def test_every_replica_draws_the_same_time_and_randomness(wallet: Wallet) -> None:
    drawn = wallet.draw()
    assert wallet.last_drawn() == drawn
    assert wallet.draw() != drawn


def test_asyncio_has_the_same_calls(wallet: Wallet) -> None:
    async def calls() -> list[int]:
        proxy: Any = AsyncProxy(flow_of(wallet))
        totals: list[int] = await quorate.agather(*(proxy.deposit(0) for _ in range(10)))
        return totals

    assert asyncio.run(calls()) == [wallet.total()] * 10


def test_killed_host_processes_come_back_with_the_state(wallet: Wallet) -> None:
    total = wallet.deposit(5)
    for host in host_processes():
        os.kill(host, signal.SIGKILL)
    assert wallet.deposit(1) == total + 1


def test_a_call_that_ends_every_host_is_skipped_and_the_group_serves_on() -> None:
    with quorate.local(Wallet, 100, timeout=60.0) as wallet:
        with pytest.raises(quorate.MethodSkipped):
            wallet.end_the_process()
        assert wallet.deposit(1) == 101


def host_processes() -> list[int]:
    """Host processes that descend from this process."""
    listing = subprocess.run(["ps", "-eo", "pid=,ppid=,args="], capture_output=True, text=True, check=True)
    rows = [line.split(None, 2) for line in listing.stdout.splitlines()]
    family = {os.getpid()}
    for _ in range(4):
        family |= {int(pid) for pid, parent, _ in rows if int(parent) in family}
    hosts = [int(pid) for pid, _, command in rows if int(pid) in family and "quorate._host" in command]
    assert len(hosts) >= 3
    return hosts
