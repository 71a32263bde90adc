"""Memory of the living nodes while one acceptor is dead and the load goes on: it must stay flat.

Kills one follower and leaves it dead, loads the group with `quorate bench`, and samples the memory of the
other nodes. After the warm-up the largest sample may be at most 1.10 times the smallest; above that it ends
with 1.
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
WARM_UP_SHARE = 0.25
"""Of the time: buffers and the table of sessions reach their size."""
SAMPLE_EVERY_S = 0.5


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
    ratios = {node: max(kib) / min(kib) for node, kib in samples.items()}
    for node, kib in samples.items():
        low, high = min(kib) / 1024, max(kib) / 1024
        print(f"node {node}: {low:.1f} to {high:.1f} MiB in {len(kib)} samples, ratio {ratios[node]:.3f}")
    is_flat = all(ratio <= RATIO_MAX for ratio in ratios.values())
    rate = report["ops_per_s"]
    said = "flat" if is_flat else "NOT FLAT"
    print(f"{rate:.0f} calls/s for {given.minutes:g} min: {said} (bound {RATIO_MAX})")
    print(json.dumps({"minutes": given.minutes, "ops_per_s": rate, "ratios": ratios, "rss_kib": samples}))
    return 0 if is_flat else 1


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
