"""How long a node that missed some megabytes takes to catch up over a narrow link, and how much it is sent.

A follower is killed, the group writes without it, its link is made narrow in both directions, and it is
started again. The ideal is the missing bytes over the rate of the link. Prints a line for each rate and ends
with 1 when one is above the bound. The short form takes one rate, the long form all.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass

import quorate

import isolation
from group import Group
from member import Member
from network import Namespaces
from outage import KV
from session import add_common_options, one_group
from waiting import wait_until

VALUE_BYTES = 256 << 10
TIMES_IDEAL_MAX = 1.3
"""Catching up takes no longer than this many times the ideal."""

START_S = 0.7
"""For the process to start, find its log and connect; no part of what a link costs."""

SHORT_MBIT, LONG_MBIT = (30.0,), (8.0, 30.0, 100.0)


@dataclass(frozen=True)
class CatchUp:
    """One node that caught up."""

    mbit: float
    missed_bytes: int
    took_s: float
    received_bytes: int
    slow_links: int

    @property
    def ideal_s(self) -> float:
        """What the link needs for the missing bytes alone."""
        return self.missed_bytes * 8 / (self.mbit * 1e6)

    def problems(self) -> list[str]:
        """What is above its bound."""
        found = []
        if self.took_s > self.ideal_s * TIMES_IDEAL_MAX + START_S:
            found.append(f"above {TIMES_IDEAL_MAX:g} times the ideal")
        if self.received_bytes > self.missed_bytes * TIMES_IDEAL_MAX + (1 << 20):
            found.append("was sent too much")
        if self.slow_links:
            found.append("a link was dropped as too slow")
        return found

    def line(self) -> str:
        """The line of the table."""
        said = ", ".join(self.problems()) or "ok"
        missed, received = self.missed_bytes / 1e6, self.received_bytes / 1e6
        return f"{self.mbit:6g} {missed:9.1f} {self.ideal_s:8.1f} {self.took_s:8.1f} {received:12.1f}  {said}"


HEAD = f"{'Mbit/s':>6} {'missed MB':>9} {'ideal s':>8} {'took s':>8} {'received MB':>12}"


def write_without(group: Group, count: int) -> int:
    """Write while a node is down; how many bytes that was."""
    with quorate.connect(group.endpoint, timeout=30.0) as kv:
        for number in range(count):
            kv.put(f"key{number % 8}", chr(97 + number % 26) * VALUE_BYTES)
    return count * VALUE_BYTES


def catch_up(group: Group, network: Namespaces, victim: Member, mbit: float, megabytes: float) -> CatchUp:
    """Kill, write, narrow, start, wait."""
    group.wait_whole(30.0)
    victim.kill()
    missed = write_without(group, int(megabytes * 1e6 / VALUE_BYTES))
    target = max(status.decided for status in group.statuses().values())
    network.narrow(victim.number, mbit)
    before = network.received(victim.number)
    begun = time.monotonic()
    victim.start()
    patience = max(60.0, 6 * missed * 8 / (mbit * 1e6))

    def has_caught_up() -> bool:
        status = victim.status()
        return status is not None and status.executed >= target

    wait_until(has_caught_up, patience, f"catching up at {mbit:g} Mbit/s")
    took = time.monotonic() - begun
    received = network.received(victim.number) - before
    slow = sum(status.slow_peers for status in group.statuses().values())
    network.widen(victim.number)
    return CatchUp(mbit, missed, took, received, slow)


def main() -> int:
    """Measure, print, judge."""
    parser = argparse.ArgumentParser(prog="catchup", description=__doc__)
    add_common_options(parser)
    parser.add_argument("--long", action="store_true", help="all rates, not only the short one")
    parser.add_argument("--rates", help="other rates of the link, in Mbit/s, with commas")
    parser.add_argument("--megabytes", type=float, default=20.0, help="what the node misses")
    given = parser.parse_args()
    rates: tuple[float, ...] = LONG_MBIT if given.long else SHORT_MBIT
    if given.rates:
        rates = tuple(float(rate) for rate in given.rates.split(","))
    isolation.enter()
    if not isolation.is_isolated():
        print("skip  catchup: needs network namespaces (root, or user namespaces)")
        return 0
    found: list[CatchUp] = []
    with one_group(given, "catchup", KV) as group:
        network = group.network
        assert isinstance(network, Namespaces)
        print(HEAD, flush=True)
        for mbit in rates:
            victim = group.followers()[0]
            found.append(catch_up(group, network, victim, mbit, given.megabytes))
            print(found[-1].line(), flush=True)
    return 1 if any(each.problems() for each in found) else 0


if __name__ == "__main__":
    sys.exit(main())
