"""A loaded group without any fault: no node may start an election.

Loads the group with `quorate bench` for `--minutes M` and watches every node's ballot and count of
elections; ends with 1 when one moved after the first leader stood.
"""

from __future__ import annotations

import argparse
import sys
import time

import isolation
from bench_load import BenchLoad
from group import Group
from session import add_common_options, one_group
from verdict import clear_progress, show_progress
from waiting import hold

SAMPLE_EVERY_S = 1.0


def main() -> int:
    """Load, watch, judge."""
    parser = argparse.ArgumentParser(prog="calm", description=__doc__)
    add_common_options(parser)
    parser.add_argument("--minutes", type=float, default=20.0)
    given = parser.parse_args()
    isolation.enter()
    with one_group(given, "calm") as group:
        group.wait_whole(30.0)
        before = standing(group)
        with BenchLoad(group, given.minutes * 60) as load:
            moved = watch(group, load, before, given.minutes * 60)
            report = load.report()
    print(f"{report['ops_per_s']:.0f} calls/s for {given.minutes:g} min")
    print(moved or "no election")
    return 1 if moved else 0


def standing(group: Group) -> dict[int, tuple[str, int]]:
    """Ballot and count of elections of every node that answers in time."""
    return {node: (status.ballot, status.elections) for node, status in group.statuses().items()}


def watch(group: Group, load: BenchLoad, before: dict[int, tuple[str, int]], seconds: float) -> str:
    """What moved first; empty when nothing did."""
    start = time.monotonic()
    while load.is_running():
        hold(SAMPLE_EVERY_S)
        passed = time.monotonic() - start
        for node, now in standing(group).items():
            if now != before[node]:
                clear_progress()
                return f"node {node} moved from {before[node]} to {now} after {passed:.0f} s"
        show_progress(f"{passed:.0f} of {seconds:.0f} s without an election")
    clear_progress()
    return ""


if __name__ == "__main__":
    sys.exit(main())
