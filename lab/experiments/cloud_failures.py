"""The Performance of Paxos in the Cloud, figures 3, 4, 6 and 7: a group with a slow acceptor, and a kill.

In the first cases one acceptor of three has a tenth of a processor, and the other one is killed under load. A
group whose leader sends the slow acceptor everything (`limits.flow = "unbounded"`, as Libpaxos does) is
silent until that acceptor has worked off what has piled up; Libpaxos+ has spared it, and credit bounds what
can pile up. A leader that sends again what is not acknowledged (`retry`, as OpenReplica) piles up more; one
that waits (`blocking`, as S-Paxos) has nothing pile up, and runs at the slow one's pace. Then, with equal
nodes, an acceptor and the leader are killed in each ordering.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from bench_load import BenchLoad
from drawing import BLUE, GREEN, GREY, RED, Drawing
from experiment import Check, Experiment, Record, Reference
from group import Group, ObjectPlan
from stage import CATCH_UP_S, Stage
from throttle import Throttle
from waiting import hold

KV = ObjectPlan("Kv", "rust:kv")
SIZE = 4096
"""Bytes of a value: the middle one of the paper's."""

CLIENTS, WINDOW = 4, 16
SHARE = 0.1
"""Of one processor, for the slow acceptor."""

WARM_UP_S = 1.0
BEFORE_S, AFTER_S = 5.0, 10.0
STEPS_PER_S = 10
"""Of the timeline of `quorate bench`."""

STALL_MS = 2000.0
"""The paper's are 4 s and 18 s. The votes of the slow acceptor take long by themselves; that is no stall."""

PACE_MAX = 0.7
"""Of the calls with credit, for a leader that waits for the slow acceptor. It was 0.37 at first."""

EVERYTHING = ('flow = "unbounded"', f"peer_queue = {4 << 30}")
"""No bound but memory, also where bytes wait for a link."""


@dataclass(frozen=True)
class Case:
    """One group, and who is killed."""

    ordering: str
    flow: str
    killed: str
    has_slow: bool
    nodes: int = 3

    @property
    def title(self) -> str:
        """The same in words."""
        slow = ", beside a slow one" if self.has_slow else ""
        return f"{self.ordering}, {self.flow}: {self.killed} killed{slow}"


FLOWS: dict[str, tuple[str, ...]] = {
    "credit": (),
    "unbounded": EVERYTHING,
    "retry": ("flow = { retry = 50 }", EVERYTHING[1]),
    "blocking": ("flow = { blocking = 64 }",),
}
"""What a leader does about an acceptor that does not keep up: Quorate's way, and those of libraries."""

STALLS = (
    Case("libpaxos", "unbounded", "acceptor", has_slow=True),
    Case("libpaxos+", "unbounded", "acceptor", has_slow=True),
    Case("paxos", "credit", "acceptor", has_slow=True),
    Case("libpaxos", "credit", "acceptor", has_slow=True),
    Case("libpaxos+", "credit", "acceptor", has_slow=True),
    Case("paxos", "retry", "acceptor", has_slow=True),
    Case("paxos", "blocking", "acceptor", has_slow=True),
)
KILLS = tuple(
    Case(ordering, "credit", killed, has_slow=False, nodes=nodes)
    for ordering, nodes in (
        ("paxos", 3),
        ("libpaxos", 3),
        ("libpaxos+", 3),
        ("ring_paxos", 3),
        ("fast_paxos", 4),
    )
    for killed in ("acceptor", "leader")
)
SHORT = (Case("libpaxos+", "credit", "acceptor", has_slow=False),)


def measure(stage: Stage) -> Iterator[Record]:
    """A fresh group for each case."""
    cases = SHORT if stage.is_short else STALLS + KILLS
    for number, case in enumerate(cases):
        stage.bar.show(number / len(cases), case.title)
        with stage.group(KV, case.nodes, "memory", case.ordering, FLOWS[case.flow]) as group:
            yield {**asdict(case), **one_case(group, case, stage)}


def one_case(group: Group, case: Case, stage: Stage) -> Record:
    """Load, a kill, and what it cost."""
    leader = group.leader()
    slow, other = group.followers()[:2]
    victim = leader if case.killed == "leader" else other
    before_s = BEFORE_S / 5 if stage.is_short else BEFORE_S
    after_s = AFTER_S / 5 if stage.is_short else AFTER_S
    timeline = stage.directory / "timeline.csv"
    with contextlib.ExitStack() as until_slow_no_more:
        if case.has_slow:
            until_slow_no_more.enter_context(Throttle(slow.pid, SHARE))
        length = before_s + after_s
        with BenchLoad(group, length, CLIENTS, WINDOW, SIZE, timeline) as load:
            hold(WARM_UP_S + before_s)
            victim.kill()
            load.report()
    victim.start()
    equal = group.wait_equal(CATCH_UP_S)
    steps = read_timeline(timeline)
    return {
        "acknowledged": round(sum(each for _, each, _ in steps) / STEPS_PER_S),
        "operations_per_s_before": rate(steps[: int(before_s * STEPS_PER_S)]),
        "timeline": steps,
        "killed_at_s": before_s,
        "outage_ms": outage_ms(steps, before_s),
        "losses": differing({node: status.digest for node, status in equal.items()}),
    }


def read_timeline(file: Path) -> list[tuple[float, float, float]]:
    """Second, operations per second, and the worst latency in milliseconds, of each tenth of a second."""
    lines = [line.split(",") for line in file.read_text().splitlines()[1:]]
    return [(float(second), float(each), float(worst) / 1000) for second, each, worst in lines]


def outage_ms(steps: Sequence[tuple[float, float, float]], killed_at_s: float) -> float:
    """The longest time without an answer after the kill, if it was not over at the end of the run."""
    after = [(each, worst) for second, each, worst in steps if second >= killed_at_s - 1 / STEPS_PER_S]
    silent = longest = 0
    # The last step is that of calls which ended after the load.
    for each, _ in after[:-1]:
        silent = 0 if each else silent + 1
        longest = max(longest, silent)
    return max(longest * 1000.0 / STEPS_PER_S, *(worst for _, worst in after))


def rate(steps: Sequence[tuple[float, float, float]]) -> float:
    """Operations per second, on average."""
    return sum(each for _, each, _ in steps) / len(steps)


def differing(digests: dict[int, str]) -> list[str]:
    """Replicas that have executed the same slots hold the same."""
    if len(set(digests.values())) <= 1:
        return []
    return [f"node {node} holds {digest}" for node, digest in digests.items()]


def outages_ms(records: Sequence[Record], *, has_slow: bool) -> dict[tuple[str, str, str], float]:
    """How long each case was silent."""
    chosen = [record for record in records if record["has_slow"] == has_slow]
    return {(record["ordering"], record["flow"], record["killed"]): record["outage_ms"] for record in chosen}


def judge(records: Sequence[Record]) -> list[Check]:
    """Libpaxos stalls where everything is sent to a slow acceptor, and nothing else does."""
    slow = outages_ms(records, has_slow=True)
    equal = outages_ms(records, has_slow=False)
    checks = [
        Check(
            figure="figure 6",
            claim="no kill of an acceptor or the leader silences a group of equal nodes for two seconds",
            paper="not measured",
            here=", ".join(f"{name} {killed} {ms:.0f} ms" for (name, _, killed), ms in equal.items()),
            holds=all(ms < STALL_MS for ms in equal.values()),
        )
    ]
    if not slow:
        return checks
    stalled = slow.pop(("libpaxos", "unbounded", "acceptor"))
    spared = slow.pop(("libpaxos+", "unbounded", "acceptor"))
    repeated = slow.pop(("paxos", "retry", "acceptor"))
    waited = slow.pop(("paxos", "blocking", "acceptor"))
    paces = {
        record["flow"]: record["operations_per_s_before"]
        for record in records
        if record["has_slow"] and record["ordering"] == "paxos"
    }
    pace = paces["blocking"] / paces["credit"]
    return [
        Check(
            figure="figure 3",
            claim="a leader that waits for every acceptor runs at the pace of a slow one, and does not stall",
            paper="S-Paxos proceeds at the pace of the slowest acceptor",
            here=f"{pace:.2f} of the calls with credit, {waited:.0f} ms of silence after the kill",
            holds=pace <= PACE_MAX and waited < STALL_MS,
        ),
        Check(
            figure="figure 4",
            claim="a leader that sends again has no quorum when an acceptor fails beside a slow one",
            paper="OpenReplica decides nothing until the quorum is restored; how long is not said",
            here=f"{repeated:.0f} ms, with credit {slow['paxos', 'credit', 'acceptor']:.0f} ms",
            holds=repeated >= max(STALL_MS, 2 * slow["paxos", "credit", "acceptor"]),
        ),
        Check(
            figure="figures 6, 7",
            claim="Libpaxos stalls when one acceptor is slow and another one fails; Libpaxos+ does not",
            paper="4 s in a cluster and 18 s over regions of Libpaxos; none of Libpaxos+",
            here=f"libpaxos {stalled:.0f} ms, libpaxos+ {spared:.0f} ms",
            holds=stalled >= max(STALL_MS, 3 * spared) and spared < STALL_MS,
        ),
        Check(
            figure="figure 6",
            claim="with credit no ordering stalls for two seconds",
            paper="not measured",
            here=", ".join(f"{name} {ms:.0f} ms" for (name, _, _), ms in slow.items()),
            holds=all(ms < STALL_MS for ms in slow.values()),
        ),
        *checks,
    ]


def draw(records: Sequence[Record], drawing: Drawing) -> None:
    """Calls per second around the kill, of the cases with a slow acceptor where there are any."""
    chosen = [record for record in records if record["has_slow"]] or list(records)
    with drawing.picture("failures", "An acceptor is killed; another one has a tenth of a processor") as plot:
        for record, colour in zip(
            chosen, (RED, GREEN, GREY, BLUE, "#c08a2b", "#7a4fa3", "#3aa6a6"), strict=False
        ):
            at = record["killed_at_s"]
            seconds = [second - at for second, _, _ in record["timeline"]]
            calls = [each / 1000 for _, each, _ in record["timeline"]]
            label = f"{record['ordering']}, {record['flow']}"
            plot.axes.plot(seconds, calls, color=colour, linewidth=0.9, label=label)
        plot.axes.axvline(0, color=GREY, linewidth=0.8, linestyle="--")
        plot.axes.set(xlabel="seconds since the kill", ylabel="thousand calls per second", ylim=(0, None))
        plot.axes.legend(fontsize=8)


EXPERIMENT = Experiment(
    title="how long groups are silent when an acceptor or the leader is killed, beside a slow acceptor too",
    paper="Paxos in the Cloud",
    references=(
        Reference("figure 3", "S-Paxos proceeds at the pace of the slowest acceptor"),
        Reference(
            "figure 4", "OpenReplica loses throughput to retransmissions; after a kill a quorum is missing"
        ),
        Reference("figure 6", "Libpaxos is silent for 4 s after a fast acceptor fails; Libpaxos+ is not"),
        Reference("figure 7", "the same over regions: 18 s, and no silence of Libpaxos+"),
    ),
    measure=measure,
    judge=judge,
    draw=draw,
)
