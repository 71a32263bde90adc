"""A thousand callers of one lock, served in their order while leaders are killed."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import quorate
from quorate import LocalGroup
from quorate.objects import Lock

WAITERS = 1000
KILLS = 5
PATIENCE_S = 120.0


def test_a_thousand_waiters_are_served_once_each_in_their_order_over_five_killed_leaders() -> None:
    group = quorate.local(Lock, persist="disk", timeout=PATIENCE_S)
    with group:
        order = asyncio.run(_all_in_turn(group))
        assert [number for number, _ in order] == list(range(WAITERS))
        tokens = [token for _, token in order]
        assert all(before < after for before, after in pairwise(tokens))
        assert not group.proxy.locked()
        assert group.compare().is_equal


async def _all_in_turn(group: LocalGroup[Lock]) -> list[tuple[int, int]]:
    order: list[tuple[int, int]] = []

    async def take(lock: Lock, number: int) -> None:
        token = await lock.acquire()  # type: ignore[misc]
        order.append((number, token))
        await lock.release()  # type: ignore[misc, func-returns-value]

    def kill() -> None:
        killed = group.leader
        group.kill(killed)
        group.restart(killed)

    loop = asyncio.get_running_loop()
    async with quorate.aconnect(group.endpoint, Lock, timeout=PATIENCE_S) as lock:
        with ThreadPoolExecutor(1) as pool:
            tasks = [asyncio.create_task(take(lock, number)) for number in range(WAITERS)]
            for kills in range(1, KILLS + 1):
                while len(order) < kills * WAITERS // (KILLS + 1):
                    await asyncio.sleep(0.01)
                await loop.run_in_executor(pool, kill)
            await asyncio.gather(*tasks)
    return order
