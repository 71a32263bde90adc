"""OpenReplica, figure 10: the latency of each call while leaders fail at operations 250 and 500.

The leader is killed right before the client sends that operation, and started again once it is answered. The
client sends the other one only when the group is whole, so that both failovers meet the same group.
"""

from __future__ import annotations

import statistics
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import quorate

from audited_bank import AuditedAccount
from drawing import BLUE, GREEN, GREY, RED, Drawing
from experiment import Check, Experiment, Record, Reference
from group import Group, ObjectPlan
from stage import CALL_S, CATCH_UP_S, Stage, read_each, timed_us

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

OPERATIONS = 750
KILLS = (250, 500)
NODES, ROUNDS = 5, 10
PAPER_S, ZOOKEEPER_S = 2.75, 2.0
ENTRIES_MAX = 5_000
"""Entries that one read of the account's audit gives: more than a round has."""


def measure(stage: Stage) -> Iterator[Record]:
    """A fresh group for each round."""
    nodes, rounds = (3, 1) if stage.is_short else (NODES, ROUNDS)
    served = ObjectPlan("AuditedAccount", "audited_bank:AuditedAccount", args='["A-1"]', path=(EXAMPLES,))
    for number in range(rounds):
        stage.bar.show(number / rounds, f"round {number + 1} of {rounds}")
        with stage.group(served, nodes, "disk") as group:
            yield {"round": number, "replicas": nodes, "persist": "disk", **one_round(group)}


def one_round(group: Group) -> Record:
    """All operations by one client, and the kills."""
    latencies: list[int] = []
    kills: list[Record] = []
    with quorate.connect(group.endpoint, AuditedAccount, timeout=CALL_S) as account:
        # The first call of fresh host processes takes tens of milliseconds; this one leaves no entry.
        account.deposit(0)
        for operation in range(1, OPERATIONS + 1):

            def call(token: int = operation) -> None:
                account.deposit_as(token, 1)

            if operation not in KILLS:
                latencies.append(timed_us(call))
                continue
            group.wait_whole(CATCH_UP_S)
            leader = group.leader()
            began = time.perf_counter_ns()
            leader.kill()
            latencies.append(timed_us(call))
            gap_us = (time.perf_counter_ns() - began) // 1000
            successor = group.leader().number
            killed = {"operation": operation, "node": leader.number, "next_leader": successor}
            kills.append({**killed, "gap_us": gap_us})
            leader.start()
    held = read_each(
        group,
        AuditedAccount,
        lambda replica: replica.audit(0, ENTRIES_MAX),
        lambda entries: len(entries) >= OPERATIONS,
    )
    losses = [loss for node, entries in held.items() for loss in lost(node, entries)]
    return {
        "acknowledged": len(latencies),
        "latencies_us": latencies,
        "kills": kills,
        "losses": losses,
    }


def lost(node: int, entries: Sequence[tuple[int, int]]) -> list[str]:
    """Each operation stands exactly once on the replica."""
    times = Counter(token for token, _ in entries)
    return [
        f"node {node} has executed operation {token} {times[token]} times"
        for token in sorted(times.keys() | set(range(1, OPERATIONS + 1)))
        if times[token] != (1 <= token <= OPERATIONS)
    ]


def gaps_s(records: Sequence[Record]) -> list[float]:
    """From each kill to the next answer, in seconds."""
    return [kill["gap_us"] / 1e6 for record in records for kill in record["kills"]]


def judge(records: Sequence[Record]) -> list[Check]:
    """No failover takes longer than the paper's do on average."""
    gaps = gaps_s(records)
    return [
        Check(
            figure="figure 10",
            claim="the longest time without an answer after a kill is below the paper's average",
            paper=f"{PAPER_S} s on average (ZooKeeper {ZOOKEEPER_S:g} s)",
            here=f"{max(gaps):.3f} s at the longest, {statistics.mean(gaps):.3f} s on average, "
            f"of {len(gaps)} kills",
            holds=max(gaps) <= PAPER_S,
        )
    ]


def draw(records: Sequence[Record], drawing: Drawing) -> None:
    """The round whose longest gap is the longest of all, as the paper draws one run."""
    worst = max(records, key=lambda record: max(kill["gap_us"] for kill in record["kills"]))
    latencies = [latency / 1000 for latency in worst["latencies_us"]]
    longest = max(gaps_s([worst]))
    title = f"One client, {worst['replicas']} nodes, the leader killed twice: longest gap {longest:.3f} s"
    with drawing.picture("failover", title) as plot:
        axes = plot.axes
        axes.plot(range(1, len(latencies) + 1), latencies, color=BLUE, linewidth=0.8)
        plot.reference(PAPER_S * 1000, f"the paper's OpenReplica: {PAPER_S} s on average", RED)
        plot.reference(ZOOKEEPER_S * 1000, f"its ZooKeeper: {ZOOKEEPER_S:g} s", GREY, side="top")
        for kill in worst["kills"]:
            point = (kill["operation"], kill["gap_us"] / 1000)
            text = f" leader killed: {point[1]:.0f} ms until the next answer"
            axes.plot(*point, color=GREEN, marker="x")
            axes.annotate(text, point, fontsize=8, color=GREEN, va="bottom")
        axes.set(xlabel="operation", ylabel="ms", yscale="log", ylim=(None, 10_000))


EXPERIMENT = Experiment(
    title="latency of each call while leaders are killed at operations 250 and 500",
    paper="OpenReplica",
    references=(
        Reference("figure 10", "2.75 s until a failed leader is replaced, on average; ZooKeeper 2 s"),
    ),
    measure=measure,
    judge=judge,
    draw=draw,
)
