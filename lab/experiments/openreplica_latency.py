"""OpenReplica, figures 5 to 8: latency by the number of replicas, and by the size of the state.

The paper has eleven machines; here all nodes and the client share one. Twice the replicas then cost twice
the work, so latency in proportion to their number is the bound: a protocol in which every node talks to
every node would exceed it. The size of the state should not matter at all, because the object is live at each
replica, and calls travel instead of states.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import quorate

from drawing import BLUE, GREEN, GREY, RED, Drawing, Plot
from experiment import Check, Experiment, Record, Reference
from group import Group, ObjectPlan
from sized_account import SizedAccount
from stage import CALL_S, Stage, read_each, timed_us

OBJECTS = Path(__file__).resolve().parent / "objects"
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

REPLICAS = (3, 5, 7, 9, 11, 13)
STATE_BYTES = (128, 1 << 10, 16 << 10, 256 << 10, 4 << 20)
USUAL_STATE_BYTES = 128
USUAL_REPLICAS = 5
PERSISTS = ("memory", "disk")
WARM_CALLS = 50
CALLS, ROUNDS = 1000, 3

SLACK = 1.25
"""What one machine that also does other work may add to a median."""
LONGEST_MS = 8.0
"""Of the paper's figure 6: OpenReplica's calls take from less than 1 ms to 8 ms."""


def plans(is_short: bool) -> list[tuple[str, str, int, int]]:
    """Series, persistence, replicas and bytes of state of each group."""
    if is_short:
        small = [("replicas", "memory", replicas, USUAL_STATE_BYTES) for replicas in (3, 5)]
        return [*small, ("state", "memory", 3, 128), ("state", "memory", 3, 64 << 10)]
    by_replicas = [
        ("replicas", persist, replicas, USUAL_STATE_BYTES) for persist in PERSISTS for replicas in REPLICAS
    ]
    return [*by_replicas, *(("state", "memory", USUAL_REPLICAS, size) for size in STATE_BYTES)]


def measure(stage: Stage) -> Iterator[Record]:
    """A group for each point, round after round, so that a busy minute meets all points alike."""
    rounds, calls = (1, 100) if stage.is_short else (ROUNDS, CALLS)
    todo = [(number, *plan) for number in range(rounds) for plan in plans(stage.is_short)]
    for done, (number, series, persist, replicas, state) in enumerate(todo):
        what = f"{replicas} replicas, persist {persist}, {size_text(state)} of state"
        stage.bar.show(done / len(todo), what)
        arguments, path = f'["A-1", {state}]', (OBJECTS, EXAMPLES)
        served = ObjectPlan("SizedAccount", "sized_account:SizedAccount", arguments, path)
        with stage.group(served, replicas, persist) as group:
            yield {
                "series": series,
                "round": number,
                "persist": persist,
                "replicas": replicas,
                "acceptors": replicas,
                "state_bytes": state,
                **one_group(group, calls),
            }


def one_group(group: Group, calls: int) -> Record:
    """Calls one after the other by one client, and then what each replica holds."""
    answers: list[int] = []
    with quorate.connect(group.endpoint, SizedAccount, timeout=CALL_S) as account:

        def call() -> None:
            answers.append(account.deposit(1))

        for _ in range(WARM_CALLS):
            call()
        latencies = [timed_us(call) for _ in range(calls)]
    expected = len(answers)
    totals = read_each(group, SizedAccount, SizedAccount.total, lambda total: total == expected)
    return {"acknowledged": expected, "latencies_us": latencies, "losses": lost(answers, totals)}


def lost(answers: Sequence[int], totals: dict[int, int]) -> list[str]:
    """Deposits of 1 by one client are answered 1, 2, 3, ..., and each replica holds their sum."""
    found = [
        f"call {number} was answered {answer}" for number, answer in enumerate(answers, 1) if answer != number
    ]
    found += [
        f"node {node} holds {total} of {len(answers)} acknowledged calls"
        for node, total in totals.items()
        if total != len(answers)
    ]
    return found


def medians_ms(records: Sequence[Record], series: str, persist: str, key: str) -> dict[int, float]:
    """The median latency by `key`, of the rounds the one in the middle."""
    rounds: dict[int, list[float]] = defaultdict(list)
    for record in records:
        if (record["series"], record["persist"]) == (series, persist):
            rounds[record[key]].append(statistics.median(record["latencies_us"]) / 1000)
    return {point: statistics.median(each) for point, each in sorted(rounds.items())}


def calls_ms(records: Sequence[Record], series: str, persist: str, key: str, point: int) -> list[float]:
    """All latencies at one point, the shortest first."""
    return sorted(
        latency / 1000
        for record in records
        if (record["series"], record["persist"], record[key]) == (series, persist, point)
        for latency in record["latencies_us"]
    )


def judge(records: Sequence[Record]) -> list[Check]:
    """Growth by replicas for each way to persist, and by state."""
    by_persist = [(each, medians_ms(records, "replicas", each, "replicas")) for each in PERSISTS]
    checks = [by_replicas(persist, medians) for persist, medians in by_persist if medians]
    return [*checks, by_state(medians_ms(records, "state", "memory", "state_bytes"))]


def by_replicas(persist: str, medians: dict[int, float]) -> Check:
    """Latency grows no faster than the number of replicas."""
    first, last = min(medians), max(medians)
    worst = max(medians[n] / medians[first] / (n / first) for n in medians)
    return Check(
        figure="figures 5, 8",
        claim=f"median latency grows no faster than the number of replicas ({persist})",
        paper="latency stays low with many replicas and acceptors",
        here=f"{medians[first]:.2f} ms with {first}, {medians[last]:.2f} ms with {last}: "
        f"{medians[last] / medians[first]:.1f} times for {last / first:.1f} times the replicas",
        holds=worst <= SLACK,
    )


def by_state(medians: dict[int, float]) -> Check:
    """Latency does not depend on the state's size."""
    first, last = min(medians), max(medians)
    low, high = min(medians.values()), max(medians.values())
    return Check(
        figure="figure 7",
        claim="median latency does not depend on the size of the state",
        paper="the same for any size of the replicated state",
        here=f"{medians[first]:.2f} ms with {size_text(first)}, {medians[last]:.2f} ms with "
        f"{size_text(last)}; {low:.2f} to {high:.2f} ms over all",
        holds=high <= SLACK * low,
    )


def size_text(size: int) -> str:
    """A size for people."""
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return f"{size // unit} {name}"
    return f"{size} B"


def draw(records: Sequence[Record], drawing: Drawing) -> None:
    """Figures 5 and 8 in one, figure 7, and figure 6."""
    title = "Latency of a call by the number of replicas, each also an acceptor (median, 5 % to 95 %)"
    with drawing.picture("replicas", title) as plot:
        axes = plot.axes
        for persist, colour in zip(PERSISTS, (BLUE, GREEN), strict=True):
            series(plot, records, "replicas", persist, "replicas", colour)
            medians = medians_ms(records, "replicas", persist, "replicas")
            if medians:
                first = min(medians)
                line = [medians[first] * n / first for n in medians]
                axes.plot(list(medians), line, color=colour, linewidth=0.8, linestyle=":")
        plot.reference(LONGEST_MS, "the paper's slowest calls: 8 ms", GREY)
        axes.set(xlabel="replicas and acceptors (dotted: in proportion)", ylabel="ms", ylim=(0, None))
        axes.set_xticks(sorted({r["replicas"] for r in records if r["series"] == "replicas"}))
        axes.legend(loc="upper left", fontsize=8)
    title = "Latency of a call by the size of the replicated state (median, 5 % to 95 %)"
    with drawing.picture("state", title) as plot:
        axes = plot.axes
        series(plot, records, "state", "memory", "state_bytes", RED)
        sizes = sorted({r["state_bytes"] for r in records if r["series"] == "state"})
        axes.set_xscale("log", base=2)
        axes.set_xticks(sizes, [size_text(size) for size in sizes])
        axes.set(xlabel="state", ylabel="ms", ylim=(0, None))
    some = min(USUAL_REPLICAS, max(record["replicas"] for record in records))
    with drawing.picture("distribution", f"Calls that take at most so long, with {some} replicas") as plot:
        axes = plot.axes
        for persist, colour in zip(PERSISTS, (BLUE, GREEN), strict=True):
            calls = calls_ms(records, "replicas", persist, "replicas", some)
            share = [(number + 1) / len(calls) for number in range(len(calls))]
            if calls:
                axes.step(calls, share, where="post", color=colour, label=f"persist {persist}")
        axes.axvline(LONGEST_MS, color=GREY, linewidth=0.8, linestyle="--", label="the paper's slowest")
        axes.set(xlabel="ms", ylabel="share of all calls", xlim=(0, 1.5 * LONGEST_MS), ylim=(0, 1))
        axes.legend(loc="lower right", fontsize=8)


def series(plot: Plot, records: Sequence[Record], name: str, persist: str, key: str, colour: str) -> None:
    """One line with bars."""
    medians = medians_ms(records, name, persist, key)
    if not medians:
        return
    below, above = [], []
    for point, median in medians.items():
        calls = calls_ms(records, name, persist, key, point)
        below.append(max(0.0, median - calls[len(calls) * 5 // 100]))
        above.append(max(0.0, calls[len(calls) * 95 // 100] - median))
    plot.axes.errorbar(
        list(medians),
        list(medians.values()),
        [below, above],
        color=colour,
        marker="o",
        markersize=4,
        capsize=3,
        label=f"persist {persist}",
    )


EXPERIMENT = Experiment(
    title="latency by the number of replicas and acceptors, and by the size of the state",
    paper="OpenReplica",
    references=(
        Reference("figure 5", "comparable to ZooKeeper: lower with few replicas, within 0.5 ms with many"),
        Reference("figure 6", "calls take from less than 1 ms to 8 ms"),
        Reference("figure 7", "the size of the state does not affect latency"),
        Reference("figure 8", "latency stays low with many replicas and acceptors"),
    ),
    measure=measure,
    judge=judge,
    draw=draw,
)
