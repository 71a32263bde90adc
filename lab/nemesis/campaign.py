"""One group under load with a list of faults, and all checks of it.

Each fault is injected into a whole group, kept up, healed, and the group must become whole again. When all
are over, the load ends and the history, the object and the replicas are judged.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, field
from pathlib import Path

from ages import Ages
from catalogue import CATALOGUE
from fault import Fault, Scene
from group import Group
from judging import judge_history, judge_load, judge_object, judge_replicas
from load import Load
from outages import Outage, answered_between, outage, p99_ms, slowed, told_p99
from recording import Recording
from verdict import Verdict, show_progress
from waiting import NeverHappened, hold, wait_until
from workload import Texts, Workload

WHOLE_S = 30.0
"""After the last fault is healed the group is whole again; a restart on a loaded machine is part of it."""

SERVED_S = 5.0
"""A majority that is left serves again within this, far above what is measured and reported."""

GROWTH_MAX = 1.5
"""In a long run the nodes' largest memory of the last quarter stays below that of the second times this."""

GROWTH_SAMPLES_MIN = 40
"""Fewer faults than these say nothing about growth."""

CALM_S = 0.5
"""Between two faults, so that each outage belongs to one of them."""


@dataclass
class Happened:
    """A fault that was injected, and when."""

    name: str
    injected_ns: int
    whole_ns: int


@dataclass
class Campaign:
    """Faults, one after the other, on one group."""

    title: str
    scene: Scene
    workload: Workload
    directory: Path
    checker: str
    verdict: Verdict
    clients: int
    seed: int
    happened: list[Happened] = field(default_factory=list)
    memory_kib: list[int] = field(default_factory=list)
    """Of the largest node, after each fault."""

    @property
    def group(self) -> Group:
        """The group under faults."""
        return self.scene.group

    def run(self, names: list[str], until_ns: int | None = None) -> dict[str, list[Outage]]:
        """All faults of the list, again and again where there is time; the outages by kind of fault."""
        history = self.directory / "history.jsonl"
        with Recording(history) as recording:
            load = Load(self.group.endpoint, self.workload, recording, self.clients, self.seed)
            ages = self._ages()
            with load, ages or contextlib.nullcontext():
                wait_until(lambda: recording.counts()[0] > 20 * self.clients, 30.0, "a running load")
                is_whole = self._all(names, recording, until_ns)
                hold(CALM_S)
            self._judge_load(load, recording)
            if ages is not None:
                self.verdict.check(f"{self.title} told ages are true", ages.lies, ages.describe())
            if is_whole:
                judge_object(self.title, self.group, self.workload, recording, self.verdict)
                judge_replicas(self.title, self.group, WHOLE_S, self.verdict)
            recording.flush()
            operations = recording.operations()
        judge_history(self.title, self.checker, history, len(operations), self.verdict)
        outages: dict[str, list[Outage]] = {}
        for each in self.happened:
            seen = outage(operations, each.injected_ns, each.whole_ns)
            outages.setdefault(each.name, []).append(seen)
        return outages

    def _ages(self) -> Ages | None:
        if not isinstance(self.workload, Texts):
            return None
        name = self.group.plan.served.name
        addresses = {member.number: self.group.network.listen(member.number) for member in self.group}
        nodes = {number: f"quorate://{address}/{name}" for number, address in addresses.items()}
        return Ages(self.group.endpoint, nodes)

    def _all(self, names: list[str], recording: Recording, until_ns: int | None) -> bool:
        """Whether the group was whole after each of them."""
        while True:
            for name in names:
                if not self._one(CATALOGUE[name](), recording):
                    return False
                if until_ns is not None and time.monotonic_ns() >= until_ns:
                    return True
            if until_ns is None:
                return True
            # A longer run meets the faults in other orders.
            self.scene.rng.shuffle(names)

    def _one(self, fault: Fault, recording: Recording) -> bool:
        problems: list[str] = []
        answered, refused, unknown = recording.counts()
        show_progress(f"{self.title}: {fault.name}, {answered} calls, {refused} refused, {unknown} unknown")
        injected_ns = time.monotonic_ns()
        p99_note = ""
        try:
            self.group.wait_whole(WHOLE_S)
            fault.prepare(self.scene)
            calm_ns = time.monotonic_ns()
            fault.compare(self.scene)
            injected_ns = time.monotonic_ns()
            fault.inject(self.scene)
            hold(fault.hold_s)
            if fault.serves_meanwhile:
                self._wait_served(recording, SERVED_S, "a healthy majority to serve")
            problems += fault.problems(self.scene)
            if fault.p99_times_max is not None:
                calls = recording.operations()
                before = p99_ms(calls, calm_ns, injected_ns)
                during = p99_ms(calls, injected_ns, time.monotonic_ns())
                p99_note = f", p99 {told_p99(before, during)}"
                problems += slowed(before, during, fault.p99_times_max)
        except NeverHappened as error:
            problems.append(str(error))
        try:
            fault.heal(self.scene)
            self.group.wait_whole(WHOLE_S)
            self._wait_served(recording, SERVED_S, "a healed group to serve")
            is_whole = True
        except NeverHappened as error:
            problems.append(str(error))
            is_whole = False
        whole_ns = time.monotonic_ns()
        self.happened.append(Happened(fault.name, injected_ns, whole_ns))
        self.memory_kib.append(max(member.rss_kib() or 0 for member in self.group))
        hold(CALM_S)
        seen = outage(recording.operations(), injected_ns, whole_ns)
        note = f"outage {seen.median_ms:.0f} ms, longest {seen.longest_ms:.0f} ms{p99_note}"
        note = ", ".join(each for each in (note, fault.note()) if each)
        self.verdict.check(f"{self.title} {fault.name}", problems, note)
        return is_whole

    @staticmethod
    def _wait_served(recording: Recording, seconds: float, what: str) -> None:
        start = time.monotonic_ns()
        wait_until(lambda: answered_between(recording.latest(), start, time.monotonic_ns()), seconds, what)

    def _judge_load(self, load: Load, recording: Recording) -> None:
        judge_load(self.title, load, recording, self.group, self.verdict)
        quarter = len(self.memory_kib) // 4
        if len(self.memory_kib) >= GROWTH_SAMPLES_MIN:
            early, late = max(self.memory_kib[quarter : 2 * quarter]), max(self.memory_kib[-quarter:])
            grown = [] if late <= early * GROWTH_MAX else [f"from {early} to {late} KiB"]
            self.verdict.check(f"{self.title} memory flat", grown, f"{early} and {late} KiB")
