"""Memory of the living nodes while one acceptor is dead and the load goes on: it must stay flat.

Kills one follower and leaves it dead, loads the group with `quorate bench`, and samples the memory of the
other nodes. Memory rises and falls, because the log is kept until the next snapshot trims it, every few
seconds. Only the peaks must not grow. So the peaks of ten equal stretches after the warm-up are compared:
the highest may be at most 1.10 times the lowest. Above that it ends with 1.
"""

from __future__ import annotations

import argparse
import json
import sys
import time

import isolation
from bench_load import BenchLoad
from group import Group
from session import add_common_options, one_group
from verdict import clear_progress, show_progress
from waiting import hold

RATIO_MAX = 1.10
STRETCHES = 10
"""Each several breaths long in the short form, a minute in the long one."""
WARM_UP_SHARE = 0.25
"""Of the time: buffers and the table of sessions reach their size."""
SAMPLE_EVERY_S = 0.25


def main() -> int:
    """Measure, print, judge."""
    parser = argparse.ArgumentParser(prog="memory", description=__doc__)
    add_common_options(parser)
    parser.add_argument("--minutes", type=float, default=1.0, help="10 in the long form")
    given = parser.parse_args()
    isolation.enter()
    with one_group(given, "memory") as group:
        victim = group.followers()[0]
        victim.kill()
        print(f"node {victim.number} is dead", flush=True)
        with BenchLoad(group, given.minutes * 60) as load:
            samples = watch(group, load, given.minutes * 60)
            report = load.report()
    peaks = {node: peaks_of(kib) for node, kib in samples.items()}
    ratios = {node: max(kib) / min(kib) for node, kib in peaks.items()}
    for node, kib in peaks.items():
        shown = " ".join(f"{each / 1024:.1f}" for each in kib)
        low = min(samples[node]) / 1024
        print(f"node {node}: peaks {shown} MiB, lowest sample {low:.1f}, ratio {ratios[node]:.3f}")
    is_flat = all(ratio <= RATIO_MAX for ratio in ratios.values())
    rate = report["ops_per_s"]
    said = "flat" if is_flat else "NOT FLAT"
    print(f"{rate:.0f} calls/s for {given.minutes:g} min: {said} (bound {RATIO_MAX})")
    print(json.dumps({"minutes": given.minutes, "ops_per_s": rate, "ratios": ratios, "peaks_kib": peaks}))
    return 0 if is_flat else 1


def peaks_of(samples: list[int]) -> list[int]:
    """The largest sample of each stretch."""
    size = max(1, len(samples) // STRETCHES)
    return [max(samples[start : start + size]) for start in range(0, size * STRETCHES, size)]


def watch(group: Group, load: BenchLoad, seconds: float) -> dict[int, list[int]]:
    """Samples of the living nodes after the warm-up."""
    living = [member for member in group if member.is_running()]
    samples: dict[int, list[int]] = {member.number: [] for member in living}
    start = time.monotonic()
    while load.is_running() and time.monotonic() - start < seconds:
        hold(SAMPLE_EVERY_S)
        passed = time.monotonic() - start
        now = {member.number: member.rss_kib() or 0 for member in living}
        if passed >= seconds * WARM_UP_SHARE:
            for node, kib in now.items():
                samples[node].append(kib)
        shown = ", ".join(f"node {node} {kib / 1024:.1f} MiB" for node, kib in now.items())
        show_progress(f"{passed:.0f} of {seconds:.0f} s: {shown}")
    clear_progress()
    return samples


if __name__ == "__main__":
    sys.exit(main())
