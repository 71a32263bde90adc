"""Callers who do not wait any more: what others give goes to those who do."""

from __future__ import annotations

import asyncio
import select
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest
from mailbox_class import Mailbox
from patience import PATIENCE_S, until

import quorate
from quorate import LocalGroup

# What a shell starts in the background inherits that the signal is ignored.
INTERRUPTED = """
import signal
import sys
import quorate
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.path.insert(0, sys.argv[2])
from mailbox_class import Mailbox
with quorate.connect(sys.argv[1], Mailbox, timeout=30) as mailbox:
    try:
        mailbox.take()
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture(scope="module")
def group() -> Iterator[LocalGroup[Mailbox]]:
    """Three nodes."""
    group = quorate.local(Mailbox, persist="disk", timeout=PATIENCE_S)
    with group:
        yield group


@pytest.fixture
def mailbox(group: LocalGroup[Mailbox]) -> Mailbox:
    """Another client."""
    return group.proxy


def clear(mailbox: Mailbox) -> None:
    """Forget all who do not wait."""
    mailbox.call_all("cleared")


def test_a_task_that_is_cancelled_gets_nothing_that_another_call_gives(
    group: LocalGroup[Mailbox], mailbox: Mailbox
) -> None:
    clear(mailbox)

    async def leave() -> None:
        async with quorate.aconnect(group.endpoint, Mailbox) as impatient:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.3):
                    await impatient.take()
            task = asyncio.create_task(impatient.take())
            await asyncio.to_thread(until, lambda: mailbox.who_waits() == [False, True])
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await asyncio.to_thread(until, lambda: mailbox.who_waits() == [False, False])
            assert await impatient.put("letter") == "kept"
            assert await impatient.take() == "letter"

    asyncio.run(leave())


def test_a_thousand_tasks_give_up_together_and_the_others_are_served_in_their_order(
    group: LocalGroup[Mailbox], mailbox: Mailbox
) -> None:
    clear(mailbox)

    async def crowd() -> list[str]:
        async with quorate.aconnect(group.endpoint, Mailbox) as many:
            tasks = []
            for number in range(1200):
                if number % 100 == 0:
                    await asyncio.to_thread(until, lambda n=number: mailbox.waiting() == n)  # type: ignore[misc]
                tasks.append(asyncio.create_task(many.take()))
                if number % 100 == 0:
                    await asyncio.to_thread(until, lambda n=number: mailbox.waiting() == n + 1)  # type: ignore[misc]
            await asyncio.to_thread(until, lambda: mailbox.waiting() == 1200)
            left = tasks[::100]
            for task in tasks:
                if task not in left:
                    task.cancel()
            await asyncio.to_thread(until, lambda: sum(mailbox.who_waits()) == len(left))
            for number in range(len(left)):
                assert mailbox.put(f"letter {number}") == "handed"
            return list(await asyncio.gather(*left))

    assert asyncio.run(crowd()) == [f"letter {number}" for number in range(12)]


# The signal comes at any moment of the wait, also while Python runs that nobody hears.
@pytest.mark.parametrize("_time", range(12))
def test_a_call_that_is_interrupted_at_the_keyboard_is_cancelled(
    group: LocalGroup[Mailbox], mailbox: Mailbox, _time: int
) -> None:
    clear(mailbox)
    here = __file__.rpartition("/")[0]
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, group.endpoint, here],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None and process.stdout is not None
    try:
        until(lambda: mailbox.who_waits() == [True])
        process.send_signal(signal.SIGINT)
        told, _, _ = select.select([process.stdout], [], [], PATIENCE_S)
        assert told, "the interrupt is lost"
        assert process.stdout.readline() == "interrupted\n"
        until(lambda: mailbox.who_waits() == [False])
    finally:
        process.communicate("\n", timeout=PATIENCE_S)


def test_who_waits_goes_on_when_the_leader_is_killed_while_others_give_up(
    group: LocalGroup[Mailbox], mailbox: Mailbox
) -> None:
    clear(mailbox)

    async def leave_amid_kills() -> None:
        async with quorate.aconnect(group.endpoint, Mailbox, timeout=PATIENCE_S) as some:
            for round_number in range(3):
                tasks = [asyncio.create_task(some.take()) for _ in range(20)]
                await asyncio.to_thread(until, lambda: sum(mailbox.who_waits()) == 20)
                leader = group.leader
                group.kill(leader)
                for task in tasks[:19]:
                    task.cancel()
                await asyncio.to_thread(group.restart, leader)
                await asyncio.to_thread(until, lambda: sum(mailbox.who_waits()) == 1)
                assert await some.put(round_number) == "handed"
                assert await tasks[19] == round_number

    asyncio.run(leave_amid_kills())
