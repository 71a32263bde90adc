"""As many calls as a group lets wait: the next one is refused, and all others go on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from crowd_class import Door

import quorate
from quorate import _local
from quorate.objects import Lock

PARKED_MAX = 10_000
PATIENCE_S = 120.0


class Crowd:
    """Calls that wait, over several clients."""

    def __init__(self, begin: Callable[[Any], Any]) -> None:
        self.begin = begin
        self.waiting: set[asyncio.Task[Any]] = set()

    async def _one(self, client: Any) -> Any:
        return await self.begin(client)

    async def fill(self, clients: Iterable[Any]) -> None:
        """Have as many wait as may. One more shows that they do: it is refused when all others wait."""
        clients = list(clients)
        for number in range(PARKED_MAX + 1):
            self.join(clients[number % len(clients)])
        await self.is_full()

    async def is_full(self) -> None:
        """One of them is refused, as one too many."""
        refused = await self.next_end()
        with pytest.raises(quorate.Overloaded, match=r"10000 calls of this group wait already") as caught:
            refused.result()
        assert not caught.value.executed
        assert len(self.waiting) == PARKED_MAX

    async def next_end(self) -> asyncio.Task[Any]:
        """The only call of them that has ended."""
        ended, self.waiting = await asyncio.wait(
            self.waiting, timeout=PATIENCE_S, return_when=asyncio.FIRST_COMPLETED
        )
        [one] = ended
        return one

    def join(self, client: Any) -> None:
        """One more call of a client."""
        self.waiting.add(asyncio.create_task(self._one(client)))

    async def leave(self) -> None:
        """Nobody waits any more: the connections were closed."""
        await asyncio.gather(*self.waiting, return_exceptions=True)


async def _connect(stack: AsyncExitStack, endpoint: str, cls: type, count: int) -> list[Any]:
    return [
        await stack.enter_async_context(quorate.aconnect(endpoint, cls, timeout=PATIENCE_S))
        for _ in range(count)
    ]


@pytest.mark.parametrize("clients", [1, 4])
def test_a_lock_refuses_who_comes_after_ten_thousand_waiters_and_takes_one_for_each_that_it_serves(
    tmp_path: Path, clients: int
) -> None:
    async def crowd(endpoint: str) -> None:
        crowd = Crowd(lambda lock: lock.acquire())
        async with AsyncExitStack() as stack:
            stack.push_async_callback(crowd.leave)
            locks = await _connect(stack, endpoint, Lock, clients)
            token = await locks[0].acquire()
            await crowd.fill(locks)
            assert await locks[0].token() == token, "other calls of these connections are served"
            assert await locks[-1].acquire(False) == 0
            await locks[0].release()
            assert (await crowd.next_end()).result() > token
            crowd.join(locks[-1])
            crowd.join(locks[-1])
            await crowd.is_full()

    with _local.start_group("rust:lock", ["--port", "0", "--persist", "memory"], tmp_path) as ready:
        asyncio.run(crowd(ready["endpoint"]))


def test_what_waits_until_something_holds_leaves_no_trace_where_too_many_calls_wait() -> None:
    group = quorate.local(Door, timeout=PATIENCE_S)

    async def crowd() -> None:
        crowd = Crowd(lambda door: door.line_up())
        async with AsyncExitStack() as stack:
            stack.push_async_callback(crowd.leave)
            doors = await _connect(stack, group.endpoint, Door, 4)
            await crowd.fill(doors)
            with pytest.raises(quorate.Overloaded, match="10000 calls of this group wait already"):
                await doors[0].enter()
            assert await doors[0].state() == (0, 0), "who was refused has changed nothing"
            await doors[-1].call_first()
            assert (await crowd.next_end()).result() == "called"
            crowd.begin = lambda door: door.enter()
            crowd.join(doors[-1])
            crowd.join(doors[-1])
            await crowd.is_full()
            assert await doors[0].state() == (0, 0)
            assert group.compare().is_equal
            await doors[0].let_in()
            assert (await crowd.next_end()).result() == 1
            assert await doors[0].state() == (0, 1)
            assert group.compare().is_equal

    with group:
        asyncio.run(crowd())


def test_ten_thousand_calls_wait_until_something_holds_and_hold_up_no_other() -> None:
    group = quorate.local(Door, timeout=PATIENCE_S)

    async def crowd() -> None:
        crowd = Crowd(lambda door: door.enter())
        async with AsyncExitStack() as stack:
            stack.push_async_callback(crowd.leave)
            doors = await _connect(stack, group.endpoint, Door, 4)
            await crowd.fill(doors)
            for number in range(1, 4):
                await doors[0].let_in()
                assert (await crowd.next_end()).result() == number
            assert await doors[0].state() == (0, 3)
            assert group.compare().is_equal

    with group:
        asyncio.run(crowd())
