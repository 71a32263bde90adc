"""A group of the real core in this process: calls, faults, clocks, and what differs between its instances."""

from __future__ import annotations

import os
import random
import time
import uuid
from collections.abc import Iterator
from typing import Any

import odd_targets
import pytest
from subjects import Overdrawn, Wallet

import quorate
import quorate.testing
from quorate import _native


class Clocked:
    """Draws and reads all that is agreed."""

    def __init__(self) -> None:
        self.drawn: list[Any] = []

    def draw(self) -> list[Any]:
        self.drawn.append((random.random(), uuid.uuid4().hex, os.urandom(4), random.Random().random()))
        self.drawn.append((time.time(), time.monotonic_ns(), time.localtime()[:6], uuid.uuid1().hex))
        return self.drawn[-2:]

    def now(self) -> float:
        return time.time()

    def sleep(self) -> None:
        time.sleep(1)


class Addressed:
    """Returns what differs between instances."""

    def __init__(self) -> None:
        self.kept: list[object] = []

    def keep(self) -> int:
        self.kept.append([])
        return id(self.kept[-1])


class Grumpy:
    def __init__(self, reason: str) -> None:
        raise ValueError(reason)


class Reader:
    def __init__(self) -> None:
        self.seen = 0

    @quorate.readonly
    def look(self) -> int:
        self.seen += 1
        return self.seen

    def value(self) -> int:
        return self.seen


@pytest.fixture
def group() -> Iterator[quorate.testing.RehearsedGroup[Wallet]]:
    made = quorate.testing.local(Wallet, 100, snapshot_every=5)
    with made:
        yield made


def test_calls_and_reads_look_like_those_of_any_proxy(group: quorate.testing.RehearsedGroup[Wallet]) -> None:
    wallet = group.proxy
    assert wallet.deposit(10) == 110
    assert wallet.total() == 110
    assert quorate.gather(*[quorate.submit(wallet.deposit, 1) for _ in range(20)])[-1] == 130
    assert quorate.reading(wallet, level="any").total() == 130
    assert quorate.freshness(view := quorate.weak(wallet)).slot == 0
    assert view.total() == 130 and quorate.freshness(view).slot > 0
    assert wallet.echo({"a": (1, {2})}) == {"a": (1, {2})}
    with pytest.raises(Overdrawn) as caught:
        wallet.withdraw(10**9)
    assert caught.value.missing == 10**9 - 130
    with pytest.raises(quorate.NoSuchMethod):
        wallet._secret()
    with pytest.raises(quorate.UnsupportedValue, match="object is not supported"):
        wallet.echo(object())
    with pytest.raises(quorate.NotReadOnly):
        quorate.reading(wallet).deposit(1)
    assert group.instance(1).amount == 130


def test_nodes_die_come_back_and_are_cut_off(group: quorate.testing.RehearsedGroup[Wallet]) -> None:
    wallet, count = group.proxy, 100
    for round_ in range(8):
        victim = group.leader
        if round_ % 2:
            group.kill(victim)
            assert group.stopped == (victim,)
        else:
            group.cut(victim, from_clients=round_ % 4 == 0)
        for _ in range(7):
            count += 1
            assert wallet.deposit(1) == count == wallet.total()
        if round_ % 2:
            group.restart(victim)
        else:
            group.heal()
        compared = group.compare()
        assert compared.is_equal and None not in compared.digests.values()
    assert group.snapshot() == min(group.status(node)["snapshot"] for node in group.nodes)


def test_a_majority_must_be_there(group: quorate.testing.RehearsedGroup[Wallet]) -> None:
    group.kill(1)
    group.kill(2)
    with pytest.raises((quorate.OutcomeUnknown, quorate.Unavailable)):
        group.proxy.deposit(1)
    group.restart(1)
    before = group.proxy.total()
    assert before in (100, 101)
    assert group.proxy.deposit(1) == before + 1


def test_time_and_chance_are_agreed_in_calls_and_the_machines_outside() -> None:
    real = (time.time, random.random, os.urandom, uuid.uuid1, random._inst)
    state = random.getstate()
    group = quorate.testing.local(Clocked)
    with group as clocked:
        began = time.time()
        drawn = clocked.draw()
        assert drawn != clocked.draw()
        assert abs(clocked.now() - began) < 60
        assert abs(time.time() - began) < 60, "the machine's clock is back"
        group.step_clock(3600.0)
        assert clocked.now() > began + 3590
        group.step_clock(-3600.0)
        later = clocked.now()
        assert later > began + 3590, "agreed time never goes back"
        with pytest.raises(RuntimeError, match="objects cannot sleep"):
            clocked.sleep()
        assert group.compare().is_equal
    assert real == (time.time, random.random, os.urandom, uuid.uuid1, random._inst)
    assert state == random.getstate()


def test_steps_of_a_clock_add_up() -> None:
    group = quorate.testing.local(Clocked)
    with group as clocked:
        began = clocked.now()
        for _ in range(3):
            group.step_clock(3600.0)
        assert 3 * 3600 - 60 < clocked.now() - began < 3 * 3600 + 60


def test_a_seed_determines_a_group() -> None:
    def run(seed: int) -> list[Any]:
        group = quorate.testing.local(Wallet, seed=seed)
        with group as wallet:
            for _ in range(5):
                wallet.deposit(1)
            return [group.leader, [group.status(node)["executed"] for node in group.nodes], wallet.draw()[1]]

    assert run(1) == run(1)
    assert run(1) != run(2)


def test_an_outcome_that_differs_between_nodes_fails_the_call() -> None:
    with (
        quorate.testing.local(Addressed) as addressed,
        pytest.raises(quorate.testing.ReplicasDiffer, match=r"`keep` returned \d+ on node \d, and returned"),
    ):
        addressed.keep()


def test_a_read_that_writes_is_named_and_undone() -> None:
    with quorate.testing.local(Reader) as reader:
        with pytest.raises(
            quorate.NotReadOnly, match="`look` of Reader is held for read-only and changes `seen`"
        ):
            reader.look()
        assert reader.value() == 0


def test_a_class_may_be_given_with_type_arguments() -> None:
    with quorate.testing.local(odd_targets.Numbers) as numbers:
        assert [numbers.put(1), numbers.put(2)] == [1, 2]


def test_what_cannot_be_is_refused_with_the_reason(group: quorate.testing.RehearsedGroup[Wallet]) -> None:
    with pytest.raises(ValueError, match="there is no node 4"):
        group.kill(4)
    with pytest.raises(TypeError, match="a node is a number"):
        group.cut("1")  # type: ignore[arg-type]
    with pytest.raises(quorate.QuorateError, match="node 1 runs"):
        group.restart(1)
    group.kill(1)
    with pytest.raises(quorate.QuorateError, match="does not run"):
        group.kill(1)
    with pytest.raises(quorate.QuorateError, match="does not run"):
        group.instance(1)
    with pytest.raises(quorate.QuorateError, match="runs already"):
        group.start()
    for error, options in [
        (ValueError, {"nodes": 0}),
        (TypeError, {"nodes": 1.5}),
        (ValueError, {"seed": -1}),
        (ValueError, {"snapshot_every": 0}),
    ]:
        with pytest.raises(error):
            quorate.testing.local(Wallet, **options)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="for a reason"):
        quorate.testing.local(Grumpy, "for a reason").start()
    with pytest.raises(quorate.QuorateError, match="does not run"):
        assert quorate.testing.local(Wallet).proxy


def test_the_native_half_refuses_numbers_that_no_group_has() -> None:
    for numbers in [(0, 1), (10, 1), (3, 0), (3, 65)]:
        with pytest.raises(ValueError, match="a group has"):
            _native.Rehearsal(None, *numbers, 0, 1, 0, 0)
