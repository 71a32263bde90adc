"""What many objects cost: creating them, memory, listing and describing them, a node's restart.

Three nodes on disks and all clients share this machine. Then as many clients as locks acquire and
release them, each a lock that another one wants as well. Prints a line for each figure. Ends with 1
when listing or describing takes a second, or when an object is not there after the restart.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import quorate
from locks import pairs_a_second
from quorate import LocalGroup
from quorate.objects import Set

PATIENCE_S = 60.0
AT_ONCE = 64
"""Creations under way."""

SOON_S = 1.0


def resident_bytes(pid: int) -> int:
    """Memory of a process and of its children: a node and its host."""
    pids = [pid, *map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]
    lines = [
        line for each in pids for line in Path(f"/proc/{each}/status").read_text().splitlines()
    ]
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith("VmRSS:"))


def memory(nodes: LocalGroup[Any]) -> float:
    """Memory of a node, in the middle of all."""
    told = [status for node in nodes.nodes if (status := nodes.status(node)) is not None]
    return statistics.median(resident_bytes(status["pid"]) for status in told)


def seconds(act: Callable[[], object]) -> float:
    """Time a thing that is done once."""
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


async def create(endpoint: str, count: int) -> None:
    """Create sets, several at a time."""
    slots = asyncio.Semaphore(AT_ONCE)
    async with quorate.agroup(endpoint, timeout=PATIENCE_S) as group:

        async def one(number: int) -> None:
            async with slots:
                await group.create(Set, f"sets/{number}", [number])

        async with asyncio.TaskGroup() as tasks:
            for number in range(count):
                tasks.create_task(one(number))


def restart(nodes: LocalGroup[Any]) -> None:
    """Kill a follower, and wait until it serves again."""
    node = next(node for node in nodes.nodes if node != nodes.leader)
    nodes.kill(node)
    print(f"a node serves again after {seconds(lambda: nodes.restart(node)):.2f} s")


def main() -> int:
    """Measure, and print."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--objects", type=int, default=9_900)
    options.add_argument("--clients", type=int, default=16)
    options.add_argument("--rounds", type=int, default=1000)
    given = options.parse_args()
    nodes = quorate.local(Set, persist="disk", timeout=PATIENCE_S)
    with nodes, quorate.group(nodes.endpoint, timeout=PATIENCE_S) as group:
        before = memory(nodes)
        took = seconds(lambda: asyncio.run(create(nodes.endpoint, given.objects)))
        print(f"{given.objects} objects: {given.objects / took:.0f} created a second")
        print(f"memory: {(memory(nodes) - before) / given.objects:.0f} bytes an object at a node")
        last = f"sets/{given.objects - 1}"
        listing = seconds(group.objects)
        describing = seconds(lambda: group.describe(last))
        print(f"all listed in {listing * 1000:.0f} ms, one described in {describing * 1000:.1f} ms")
        restart(nodes)
        print(f"a snapshot is taken in {seconds(nodes.snapshot):.2f} s")
        restart(nodes)
        is_there = len(group.objects()) == given.objects + 1 and given.objects - 1 in group.get(
            last, Set
        )
        rate = pairs_a_second(nodes.endpoint, given.clients, given.rounds)
        print(f"{given.clients} locks, {given.clients} clients: {rate:.0f} pairs/s")
    return int(not is_there or max(listing, describing) >= SOON_S)


if __name__ == "__main__":
    sys.exit(main())
