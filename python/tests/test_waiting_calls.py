"""Calls that return later: parked by one call, answered by another."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
from mailbox_class import Mailbox
from patience import PATIENCE_S, until

import quorate
from quorate import LocalGroup


@pytest.fixture(scope="module")
def group() -> Iterator[LocalGroup[Mailbox]]:
    """Three nodes with logs on disk."""
    group = quorate.local(Mailbox, persist="disk", timeout=PATIENCE_S)
    with group:
        yield group


@pytest.fixture
def readers(group: LocalGroup[Mailbox], pool: ThreadPoolExecutor) -> Iterator[Mailbox]:
    """Whose calls wait; closed before the threads that call are waited for."""
    with quorate.connect(group.endpoint, Mailbox, timeout=PATIENCE_S) as mailbox:
        yield mailbox


@pytest.fixture
def writer(group: LocalGroup[Mailbox]) -> Mailbox:
    """Whose calls answer them."""
    return group.proxy


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    """Threads that wait."""
    with ThreadPoolExecutor(16) as pool:
        yield pool


def begin(pool: ThreadPoolExecutor, readers: Mailbox, writer: Mailbox, count: int = 1) -> list[Future[Any]]:
    """Let so many calls wait, one after the other."""
    waiting = []
    before = writer.waiting()
    for number in range(1, count + 1):
        waiting.append(pool.submit(readers.take))
        until(lambda number=number: writer.waiting() == before + number)  # type: ignore[misc]
    return waiting


def results(waiting: list[Future[Any]]) -> list[Any]:
    """What the calls returned."""
    return [each.result(PATIENCE_S) for each in waiting]


def test_a_parked_call_is_answered_by_a_later_one_first_come_first_served(
    readers: Mailbox, writer: Mailbox, pool: ThreadPoolExecutor
) -> None:
    waiting = begin(pool, readers, writer, 5)
    assert [writer.put(letter) for letter in "abcdef"] == ["handed"] * 5 + ["kept"]
    assert results(waiting) == list("abcde")
    assert readers.take() == "f", "what was there is taken at once"


def test_any_number_of_callers_are_woken_by_one_command(
    readers: Mailbox, writer: Mailbox, pool: ThreadPoolExecutor
) -> None:
    waiting = begin(pool, readers, writer, 10)
    assert writer.call_all({"for": ["all"]}) == 10
    assert results(waiting) == [{"for": ["all"]}] * 10


def test_one_command_answers_with_more_than_fits_into_a_frame_of_the_host(
    group: LocalGroup[Mailbox], readers: Mailbox, writer: Mailbox, pool: ThreadPoolExecutor
) -> None:
    with quorate.connect(group.endpoint, Mailbox, timeout=PATIENCE_S) as others:
        waiting = begin(pool, readers, writer, 2) + begin(pool, others, writer, 2)
        assert writer.call_all("x" * 5_000_000) == 4
        assert [len(letter) for letter in results(waiting)] == [5_000_000] * 4


def test_what_one_command_answers_is_bounded_and_who_gets_none_goes_on_waiting(
    group: LocalGroup[Mailbox], writer: Mailbox
) -> None:
    connection = quorate.connect(group.endpoint, Mailbox, timeout=PATIENCE_S)
    with ThreadPoolExecutor(20) as pool, connection as readers:
        waiting = begin(pool, readers, writer, 20)
        with pytest.raises(quorate.UnsupportedResult, match="answer the others in another call"):
            writer.call_each("x" * 8_000_000)
        assert writer.who_waits() == [True] * 4
        assert writer.call_all("x") == 4
        assert results(waiting[16:]) == ["x"] * 4


def test_a_read_is_told_who_waits(readers: Mailbox, writer: Mailbox, pool: ThreadPoolExecutor) -> None:
    waiting = begin(pool, readers, writer, 2)
    assert writer.who_waits() == [True, True]
    assert writer.call_all("done") == 2
    assert results(waiting) == ["done"] * 2


def test_calls_of_a_connection_go_on_while_others_of_it_wait(
    readers: Mailbox, writer: Mailbox, pool: ThreadPoolExecutor
) -> None:
    waiting = begin(pool, readers, writer)
    assert [readers.waiting() for _ in range(100)] == [1] * 100
    tokens = [readers.token() for _ in range(100)]
    assert tokens == sorted(set(tokens)), "a token grows from call to call"
    writer.put("at last")
    assert results(waiting) == ["at last"]


def test_a_caller_gets_the_exception_that_another_call_gives_it(
    readers: Mailbox, writer: Mailbox, pool: ThreadPoolExecutor
) -> None:
    waiting = begin(pool, readers, writer, 2)
    assert writer.refuse_all("closed") == 2
    for each in waiting:
        with pytest.raises(KeyError, match="closed"):
            each.result(PATIENCE_S)


def test_a_wake_of_a_caller_that_is_gone_is_refused_and_wakes_nobody(
    readers: Mailbox, writer: Mailbox, pool: ThreadPoolExecutor
) -> None:
    waiting = begin(pool, readers, writer)
    with pytest.raises(quorate.CallerGone, match="is not parked"):
        writer.wake_twice("once")
    assert results(waiting) == ["once"]


def test_what_raised_after_a_wake_has_woken_all_the_same(
    readers: Mailbox, writer: Mailbox, pool: ThreadPoolExecutor
) -> None:
    waiting = begin(pool, readers, writer)
    with pytest.raises(ValueError, match="after the wake"):
        writer.wake_and_raise("woken")
    assert results(waiting) == ["woken"]


def test_an_answer_that_cannot_be_sent_is_refused_where_it_is_given(
    readers: Mailbox, writer: Mailbox, pool: ThreadPoolExecutor
) -> None:
    waiting = begin(pool, readers, writer)
    with pytest.raises(quorate.UnsupportedValue):
        writer.wake_with_what_does_not_travel()
    with pytest.raises(TypeError, match="use wake for values"):
        writer.fail_with_no_exception()
    assert writer.put("right") == "handed"
    assert results(waiting) == ["right"]


def test_a_method_that_loses_its_park_says_so(readers: Mailbox, writer: Mailbox) -> None:
    with pytest.raises(quorate.ParkLost, match=r"return quorate.park\(\)"):
        readers.lose_park()
    assert writer.left() == ["left"]
    assert writer.take() == "left"


def test_a_caller_stays_in_its_group(readers: Mailbox) -> None:
    with pytest.raises(quorate.UnsupportedResult):
        readers.who()


def test_where_nobody_calls_there_is_no_caller(readers: Mailbox) -> None:
    with pytest.raises(quorate.NotInCall):
        readers.read_token()
    with pytest.raises(quorate.NotInCall):
        quorate.park()


def test_no_client_can_say_that_a_session_is_over(readers: Mailbox, writer: Mailbox) -> None:
    before = writer.sessions_ended()
    with pytest.raises(quorate.NoSuchMethod):
        readers.on_session_end(1)
    assert writer.sessions_ended() == before


def test_who_leaves_is_forgotten_and_the_next_one_is_served(
    group: LocalGroup[Mailbox], readers: Mailbox, writer: Mailbox, pool: ThreadPoolExecutor
) -> None:
    before = writer.sessions_ended()
    leaving = quorate.connect(group.endpoint, Mailbox, timeout=PATIENCE_S)
    with leaving as mailbox:
        left = begin(pool, mailbox, writer)
        stays = begin(pool, readers, writer)
    until(lambda: writer.sessions_ended() == before + 1)
    assert writer.waiting() == 1
    assert writer.put("for who is left") == "handed"
    assert results(stays) == ["for who is left"]
    with pytest.raises(quorate.OutcomeUnknown):
        left[0].result(PATIENCE_S)


def test_an_asyncio_task_waits_without_holding_others_up(group: LocalGroup[Mailbox], writer: Mailbox) -> None:
    async def scene() -> list[Any]:
        async with quorate.aconnect(group.endpoint, Mailbox, timeout=PATIENCE_S) as mailbox:
            tasks = [asyncio.ensure_future(mailbox.take()) for _ in range(20)]
            while await mailbox.waiting() < 20:
                pass
            assert await mailbox.call_all("task") == 20
            return await asyncio.gather(*tasks)

    assert asyncio.run(scene()) == ["task"] * 20


def test_a_parked_call_survives_snapshots_kills_and_restarts_and_is_answered_once(
    group: LocalGroup[Mailbox], readers: Mailbox, writer: Mailbox, pool: ThreadPoolExecutor
) -> None:
    waiting = begin(pool, readers, writer, 3)
    group.snapshot()
    for _ in range(3):
        victim = group.leader
        group.kill(victim)
        assert writer.waiting() == 3
        group.restart(victim)
    assert [writer.put(letter) for letter in "xyz"] == ["handed"] * 3
    assert results(waiting) == list("xyz")
    assert writer.left() == []
    assert group.compare().is_equal
