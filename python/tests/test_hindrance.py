"""The error of a call without an answer says what holds the group up."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from subjects import Wallet, Wild

import quorate
from quorate import _errors, _hindrance

NO_MAJORITY = (
    r"no majority of 3 nodes answers, for node \d \(.*\) and node \d \(.*\) do not: start them again"
)


def one(group: quorate.LocalGroup[Wallet]) -> None:
    group.proxy.deposit(1)


def of_a_future(group: quorate.LocalGroup[Wallet]) -> None:
    quorate.submit(group.proxy.deposit, 1).result()


def gathered(group: quorate.LocalGroup[Wallet]) -> None:
    quorate.gather(*[quorate.submit(group.proxy.deposit, 1) for _ in range(20)])


WAYS: list[Callable[[quorate.LocalGroup[Wallet]], None]] = [one, of_a_future, gathered]


def test_nodes_that_are_down_are_named_however_one_waits() -> None:
    group = quorate.local(Wallet, persist="disk", timeout=3)
    with group as wallet:
        assert wallet.deposit(1) == 1
        asyncio.run(in_a_loop(group))
        for way in WAYS:
            with pytest.raises(quorate.QuorateError, match=NO_MAJORITY) as told:
                way(group)
            assert str(told.value).count("no majority") == 1


async def in_a_loop(group: quorate.LocalGroup[Wallet]) -> None:
    async with quorate.aconnect(group.endpoint, Wallet, timeout=2) as wallet:
        assert await wallet.deposit(1) == 2
        leader = group.leader
        for node in [each for each in group.nodes if each != leader]:
            group.kill(node)
        calls = [asyncio.ensure_future(wallet.deposit(1)) for _ in range(50)]
        begun = time.monotonic()
        told: list[Any] = await asyncio.gather(*calls, return_exceptions=True)
        assert time.monotonic() - begun < 20
        assert all("no majority of 3 nodes answers" in str(error) for error in told), told


def test_an_error_is_given_at_once_where_no_thread_can_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = ThreadPoolExecutor(1)
    ended.shutdown()
    monkeypatch.setattr(_hindrance._askers, "_pool", ended)
    error = _errors.of_call("outcome_unknown", "deadline_passed", "late")
    nobody: Any = None

    async def later() -> bool:
        future = asyncio.get_running_loop().create_future()
        return _hindrance.explain_later(future, error, nobody, 1.0)

    assert asyncio.run(later()) is False


def test_frozen_objects_are_said_to_be_frozen() -> None:
    group = quorate.local(Wild, timeout=3)
    with group as wild:
        wild.differ()
        with contextlib.suppress(quorate.Unavailable):
            group.snapshot()
        until = time.monotonic() + 30
        with pytest.raises(quorate.QuorateError, match=r"frozen at slot \d+.* an operator must choose"):
            while time.monotonic() < until:
                wild.add()
