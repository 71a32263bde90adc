"""`make campaign-views`: every machine of a group is replaced, one after the other, under load and faults.

Four clients know the address of one founder and call all the time. For each founder a new node joins, then
the founder leaves; meanwhile the leader is killed twice and cut off from the other nodes once. Afterwards
what clients saw is judged, and a picture is drawn. `--short` replaces three founders on plain loopback and
kills the leader once. Times are reported and never judged: they say as much about the machine. Ends with
`N passed, N failed`, and 1 when a check failed.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

import quorate

import isolation
from checker import ROOT, checker
from group import Group, GroupPlan
from judging import judge_history, judge_load, judge_object, judge_replicas
from load import Load, asker, perform
from member import Member
from network import cut_both_ways
from operating import REFUSED_START, Operator
from outages import P99_FLOOR_MS, outage, p99_ms, slowed
from recording import Recording
from run import SNAPSHOT_AFTER
from session import default_quorate, fresh_directory, network_of
from timeline import Mark, Timeline, Watch, draw
from verdict import Verdict, show_progress
from waiting import NeverHappened, hold, wait_until
from workload import Workload, named

TITLE = "views"
CLIENTS = 4

WHOLE_S = 60.0
"""A group is whole again after a change and a restart, on a loaded machine."""

END_S = 30.0
"""A process that left ends within ten seconds of its own; a loaded machine adds to them."""

BEGUN_S = 0.03
"""From the start of a command that removes to the fault: the change has begun and is hardly over."""
CATCHING_UP_S = 90.0
"""Within this a node that joins answers, though it starts an interpreter on a loaded machine. The fault comes
then: between the two changes of the view."""
DOWN_S = 1.0
CUT_S = 4.0
"""How long a killed leader stays down, and a cut one alone: both longer than an election."""

P99_TIMES_MAX = 3.0
GAP_MS_MAX = 300.0
"""The aims that the report compares with."""


class Leaves(Enum):
    """Which founder is replaced."""

    FOLLOWER = "a follower"
    LEADER = "the leader"


class Fault(Enum):
    """What happens during a change."""

    NONE = ""
    KILL = "leader killed"
    CUT = "leader cut off"


@dataclass(frozen=True)
class Replacement:
    """One founder, replaced by a new node."""

    leaves: Leaves
    while_joining: Fault = Fault.NONE
    while_leaving: Fault = Fault.NONE


WHOLE_PLAN = (
    Replacement(Leaves.FOLLOWER),
    Replacement(Leaves.LEADER),
    Replacement(Leaves.FOLLOWER, while_leaving=Fault.KILL),
    Replacement(Leaves.FOLLOWER, while_joining=Fault.KILL),
    Replacement(Leaves.FOLLOWER, while_joining=Fault.CUT),
)
SHORT_PLAN = (
    Replacement(Leaves.FOLLOWER),
    Replacement(Leaves.LEADER),
    Replacement(Leaves.FOLLOWER, while_joining=Fault.KILL),
)


@dataclass(frozen=True)
class Options:
    """What the command line says."""

    plan: tuple[Replacement, ...]
    calm_s: float
    """How long calls are watched before each change, to compare with."""
    served: str
    seed: int
    quorate: str
    keep: Path
    last_is_down: bool
    """Whether the last founder is killed before it is removed."""


@dataclass(frozen=True)
class Change:
    """A command that changed the view, once or twice."""

    title: str
    calm_ns: int
    start_ns: int
    end_ns: int


@dataclass
class Campaign:
    """The replacements of one run."""

    options: Options
    group: Group
    workload: Workload
    verdict: Verdict
    operator: Operator
    timeline: Timeline = field(default_factory=Timeline)
    changes: list[Change] = field(default_factory=list)
    left: list[Member] = field(default_factory=list)
    """Founders that have left."""
    end_problems: list[str] = field(default_factory=list)
    start_problems: list[str] = field(default_factory=list)

    def run(self) -> None:
        """Replace all founders under load, then judge."""
        group, directory = self.group, self.group.plan.directory
        founders = list(group.members)
        places = range(1, 2 * len(founders) + 1)
        known = f"quorate://{group.network.listen(founders[0])}/{group.plan.served.name}"
        history = directory / "history.jsonl"
        with Recording(history) as recording:
            load = Load(known, self.workload, recording, CLIENTS, self.options.seed)
            with load, Watch([group.network.admin(place) for place in places], self.timeline):
                wait_until(lambda: recording.counts()[0] > 20 * CLIENTS, 30.0, "a running load")
                problems = self._replace_all(founders)
                hold(self.options.calm_s)
            judge_load(TITLE, load, recording, [*group, *self.left], self.verdict)
            self.verdict.check(f"{TITLE} every founder replaced", problems)
            if not problems:
                self._judge_members(founders)
                judge_object(TITLE, group, self.workload, recording, self.verdict)
                judge_replicas(TITLE, group, WHOLE_S, self.verdict)
                self._judge_each_member(recording)
            recording.flush()
        judge_history(
            TITLE, os.environ["QUORATE_HISTORY"], history, len(recording.operations()), self.verdict
        )
        self._report(recording)

    def _replace_all(self, founders: list[int]) -> list[str]:
        remaining = list(founders)
        try:
            for offset, replacement in enumerate(self.options.plan):
                self._replace(replacement, remaining, len(founders) + offset + 1)
        except NeverHappened as error:
            return [f"{error}: {self.group.describe()}"]
        return []

    def _replace(self, replacement: Replacement, remaining: list[int], new: int) -> None:
        operator = self.operator
        joining = self._fault(replacement.while_joining, None)
        title = titled(f"node {new} joins", replacement.while_joining)
        self._change(title, lambda: operator.join(new, joining))
        leader = self.group.leader().number
        wanted = [node for node in remaining if (node == leader) == (replacement.leaves is Leaves.LEADER)]
        old = (wanted or remaining)[0]
        remaining.remove(old)
        if self.options.last_is_down and not remaining:
            self.group.members[old].kill()
            self.group.members[old].may_end = True
        leaving = self._fault(replacement.while_leaving, old)
        role = ", the leader, leaves" if old == leader else " leaves"
        title = titled(f"node {old}{role}", replacement.while_leaving)
        self._change(title, lambda: self._leave(old, leaving))
        self._start_again(self.left[-1])

    def _change(self, title: str, perform_change: Callable[[], None]) -> None:
        show_progress(f"{TITLE}: {title}")
        calm_ns = time.monotonic_ns()
        hold(self.options.calm_s)
        start_ns = time.monotonic_ns()
        perform_change()
        self.changes.append(Change(title, calm_ns, start_ns, time.monotonic_ns()))
        self.group.wait_whole(WHOLE_S)

    def _leave(self, old: int, meanwhile: Callable[[], None]) -> None:
        was_up = self.group.members[old].is_running()
        member = self.operator.remove(old, meanwhile)
        self.left.append(member)
        code = member.await_end(END_S) if was_up else 0
        if code is None:
            self.end_problems.append(f"node {old} runs {END_S:g} s after it was removed")
            member.kill()
        elif code != 0:
            self.end_problems.append(f"node {old} ended with {code}: {member.last_words()}")

    def _start_again(self, member: Member) -> None:
        """Who has left is refused by its own directory."""
        member.start()
        member.may_end = True
        code = member.await_end(END_S)
        if code is None:
            words = f"node {member.number} runs {END_S:g} s after its start, though it is no member"
            self.start_problems.append(f"{words}: {member.last_words()}")
            member.kill()
        elif code != REFUSED_START:
            self.start_problems.append(f"node {member.number} ended with {code}: {member.last_words()}")

    def _fault(self, fault: Fault, leaving: int | None) -> Callable[[], None]:
        match fault:
            case Fault.NONE:
                return lambda: None
            case Fault.KILL:
                return lambda: self._kill_leader(leaving)
            case Fault.CUT:
                return self._cut_leader

    def _await_begun(self) -> None:
        joining = self.group.joining
        if joining is None:
            hold(BEGUN_S)
            return
        what = f"a start of node {joining.number}"
        wait_until(lambda: joining.status() is not None, CATCHING_UP_S, what)

    def _kill_leader(self, leaving: int | None) -> None:
        self._await_begun()
        victim = self._other_leader(leaving)
        start_ns = time.monotonic_ns()
        victim.kill()
        hold(DOWN_S)
        victim.start()
        self.timeline.marks.append(Mark(start_ns, time.monotonic_ns(), f"node {victim.number} killed"))

    def _cut_leader(self) -> None:
        network = self.group.network
        if not network.can_cut:
            print("skip  the partition: it needs network namespaces", flush=True)
            return
        self._await_begun()
        leader = self.group.leader()
        joining = self.group.joining
        others = [member.number for member in self.group if member is not leader]
        start_ns = time.monotonic_ns()
        cut_both_ways(network, [leader.number], [*others, *([joining.number] if joining else [])])
        hold(CUT_S)
        network.heal()
        self.timeline.marks.append(Mark(start_ns, time.monotonic_ns(), f"node {leader.number} cut off"))

    def _other_leader(self, leaving: int | None) -> Member:
        """Who leads; one that is about to leave hands on first."""

        def other() -> Member | None:
            leader = self.group.leader()
            return leader if leader.number != leaving else None

        return wait_until(other, WHOLE_S, "a leader that stays")

    def _judge_members(self, founders: list[int]) -> None:
        members = self.operator.members()
        stayed = [f"founder {node} is a member" for node in members if node in founders]
        silent = [f"node {node} does not vote" for node, roles in members.items() if "acceptor" not in roles]
        wrong = [] if len(members) == len(founders) else [f"{len(members)} members, not {len(founders)}"]
        names = ", ".join(map(str, members))
        self.verdict.check(f"{TITLE} no founder is a member", stayed + silent + wrong, f"members {names}")
        self.verdict.check(f"{TITLE} founders ended with 0", self.end_problems)
        self.verdict.check(f"{TITLE} founders do not start again", self.start_problems)

    def _judge_each_member(self, recording: Recording) -> None:
        """Each member alone has every acknowledged call once."""
        before = [operation for operation in recording.operations() if operation.client > 0]
        steps = self.workload.final_steps(before)
        problems = []
        for member in self.group:
            address = self.group.network.listen(member.number)
            with quorate.connect(f"quorate://{address}/{self.group.plan.served.name}", timeout=30.0) as proxy:
                ask = asker(proxy, random.Random(0), levels=("loose",))
                final = [perform(0, self.workload.recorded_as, step, ask) for step in steps]
            unread = [operation.describe() for operation in final if not operation.is_acknowledged]
            found = unread or self.workload.problems(before, final)
            problems += [f"node {member.number}: {problem}" for problem in found]
        count = len(self.group.members)
        self.verdict.check(f"{TITLE} every member has each call once", problems, f"{count} members")

    def _report(self, recording: Recording) -> None:
        operations = recording.operations()
        print(f"\n{'change':44} {'s':>5} {'p99 ms before':>14} {'during':>7} {'longest gap ms':>15}")
        missed = 0
        for change in self.changes:
            before = p99_ms(operations, change.calm_ns, change.start_ns) or 0.0
            during = p99_ms(operations, change.start_ns, change.end_ns) or 0.0
            gap = outage(operations, change.start_ns, change.end_ns).longest_ms
            missed += bool(slowed(before, during, P99_TIMES_MAX)) or gap > GAP_MS_MAX
            seconds = (change.end_ns - change.start_ns) / 1e9
            print(f"{change.title:44} {seconds:5.1f} {before:14.1f} {during:7.1f} {gap:15.0f}")
        p99_aim = f"p99 at most {P99_TIMES_MAX:g} times as before, or as {P99_FLOOR_MS:g} ms"
        aim = f"{p99_aim}; no client without an answer for more than {GAP_MS_MAX:g} ms"
        print(f"{len(self.changes) - missed} of {len(self.changes)} kept the aim: {aim}")
        for repeat in self.operator.repeats:
            print(f"repeated: {repeat}")
        longest = outage(operations, self.timeline.start_ns, self.timeline.end_ns).longest_ms
        what = f"{CLIENTS} clients, {len(self.left)} machines replaced"
        title = f"{what}; longest wait of a client {longest:.0f} ms"
        try:
            for picture in draw(self.timeline, operations, title, self.group.plan.directory):
                print(f"timeline: {picture}")
        except ModuleNotFoundError as error:
            print(f"no picture: {error.name} is not installed", file=sys.stderr)


def titled(text: str, fault: Fault) -> str:
    """A change and its fault in a few words."""
    return f"{text}, {fault.value}" if fault is not Fault.NONE else text


def run(options: Options) -> Verdict:
    """One group, all replacements, all checks."""
    verdict = Verdict()
    directory = fresh_directory(options.keep, TITLE)
    print(f"seed {options.seed}, {options.served}, histories and logs in {directory}", flush=True)
    workload = named(options.served, ROOT / "examples")
    nodes = len(options.plan)
    plan = GroupPlan(
        directory=directory,
        quorate=options.quorate,
        served=workload.served,
        nodes=nodes,
        snapshot_after=SNAPSHOT_AFTER,
    )
    with network_of(2 * nodes) as network, Group(plan, network) as group, contextlib.ExitStack() as stack:
        for founder in group:
            stack.callback(founder.close)
        Campaign(options, group, workload, verdict, Operator(group)).run()
    return verdict


def main() -> int:
    """Run, print the checks, return the exit code."""
    os.environ["QUORATE_HISTORY"] = checker()
    options = read_options(sys.argv[1:])
    if options.plan is WHOLE_PLAN:
        isolation.enter()
    verdict = run(options)
    print(verdict.last_line())
    return 1 if verdict.failed or not verdict.passed else 0


def read_options(words: list[str]) -> Options:
    """The command line; wrong use ends with 2."""
    parser = argparse.ArgumentParser(prog="views", description="replace all machines of a group under load")
    parser.add_argument("--short", action="store_true", help="three founders, one kill, no namespaces")
    parser.add_argument("--object", default=None, help="shelf, rust:kv, rust:counter, ...; see run.py")
    parser.add_argument("--seed", type=int, default=None, help="seed of the calls; drawn when absent")
    parser.add_argument("--quorate", default=default_quorate(), help="the program under test")
    parser.add_argument("--keep", type=Path, default=ROOT / "out" / "nemesis", help="where all is kept")
    parser.add_argument("--down", action="store_true", help="the last founder is down when it is removed")
    given = parser.parse_args(words)
    drawn = int(os.environ.get("NEMESIS_SEED", time.time_ns() % 1_000_000))
    seed = given.seed if given.seed is not None else drawn
    os.environ["NEMESIS_SEED"] = str(seed)
    return Options(
        plan=SHORT_PLAN if given.short else WHOLE_PLAN,
        calm_s=0.5 if given.short else 2.0,
        served=given.object or ("rust:kv" if given.short else "shelf"),
        seed=seed,
        quorate=given.quorate,
        keep=given.keep,
        last_is_down=given.down,
    )


if __name__ == "__main__":
    sys.exit(main())
