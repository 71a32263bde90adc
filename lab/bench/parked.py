"""One call that waits for long beside load: snapshots and trimming go on, and memory stays flat.

Three nodes on disks and two clients share this machine. Prints a line each minute. Ends with 1 when
no snapshot was taken or nothing was trimmed after the call had begun to wait, when a node's memory
grows, or when the call does not get its answer.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import quorate
from quorate import LocalGroup
from quorate.objects import Queue

PATIENCE_S = 60.0
SLICES = 50
"""Of a second: the load comes in so many parts."""

GROWTH_MAX = 1.15
"""The peak of a node's memory in the last third of the time by that in the first."""


def resident_mib(pid: int) -> float:
    """Memory of a process and of its children: a node and its host."""
    pids = [pid, *map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]
    lines = [
        line for each in pids for line in Path(f"/proc/{each}/status").read_text().splitlines()
    ]
    return sum(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) / 1024


def load(items: Queue[int], a_second: int, until: float) -> int:
    """Put items and take them at a rate; how many calls that were."""
    calls = 0
    while (now := time.monotonic()) < until:
        for _ in range(max(a_second // SLICES // 2, 1)):
            items.put(calls)
            items.get()
            calls += 2
        time.sleep(max(0.0, now + 1 / SLICES - time.monotonic()))
    return calls


def state(nodes: LocalGroup[Queue[int]]) -> tuple[list[float], int, int]:
    """Memory of each node, and the oldest of their newest snapshots and trimmed slots."""
    told = [status for node in nodes.nodes if (status := nodes.status(node)) is not None]
    memory = [resident_mib(status["pid"]) for status in told]
    return (
        memory,
        min(status["snapshot"] for status in told),
        min(status["trimmed"] for status in told),
    )


def main() -> int:
    """Measure, and print."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--minutes", type=int, default=60)
    options.add_argument("--rate", type=int, default=400, help="calls a second")
    minutes, rate = (given := options.parse_args()).minutes, given.rate
    nodes = quorate.local(Queue, persist="disk", timeout=PATIENCE_S)
    with nodes as items, quorate.group(nodes.endpoint, timeout=PATIENCE_S) as group:
        idle: Queue[int] = group.create(Queue, "idle")
        waiting = quorate.submit(idle.get)
        load(items, rate, time.monotonic() + 1)
        slot = group.describe("idle")["waiting"][0][2]
        print(f"a call waits since slot {slot}", flush=True)
        seen, calls = [], 0
        for minute in range(minutes):
            calls += load(items, rate, time.monotonic() + 60)
            memory, snapshot, trimmed = state(nodes)
            seen.append(memory)
            told = ", ".join(f"{each:.0f}" for each in memory)
            line = f"{minute + 1} min: {calls} calls, {told} MiB"
            print(f"{line}, snapshot {snapshot}, trimmed {trimmed}", flush=True)
        began = time.perf_counter()
        idle.put(7)
        is_answered = waiting.result(PATIENCE_S) == 7
        print(
            f"woken after {minutes} min in {(time.perf_counter() - began) * 1000:.1f} ms",
            flush=True,
        )
        third = max(minutes // 3, 1)
        peaks = [
            [max(node) for node in zip(*part, strict=True)]
            for part in (seen[:third], seen[-third:])
        ]
        growth = max(last / first for first, last in zip(*peaks, strict=True))
        print(f"peak of memory in the last third of the time by that in the first: {growth:.2f}")
        is_right = is_answered and slot < trimmed <= snapshot and growth <= GROWTH_MAX
    return int(not is_right)


if __name__ == "__main__":
    sys.exit(main())
