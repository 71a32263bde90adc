"""How long a client goes without an answer when the leader is killed, stopped or silently cut off.

A few clients write without pause. The outage of an event is the longest time without an answer that any of
them saw. With `--reads`, as many clients read at each level, and for each level the table says how long after
the writes its reads were back. Prints a table, keeps all numbers in a JSON file, and ends with 1 when a bound
is exceeded.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import quorate

import isolation
from fault import Fault, Need, Role, Scene
from faults_network import Cut, Split
from faults_process import Kill, KillDuringInstall, Stop
from group import Group, ObjectPlan
from pulse import READ_LEVELS, Calls, Pulse, pulses
from session import COUNTER, add_common_options, one_group
from verdict import clear_progress, show_progress
from waiting import hold, wait_until

CALM_S = 1.0
"""Between two events: longer than a lease."""

WHOLE_S = 30.0
SERVICE_S = 30.0

WRITES = "writes"
KEY = "pulse"
COUNTER_CALLS = Calls(write=lambda proxy: proxy.add(1), read=lambda proxy: proxy.get())
KV = ObjectPlan("Kv", "rust:kv")
KV_CALLS = Calls(write=lambda proxy: proxy.put(KEY, "beat"), read=lambda proxy: proxy.get(KEY))

STATE_KEYS, STATE_KEY_BYTES = 64, 1 << 20
"""A state that takes long enough to install for a leader to be killed meanwhile."""


@dataclass(frozen=True)
class Bound:
    """How long the outages of a kind of event may be."""

    median_ms: float
    longest_ms: float | None = None


BOUNDS = {
    "kill-leader": Bound(150.0, 300.0),
    "kill-leader-during-install": Bound(500.0),
    "stop-leader": Bound(1000.0),
    "cut-leader": Bound(1000.0),
    "split-leader": Bound(1000.0),
}
BEHIND_MS_MAX = 100.0
"""The median read of a level is back so soon after writes."""


@dataclass(frozen=True)
class Outage:
    """One event as those who ask for one thing saw it."""

    length_ms: float
    back_ns: int
    """When the unluckiest of them was served again."""


@dataclass
class Row:
    """All events of one kind, as those who ask for one thing saw them."""

    event: str
    asks: str
    outages_ms: list[float] = field(default_factory=list)
    behind_ms: list[float] = field(default_factory=list)
    """How long after writes the reads were back; negative when they were earlier."""

    def problems(self) -> list[str]:
        """The bounds that it exceeds."""
        if self.asks != WRITES:
            behind = statistics.median(self.behind_ms)
            return [f"back {behind:.0f} ms after writes"] if behind > BEHIND_MS_MAX else []
        bound, found = BOUNDS[self.event], []
        if statistics.median(self.outages_ms) > bound.median_ms:
            found.append(f"median above {bound.median_ms:.0f} ms")
        if bound.longest_ms is not None and max(self.outages_ms) > bound.longest_ms:
            found.append(f"longest above {bound.longest_ms:.0f} ms")
        return found

    def line(self) -> str:
        """The line of the table."""
        low, middle, high = min(self.outages_ms), statistics.median(self.outages_ms), max(self.outages_ms)
        behind = ""
        if self.behind_ms:
            behind = f"{statistics.median(self.behind_ms):.0f} / {max(self.behind_ms):.0f}"
        said = ", ".join(self.problems()) or "ok"
        first = f"{self.event:27} {self.asks:10} {len(self.outages_ms):5}"
        return f"{first} {low:8.0f} {middle:8.0f} {high:8.0f} {behind:>14}  {said}"

    def document(self) -> dict[str, object]:
        """The same as JSON."""
        return {
            "event": self.event,
            "asks": self.asks,
            "median_ms": round(statistics.median(self.outages_ms), 1),
            "longest_ms": round(max(self.outages_ms), 1),
            "all_ms": [round(each, 1) for each in self.outages_ms],
            "behind_writes_ms": [round(each, 1) for each in self.behind_ms],
            "problems": self.problems(),
        }


HEAD = f"{'event':27} {'asks':10} {'times':>5} {'min ms':>8} {'median':>8} {'max':>8} {'behind writes':>14}"


def one_event(scene: Scene, fault: Fault, clients: list[Pulse]) -> dict[str, Outage]:
    """Prepare, inject, wait until everybody is served, heal; what was seen, by what clients ask for."""
    group = scene.group
    group.wait_whole(WHOLE_S)
    hold(CALM_S)
    fault.prepare(scene)
    for client in clients:
        client.forget()
    start_ns = time.monotonic_ns()
    fault.inject(scene)
    injected_ns = time.monotonic_ns()
    hold(fault.hold_s)
    wait_until(lambda: all(client.answers[-1] > injected_ns for client in clients), SERVICE_S, "service")
    end_ns = time.monotonic_ns()
    problems = fault.problems(scene)
    fault.heal(scene)
    if problems:
        raise OSError(f"{fault.name} did not happen: {'; '.join(problems)}")
    seen: dict[str, Outage] = {}
    for client in clients:
        gap = client.longest_gap(start_ns, end_ns)
        before = seen.get(client.asks, Outage(0.0, 0))
        seen[client.asks] = Outage(max(before.length_ms, gap.length_ms), max(before.back_ns, gap.end_ns))
    return seen


def all_events(scene: Scene, clients: list[Pulse], kind: Callable[[], Fault], times: int) -> list[Row]:
    """One kind of event, many times."""
    name = kind().name
    rows: dict[str, Row] = {}
    for number in range(times):
        shown = [round(each) for each in rows[WRITES].outages_ms] if rows else []
        show_progress(f"{name}: {number} of {times} {shown}")
        seen = one_event(scene, kind(), clients)
        for asks, outage in seen.items():
            row = rows.setdefault(asks, Row(name, asks))
            row.outages_ms.append(outage.length_ms)
            if asks != WRITES:
                row.behind_ms.append((outage.back_ns - seen[WRITES].back_ns) / 1e6)
    clear_progress()
    return list(rows.values())


def kinds_of_events(group: Group, given: argparse.Namespace) -> list[tuple[Callable[[], Fault], int]]:
    """What happens to the first group, and how often."""
    kinds: list[tuple[Callable[[], Fault], int]] = []
    if given.persist == "disk":
        kinds.append((lambda: Kill(Role.LEADER, hold_s=1.0), given.kills))
    kinds.append((lambda: Stop(Role.LEADER), given.stops))
    if group.network.can_cut:
        kinds += [(lambda: Cut(Role.LEADER), given.cuts), (Split, given.cuts)]
    elif given.cuts:
        print(f"skip  cut-leader, split-leader: need {Need.NAMESPACES.value}")
    return kinds


def measure(given: argparse.Namespace) -> list[Row]:
    """All events of all kinds."""
    levels = READ_LEVELS if given.reads else ()
    rows: list[Row] = []
    if given.kills or given.stops or given.cuts:
        with one_group(given, "outage", COUNTER) as group:
            scene = Scene(group, random.Random(given.seed))
            with pulses(group.endpoint, COUNTER_CALLS, given.clients, levels) as clients:
                for kind, times in kinds_of_events(group, given):
                    rows += all_events(scene, clients, kind, times)
    if given.during_install:
        with one_group(given, "install", KV) as group:
            scene = Scene(group, random.Random(given.seed))
            fill(group)
            with pulses(group.endpoint, KV_CALLS, given.clients, levels) as clients:
                rows += all_events(scene, clients, KillDuringInstall, given.during_install)
    return rows


def fill(group: Group) -> None:
    """Make the state large."""
    with quorate.connect(group.endpoint, timeout=30.0) as kv:
        kv.fill(STATE_KEYS, STATE_KEY_BYTES)


def main() -> int:
    """Measure, print, keep, judge."""
    parser = argparse.ArgumentParser(prog="outage", description=__doc__)
    add_common_options(parser)
    parser.add_argument("--kills", type=int, default=20, help="SIGKILLs of the leader")
    parser.add_argument("--stops", type=int, default=10, help="SIGSTOPs of the leader")
    parser.add_argument("--cuts", type=int, default=10, help="silent cuts of the leader, of each kind")
    parser.add_argument(
        "--during-install",
        type=int,
        nargs="?",
        const=20,
        default=0,
        metavar="N",
        help="SIGKILLs of the leader while a follower installs a snapshot (20 when no number is given)",
    )
    parser.add_argument("--reads", action="store_true", help="read all along, at levels confirmed and lease")
    parser.add_argument(
        "--clients", type=int, default=2, help="clients that write, and that read at each level"
    )
    parser.add_argument("--seed", type=int, default=1, help="seed of what is drawn")
    parser.add_argument("--json", type=Path, help="where the numbers go; beside the logs when absent")
    given = parser.parse_args()
    if given.during_install and given.persist != "disk":
        parser.error("--during-install needs --persist disk: a memory node that ended only observes")
    isolation.enter()
    rows = measure(given)
    print(HEAD)
    for row in rows:
        print(row.line())
    keep(given, rows)
    return 1 if any(row.problems() for row in rows) else 0


def keep(given: argparse.Namespace, rows: list[Row]) -> None:
    """Write the numbers down."""
    path: Path = given.json or given.keep / f"outage-{time.strftime('%Y%m%d-%H%M%S')}.json"
    by_event: dict[str, list[dict[str, object]]] = defaultdict(list)
    for row in rows:
        by_event[row.event].append(row.document())
    document: dict[str, Any] = {"persist": given.persist, "nodes": given.nodes, "events": by_event}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1) + "\n")
    print(f"all numbers: {path}")


if __name__ == "__main__":
    sys.exit(main())
