"""What a run of an ordering showed, beside what the messages of one command alone predict.

Nothing is run here: `orderings.py` measures, and this says what the figures mean. A difference of
more than `EXPLAINED` gets a sentence, and the papers' claims a verdict.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any

EXPLAINED = 0.2
"""A larger difference between what is predicted and measured gets a sentence."""

EVEN_CPU_MAX = 1.3
"""The busiest node of a group that spreads its work, beside the mean of all nodes."""

RING_SAVES_MIN = 1.8
RING_NODES, RING_SIZE = 5, 4_096

SYMMETRIC = ("s_paxos", "fast_paxos")
"""Whoever is called sends the values. In the others the leader does."""


@dataclass(frozen=True)
class Case:
    """What is measured."""

    name: str
    ordering: str
    nodes: int
    size: int
    clients: int
    window: int
    is_spread: bool = False
    """Whether each client stays with a node of its own; else it may move to the leader."""
    batch: int = 1
    """Commands in one call."""


@dataclass(frozen=True)
class Row:
    """What a run showed, or the medians of several."""

    commands: float
    p50_ms: float
    p99_ms: float
    cpu_s: float
    """Of all that counts, for 1000 commands."""
    node_cpu_s: tuple[float, ...]
    sent: tuple[float, ...]
    """Bytes that each node sent for a command."""

    @property
    def busiest_sent(self) -> float:
        """Bytes of the node that sent most."""
        return max(self.sent, default=0.0)

    @property
    def unevenness(self) -> float:
        """CPU of the busiest node beside the mean of all."""
        mean = fmean(self.node_cpu_s) if self.node_cpu_s else 0.0
        return max(self.node_cpu_s) / mean if mean > 0 else 0.0


@dataclass(frozen=True)
class Prediction:
    """What the busiest node sends for one command that comes alone."""

    sent: float
    messages: float
    copies: float
    """How many of its messages bring the value."""


@dataclass(frozen=True)
class Verdict:
    """Whether a claim holds here."""

    claim: str
    found: str
    holds: bool


def row_of(report: dict[str, Any], batch: int) -> Row:
    """What `quorate bench` printed, for each command of its calls."""
    latency, cost = report["latency_us"], report["cpu_s_per_1000_ops"]
    return Row(
        report["ops_per_s"] * batch,
        latency["p50"] / 1000,
        latency["p99"] / 1000,
        cost["total"] / batch,
        tuple(spent / batch for spent in cost["each_node"]),
        tuple(sent / batch for sent in report["sent_bytes_per_op"]),
    )


def middle(rows: Sequence[Row]) -> Row:
    """Take the median of each figure."""
    return Row(
        median(row.commands for row in rows),
        median(row.p50_ms for row in rows),
        median(row.p99_ms for row in rows),
        median(row.cpu_s for row in rows),
        # By rank: another node may lead in each run.
        tuple(map(median, zip(*(sorted(row.node_cpu_s) for row in rows), strict=True))),
        tuple(map(median, zip(*(sorted(row.sent) for row in rows), strict=True))),
    )


def predicted(trace: dict[str, Any], case: Case) -> Prediction:
    """What `quorate bench --trace-one` counted of one call at the leader, for a command of it.

    Where clients are at all nodes and the values come from whoever is called, each node sends what
    all send together in turn. Where the leader sends them it sends them for all.
    """
    nodes = {sender["party"] for sender in trace["sent"]} - {"client"}
    size = case.size * case.batch
    each = {}
    for node in nodes:
        sent = [message["bytes"] for message in trace["messages"] if message["from"] == node]
        each[node] = (sum(sent), len(sent), sum(number >= size for number in sent))
    if case.is_spread and case.ordering in SYMMETRIC:
        figures = [sum(column) / len(nodes) for column in zip(*each.values(), strict=True)]
    else:
        figures = [float(figure) for figure in max(each.values())]
    return Prediction(*(figure / case.batch for figure in figures))


def difference(case: Case, row: Row, promise: Prediction) -> str | None:
    """A sentence about bytes that are not as predicted; none where they are."""
    off = row.busiest_sent / promise.sent - 1
    if abs(off) <= EXPLAINED:
        return None
    # A prediction for a batch has its parts for one command.
    values = promise.copies * case.size * case.batch
    beside, foreseen = row.busiest_sent - values, promise.sent - values
    told = f"{case.name}: {row.busiest_sent:.0f} bytes a command,"
    told += f" {off:+.0%} beside {promise.sent:.0f}: "
    if beside < 0:
        copies = row.busiest_sent / case.size
        told += f"the value went out {copies:.1f} times, not {promise.copies * case.batch:.1f}: "
        if case.ordering in SYMMETRIC:
            return (
                told + "clients stay with the node that they found, so that none sends all values"
            )
        return told + "who was spared, or had no credit left, fetched it from another node"
    if off < 0:
        return told + (
            f"beside values {beside:.0f} bytes, not {foreseen:.0f}: batches share the heads of"
            " messages, and votes and decisions name many slots at once"
        )
    if beside - foreseen < case.size / 2:
        return told + (
            f"beside values {beside:.0f} bytes, not {foreseen:.0f}: signs of life, and at the"
            " leader what follows from the others' calls"
        )
    return told + (
        f"{(beside - foreseen) / case.size:.1f} more copies of the value: it was sent again, or"
        " fetched from this node by one that lagged"
    )


def even_cpu(measured: Iterable[tuple[Case, Row]]) -> list[Verdict]:
    """Whether S-Paxos spreads the work where clients are at all nodes, beside `paxos`."""
    rows = {(case.nodes, case.size, case.ordering): row for case, row in measured if case.is_spread}
    found = []
    for (nodes, size, ordering), row in rows.items():
        beside = rows.get((nodes, size, "paxos"))
        if ordering != "s_paxos":
            continue
        told = f"{row.unevenness:.2f} times the mean"
        if beside is not None:
            told += f" (paxos {beside.unevenness:.2f})"
        claim = f"s_paxos, {nodes} nodes, {size} bytes: no node takes more than {EVEN_CPU_MAX}"
        claim += " times the mean CPU"
        found.append(Verdict(claim, told, 0 < row.unevenness <= EVEN_CPU_MAX))
    return found


def ring_saves(measured: Iterable[tuple[Case, Row]]) -> list[Verdict]:
    """Whether a ring takes bytes from the busiest node; nothing where it was not measured."""
    rows = {
        case.ordering: row
        for case, row in measured
        if (case.nodes, case.size) == (RING_NODES, RING_SIZE)
        and not case.is_spread
        and case.batch == 1
    }
    if not {"paxos", "ring_paxos"} <= rows.keys() or rows["ring_paxos"].busiest_sent == 0:
        return []
    times = rows["paxos"].busiest_sent / rows["ring_paxos"].busiest_sent
    claim = f"ring_paxos, {RING_NODES} nodes, {RING_SIZE} bytes: the busiest node sends"
    claim += f" {RING_SAVES_MIN} times less than with paxos"
    return [Verdict(claim, f"{times:.2f} times less", times >= RING_SAVES_MIN)]
