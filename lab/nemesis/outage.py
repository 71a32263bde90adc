"""How long a client goes without an answer when the leader is killed, stopped or silently cut off.

A few clients call without pause; each event's outage is the longest stretch without an answer that the
unluckiest of them saw. Prints a table and one JSON line, and ends with 1 when a median is above its bound.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import random
import statistics
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

import quorate

import isolation
from fault import Fault, Need, Role, Scene
from faults_network import Cut, Split
from faults_process import Kill, Stop
from group import Group
from session import add_common_options, one_group
from verdict import clear_progress, show_progress
from waiting import hold, wait_until

CALM_S = 1.0
"""Between two events: longer than a lease."""

WHOLE_S = 30.0

BOUNDS_MS = {"kill-leader": 150.0, "stop-leader": 1000.0, "cut-leader": 1000.0, "split-leader": 1000.0}
"""The median may be so long."""


class Pulse(threading.Thread):
    """A client that calls without pause and notes when answers come."""

    def __init__(self, endpoint: str) -> None:
        super().__init__(daemon=True)
        self._endpoint = endpoint
        self._ended = threading.Event()
        self.answers: list[int] = []

    def run(self) -> None:
        """Call until ended; refusals and silence are no answers."""
        while not self._ended.is_set():
            try:
                with quorate.connect(self._endpoint, timeout=10.0) as counter:
                    while not self._ended.is_set():
                        counter.add(1)
                        self.answers.append(time.monotonic_ns())
            except (quorate.NotExecuted, quorate.OutcomeUnknown):
                self._ended.wait(0.01)

    def end(self) -> None:
        """No more calls."""
        self._ended.set()

    def longest_ms(self, start_ns: int, end_ns: int) -> float:
        """The longest stretch between two answers that touches the span."""
        times = list(self.answers)
        before = [each for each in times if each <= start_ns][-1:]
        later = [each for each in times if each > start_ns]
        inside = [each for each in later if each < end_ns]
        edges = [*before, *inside, *later[len(inside) : len(inside) + 1]]
        return max((two - one for one, two in itertools.pairwise(edges)), default=end_ns - start_ns) / 1e6


@dataclass(frozen=True)
class Row:
    """One kind of event."""

    name: str
    outages_ms: list[float]

    @property
    def median_ms(self) -> float:
        """The middle one."""
        return statistics.median(self.outages_ms)

    @property
    def is_within(self) -> bool:
        """Whether the median keeps its bound."""
        return self.median_ms <= BOUNDS_MS[self.name]

    def line(self) -> str:
        """The line of the table."""
        verdict = "ok" if self.is_within else "TOO LONG"
        low, high = min(self.outages_ms), max(self.outages_ms)
        bound = BOUNDS_MS[self.name]
        count = len(self.outages_ms)
        return (
            f"{self.name:14} {count:5} {low:8.0f} {self.median_ms:8.0f} {high:8.0f} {bound:8.0f}  {verdict}"
        )

    def document(self) -> dict[str, object]:
        """The same as JSON."""
        outages = [round(each, 1) for each in self.outages_ms]
        return {
            "event": self.name,
            "median_ms": round(self.median_ms, 1),
            "bound_ms": BOUNDS_MS[self.name],
            "all_ms": outages,
        }


@contextlib.contextmanager
def pulses(endpoint: str, count: int) -> Iterator[list[Pulse]]:
    """Running clients."""
    clients = [Pulse(endpoint) for _ in range(count)]
    for client in clients:
        client.start()
    try:
        wait_until(lambda: all(len(client.answers) > 100 for client in clients), 30.0, "a running load")
        yield clients
    finally:
        for client in clients:
            client.end()
        for client in clients:
            client.join(timeout=15.0)


def one_outage(scene: Scene, fault: Fault, clients: list[Pulse]) -> float:
    """Inject, wait until everybody is served, heal; the outage of the unluckiest client up to then."""
    group = scene.group
    group.wait_whole(WHOLE_S)
    hold(CALM_S)
    for client in clients:
        # What lies before this event is of no use to it.
        del client.answers[:-1]
    start_ns = time.monotonic_ns()
    fault.inject(scene)
    injected_ns = time.monotonic_ns()
    hold(fault.hold_s)
    wait_until(lambda: all(client.answers[-1] > injected_ns for client in clients), WHOLE_S, "service")
    end_ns = time.monotonic_ns()
    fault.heal(scene)
    return max(client.longest_ms(start_ns, end_ns) for client in clients)


def measure(group: Group, given: argparse.Namespace) -> list[Row]:
    """All events of all kinds."""
    scene = Scene(group, random.Random(given.seed))
    kinds: list[tuple[type[Fault], int]] = []
    if given.persist == "disk":
        kinds.append((_KillLeader, given.kills))
    kinds.append((_StopLeader, given.stops))
    if group.network.can_cut:
        kinds += [(_CutLeader, given.cuts), (Split, given.cuts)]
    else:
        print(f"skip  cut-leader, split-leader: need {Need.NAMESPACES.value}")
    rows = []
    with pulses(group.endpoint, given.clients) as clients:
        for kind, times in kinds:
            outages: list[float] = []
            for number in range(times):
                show_progress(f"{kind().name}: {number} of {times} {[round(each) for each in outages]}")
                outages.append(one_outage(scene, kind(), clients))
            if outages:
                rows.append(Row(kind().name, outages))
    clear_progress()
    return rows


class _KillLeader(Kill):
    hold_s = 1.0

    def __init__(self) -> None:
        super().__init__(Role.LEADER)


class _StopLeader(Stop):
    def __init__(self) -> None:
        super().__init__(Role.LEADER)


class _CutLeader(Cut):
    def __init__(self) -> None:
        super().__init__(Role.LEADER)


def main() -> int:
    """Measure, print, judge."""
    parser = argparse.ArgumentParser(prog="outage", description=__doc__)
    add_common_options(parser)
    parser.add_argument("--kills", type=int, default=20, help="SIGKILLs of the leader")
    parser.add_argument("--stops", type=int, default=10, help="SIGSTOPs of the leader")
    parser.add_argument("--cuts", type=int, default=10, help="silent cuts of the leader, of each kind")
    parser.add_argument("--clients", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    isolation.enter()
    with one_group(given, "outage") as group:
        rows = measure(group, given)
    print(f"{'event':14} {'times':>5} {'min ms':>8} {'median':>8} {'max':>8} {'bound':>8}")
    for row in rows:
        print(row.line())
    print(
        json.dumps({"persist": given.persist, "nodes": given.nodes, "rows": [row.document() for row in rows]})
    )
    return 0 if all(row.is_within for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
