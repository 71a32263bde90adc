"""Calls that an object makes of itself, and calls that wait for a while: both by agreed time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest
from patience import PATIENCE_S, until
from timed_class import Timed

import quorate
from quorate import LocalGroup

SOON_S = 0.2
LATE_S = 5.0
"""A timer on a machine that does much else at the same time."""


@pytest.fixture(scope="module")
def group() -> Iterator[LocalGroup[Timed]]:
    """Three nodes with logs on disk."""
    group = quorate.local(Timed, persist="disk", timeout=PATIENCE_S)
    with group:
        yield group


@pytest.fixture
def timed(group: LocalGroup[Timed]) -> Timed:
    """As after the start."""
    group.proxy.clear()
    return group.proxy


def test_a_timer_runs_once_when_its_time_has_come_and_the_group_was_idle(timed: Timed) -> None:
    began = timed.later(SOON_S, "tick")
    assert timed.words() == []
    until(lambda: timed.words() == ["tick"])
    ran = timed.times("tick")[0]
    assert SOON_S <= ran - began < SOON_S + LATE_S
    timed.later(0, "then")
    until(lambda: timed.words() == ["tick", "then"])


def test_timers_run_in_the_order_of_their_times_and_cancelled_ones_never(timed: Timed) -> None:
    timed.later(3 * SOON_S, "c")
    timed.later(SOON_S, "no")
    timed.later(2 * SOON_S, "b")
    timed.later(SOON_S, "a")
    assert timed.is_set("no")
    assert timed.stop("no")
    timed.seen.clear()
    until(lambda: "c" in timed.words())
    assert [word for word in timed.words() if word != "asked"] == ["a", "b", "c"]


def test_a_timer_that_repeats_keeps_its_beat_until_it_is_cancelled(timed: Timed) -> None:
    timed.often(0.05, "tick")
    until(lambda: len(timed.words()) >= 5)
    assert timed.stop("tick")
    ran = timed.times("tick")
    for before, after in pairwise(ran):
        assert after - before > 0.01, "missed times count as one"
    count = len(ran)
    timed.later(SOON_S, "end")
    until(lambda: timed.words()[-1:] == ["end"])
    assert len(timed.words()) == count + 1


def test_timers_and_deadlines_survive_kills_restarts_and_snapshots(group: LocalGroup[Timed]) -> None:
    timed = group.proxy
    timed.clear()
    timed.later(2.0, "after all")
    timed.often(0.5, "beat")
    with (
        quorate.connect(group.endpoint, Timed, timeout=PATIENCE_S) as other,
        ThreadPoolExecutor(1) as pool,
    ):
        began = time.monotonic()
        waiting = pool.submit(other.wait_or, 2.0, "nothing came")
        group.snapshot()
        killed = group.leader
        group.kill(killed)
        group.restart(killed)
        killed = group.leader
        group.kill(killed)
        assert waiting.result(PATIENCE_S) == "nothing came"
        assert time.monotonic() - began >= 2.0
        until(lambda: "after all" in timed.words())
        group.restart(killed)
    assert timed.stop("beat")
    assert timed.words().count("after all") == 1
    assert group.compare().is_equal


def test_who_waits_for_a_while_is_told_when_it_is_over_and_gets_nothing_later(
    group: LocalGroup[Timed], timed: Timed
) -> None:
    with quorate.connect(group.endpoint, Timed, timeout=PATIENCE_S) as other:
        with pytest.raises(quorate.ParkTimeout, match=r"nobody answered within 0\.2 s"):
            other.wait(SOON_S)
        assert other.wait_or(0, ["none"]) == ["none"]
        with pytest.raises(KeyError, match="empty"):
            other.wait_or_fail(0.01, "empty")
        assert timed.hand("late") == "nobody waits"
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(other.wait_or, PATIENCE_S, "none")
            until(lambda: timed.hand("in time") == "handed")
            assert waiting.result(PATIENCE_S) == "in time"


def test_a_timer_may_answer_who_waits(group: LocalGroup[Timed], timed: Timed) -> None:
    timed.hand_later(SOON_S, "by a timer")
    with quorate.connect(group.endpoint, Timed, timeout=PATIENCE_S) as other:
        assert other.wait(None) == "by a timer"


def test_a_timer_has_no_caller_and_may_run_what_callers_cannot_name(timed: Timed) -> None:
    timed.do_later(0, "_ask_who")
    until(lambda: timed.words() == ["nobody"])


def test_what_a_timer_raises_stays_in_the_log_and_its_changes_stay(timed: Timed) -> None:
    timed.fail_later(0, "failed")
    timed.later(SOON_S, "next")
    until(lambda: timed.words() == ["failed", "next"])


def test_what_is_no_time_and_no_method_is_refused_and_changes_nothing(timed: Timed) -> None:
    for seconds in (-1, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="must be 0 to"):
            timed.later(seconds, "never")
        with pytest.raises(ValueError, match="must be 0 to"):
            timed.wait(seconds)
    with pytest.raises(TypeError, match="number of seconds, not str"):
        timed.later("1", "never")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="too often"):
        timed.often(0.001, "never")
    with pytest.raises(AttributeError, match="Timed has no method `nothing`"):
        timed.do_later(1, "nothing")
    with pytest.raises(TypeError, match="takes a method of the Timed that is served"):
        timed.of_another()
    with pytest.raises(quorate.UnsupportedValue, match="may take 65536"):
        timed.wait_or(1, "x" * 70_000)
    with pytest.raises(quorate.UnsupportedValue, match="may take 65536"):
        timed.later(1, "x" * 70_000)
    with pytest.raises(TypeError, match="exclude each other"):
        timed.wait_twofold()
    with pytest.raises(TypeError, match="error is an exception, not str"):
        timed.wait_wrongly()
    assert timed.words() == []


def test_one_timer_more_than_may_be_set_is_refused() -> None:
    with quorate.local(Timed, nodes=1, timeout=PATIENCE_S) as timed:
        timed.many(10_000)
        with pytest.raises(quorate.Overloaded, match="10000 timers of this object are set already"):
            timed.many(1)


def test_a_timer_that_ends_every_host_is_skipped_with_the_others_of_its_tick() -> None:
    with quorate.local(Timed, timeout=PATIENCE_S) as timed:
        timed.do_later(SOON_S, "_die")
        timed.later(2 * SOON_S, "after it")
        until(lambda: "after it" in timed.words())
        assert timed.words() == ["after it"]


def test_nothing_runs_outside_of_methods() -> None:
    for use in (
        lambda: quorate.after(1, "note"),
        lambda: quorate.every(1, "note"),
        lambda: quorate.Timer(1).cancel(),
        lambda: quorate.Timer(1).is_set,
    ):
        with pytest.raises(quorate.NotInCall):
            use()
