"""What calls cost by the size of their values, and the number of keys and of clients.

It runs `quorate bench`: three nodes and the load share this machine. Each shape is run several
times, and the median of a figure is compared with its bar. Prints a row for each figure, and ends
with 1 when one misses its bar.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from quorate._progress import Progress

KIB, MIB = 1 << 10, 1 << 20
MANY_KEYS, LARGE = 10_000, 64 * KIB
STATE_TIMES_MAX, STATE_MORE_MIB = 2.5, 256
"""What a node may take: so many times the values, and so much more."""

PATIENCE_S = 300.0
"""For one run; a run that takes longer is stuck."""

Report = dict[str, Any]


@dataclass(frozen=True)
class Figure:
    """One number of a report, and what is asked of it."""

    name: str
    of: Callable[[Report], float]
    bar: float
    is_least: bool
    """Whether the bar is a least value; otherwise it is a most."""

    def is_held(self, value: float) -> bool:
        """Whether a value is as good as is asked."""
        return value >= self.bar if self.is_least else value <= self.bar

    def row(self, shape: str, value: float) -> str:
        """The row of the table."""
        side = "at least" if self.is_least else "at most"
        said = "held" if self.is_held(value) else "missed"
        return f"{shape:34} {self.name:16} {value:12,.2f}  {side:>8} {self.bar:10,.2f}  {said}"


def calls(least: float) -> Figure:
    """Calls a second."""
    return Figure("calls/s", lambda report: float(report["ops_per_s"]), least, True)


def cpu(most: float) -> Figure:
    """Processor time of the load and all nodes."""
    return Figure(
        "CPU-s/1000", lambda report: float(report["cpu_s_per_1000_ops"]["total"]), most, False
    )


def p99(most: float) -> Figure:
    """What 99 of 100 calls take at most."""
    return Figure("p99 ms", lambda report: float(report["latency_us"]["p99"]) / 1000, most, False)


def memory(most: float) -> Figure:
    """Of the node that has most."""
    return Figure("MiB of a node", lambda report: float(max(report["rss_mib"])), most, False)


@dataclass(frozen=True)
class Shape:
    """One load, and its figures."""

    name: str
    words: tuple[str, ...]
    figures: tuple[Figure, ...]
    is_long: bool = False
    """Whether it needs time to write every key."""


def kv(size: int, keys: int, persist: str) -> tuple[str, ...]:
    """Puts of four clients that have 16 calls under way each."""
    load = ("--object", "rust:kv", "--clients", "4", "--window", "16")
    return (*load, "--size", str(size), "--keys", str(keys), "--persist", persist)


SHAPES = (
    Shape("64 KiB, 100 keys, memory", kv(LARGE, 100, "memory"), (calls(6_000), cpu(0.2))),
    Shape(
        "64 KiB, 10,000 keys, memory",
        kv(LARGE, MANY_KEYS, "memory"),
        (
            calls(6_000),
            cpu(0.2),
            memory(STATE_TIMES_MAX * MANY_KEYS * LARGE / MIB + STATE_MORE_MIB),
        ),
        is_long=True,
    ),
    Shape("1 KiB, 100 keys, memory", kv(KIB, 100, "memory"), (calls(250_000),)),
    Shape("1 KiB, 100 keys, disk", kv(KIB, 100, "disk"), (calls(60_000), p99(5.0))),
    Shape(
        "counter, 64 clients, memory",
        ("--object", "rust:counter", "--clients", "64", "--window", "1", "--persist", "memory"),
        (calls(100_000),),
    ),
)


def measured(quorate: str, shape: Shape, seconds: float) -> Report:
    """One run; what went wrong ends the script."""
    span = 2 * seconds if shape.is_long else seconds
    words = ["--warmup", str(span), "--seconds", str(seconds), "--local", "3", "-o", "json"]
    command = [quorate, "bench", *shape.words, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}: {done.stderr.strip()}")
    report: Report = json.loads(done.stdout)
    return report


def judged(shape: Shape, reports: list[Report]) -> bool:
    """Print a row for each figure; says whether all are held."""
    medians = [(each, statistics.median(map(each.of, reports))) for each in shape.figures]
    for figure, value in medians:
        print(figure.row(shape.name, value), flush=True)
    return all(figure.is_held(value) for figure, value in medians)


def chosen(names: str) -> list[Shape]:
    """The shapes whose names begin with one of these; all when there is none."""
    begun = tuple(name.strip() for name in names.split(";") if name.strip())
    return [shape for shape in SHAPES if not begun or shape.name.startswith(begun)]


def default_quorate() -> str:
    """The program beside this interpreter, else on the path."""
    beside = Path(sys.executable).parent / "quorate"
    return str(beside) if beside.exists() else shutil.which("quorate") or "quorate"


def main() -> int:
    """Measure, and print."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--quorate", default=default_quorate(), help="the program under test")
    options.add_argument("--runs", type=int, default=3)
    options.add_argument("--seconds", type=float, default=5.0, help="of a run, after as long again")
    options.add_argument(
        "--shapes", default="", help="only those whose names begin so, with semicolons"
    )
    given = options.parse_args()
    shapes = chosen(given.shapes)
    if not shapes:
        options.error(f"no such shape: choose from {'; '.join(shape.name for shape in SHAPES)}")
    are_held = True
    with Progress() as progress:
        for shape in shapes:
            reports = []
            for run in range(1, given.runs + 1):
                progress.show(f"{shape.name}, run {run} of {given.runs}")
                reports.append(measured(given.quorate, shape, given.seconds))
            progress.show("")
            are_held &= judged(shape, reports)
    return int(not are_held)


if __name__ == "__main__":
    sys.exit(main())
