"""What calls cost in a Python client: run by `quorate bench --python-client`, in a process of its own.

Each way to call runs for the same time against one object, and the report is one line of JSON. CPU is that of
this whole process, all of its threads.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import quorate

IN_FLIGHT = 1000
"""Calls that are under way at once, where more than one is."""


@dataclass(frozen=True, slots=True)
class Row:
    """What one way to call showed; latencies are those of single calls, or of rounds."""

    way: str
    calls_per_s: float
    p50_us: float
    p99_us: float
    cpu_us_per_call: float


class Meter:
    """Counts calls and times rounds between its start and its end."""

    def __init__(self, way: str, seconds: float) -> None:
        self._way = way
        self._rounds: list[int] = []
        self._calls = 0
        self._cpu = time.process_time()
        self._begun = time.perf_counter()
        self._end = self._begun + seconds

    def is_over(self) -> bool:
        """Whether the time is up."""
        return time.perf_counter() >= self._end

    def note(self, begun_ns: int, calls: int) -> None:
        """A round of so many calls has ended."""
        self._rounds.append(time.perf_counter_ns() - begun_ns)
        self._calls += calls

    def row(self) -> Row:
        """What was seen."""
        cpu, elapsed = time.process_time() - self._cpu, time.perf_counter() - self._begun
        rounds = sorted(self._rounds)
        p50, p99 = (rounds[int((len(rounds) - 1) * share)] / 1000 for share in (0.5, 0.99))
        return Row(self._way, self._calls / elapsed, p50, p99, cpu * 1e6 / max(self._calls, 1))


def sync(method: Callable[..., Any], args: list[Any], seconds: float) -> Row:
    """One call at a time."""
    meter = Meter("sync", seconds)
    while not meter.is_over():
        begun = time.perf_counter_ns()
        method(*args)
        meter.note(begun, 1)
    return meter.row()


def gather(method: Callable[..., Any], args: list[Any], seconds: float) -> Row:
    """Rounds of futures."""
    meter = Meter("gather", seconds)
    while not meter.is_over():
        begun = time.perf_counter_ns()
        quorate.gather(*[quorate.submit(method, *args) for _ in range(IN_FLIGHT)])
        meter.note(begun, IN_FLIGHT)
    return meter.row()


async def agather(method: Callable[..., Any], args: list[Any], seconds: float) -> Row:
    """Rounds of awaitables."""
    meter = Meter("agather", seconds)
    while not meter.is_over():
        begun = time.perf_counter_ns()
        await quorate.agather(*[method(*args) for _ in range(IN_FLIGHT)])
        meter.note(begun, IN_FLIGHT)
    return meter.row()


async def tasks(method: Callable[..., Any], args: list[Any], seconds: float) -> Row:
    """Tasks that each make one call after another."""
    meter = Meter("tasks", seconds)

    async def caller() -> None:
        while not meter.is_over():
            begun = time.perf_counter_ns()
            await method(*args)
            meter.note(begun, 1)

    await asyncio.gather(*(caller() for _ in range(IN_FLIGHT)))
    return meter.row()


def main() -> None:
    """Run all ways to call, and print their rows."""
    parser = argparse.ArgumentParser(prog="quorate bench --python-client", description=__doc__)
    parser.add_argument("endpoint")
    parser.add_argument("method")
    parser.add_argument("--args", type=json.loads, default=[])
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--warmup", type=float, default=0.5)
    for name in ("ca", "cert", "key"):
        parser.add_argument(f"--tls-{name}")
    words = parser.parse_args()
    tls = quorate.Tls(ca=words.tls_ca, cert=words.tls_cert, key=words.tls_key) if words.tls_ca else None
    rows: list[Row] = []
    with quorate.connect(words.endpoint, tls=tls) as proxy:
        method = getattr(proxy, words.method)
        for way in (sync, gather):
            if words.warmup:
                way(method, words.args, words.warmup)
            rows.append(way(method, words.args, words.seconds))

    async def awaited() -> None:
        async with quorate.aconnect(words.endpoint, tls=tls) as proxy:
            method = getattr(proxy, words.method)
            for way in (agather, tasks):
                if words.warmup:
                    await way(method, words.args, words.warmup)
                rows.append(await way(method, words.args, words.seconds))

    asyncio.run(awaited())
    print(json.dumps([asdict(row) for row in rows]))


if __name__ == "__main__":
    main()
