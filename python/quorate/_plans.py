"""What happens in a simulated run: calls of clients and faults between them, drawn from a seed and shrunk."""

from __future__ import annotations

import dataclasses
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal

from quorate import _native

Kind = Literal["call", "crash", "restart", "cut", "heal", "snapshot"]

START_NS = 1_700_000_000_000_000_000
"""What the clocks show at the beginning of every run."""


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
    """One thing that happens.

    >>> Step("crash", node=2).shown()
    'node 2 crashes'
    """

    kind: Kind
    node: int = 0
    client: int = 0
    payload: bytes = b""
    level: str | None = None
    """Of a read; None for a call."""
    hides: bool = False
    """Whether a node is cut off from clients too."""
    pause: float = 0.0
    """Virtual seconds until the next step."""

    def shown(self) -> str:
        """The step in words, without what came of it."""
        match self.kind:
            case "call":
                name, args, kwargs = _native.loads(self.payload)
                words = [_short(repr(arg)) for arg in args]
                words += [f"{key}={_short(repr(value))}" for key, value in kwargs.items()]
                return f"client {self.client + 1}: {name}({', '.join(words)})"
            case "crash":
                return f"node {self.node} crashes"
            case "restart":
                return f"node {self.node} starts again"
            case "cut":
                whom = "nodes and clients" if self.hides else "nodes"
                return f"node {self.node} is cut off from other {whom}"
            case "heal":
                return f"node {self.node} is connected again"
            case "snapshot":
                return "every replica takes a snapshot"


@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
    """A run."""

    seed: int
    nodes: int
    clients: int
    snapshot_every: int
    copies_per_mille: int
    steps: tuple[Step, ...]


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."


def draw(seed: int, nodes: int, calls: Sequence[Sequence[bytes]], reads: Mapping[str, str]) -> Plan:
    """A plan with the calls of each client, and with faults."""
    chance = random.Random(seed)
    faults = _Faults(chance, nodes)
    order = [client for client, own in enumerate(calls) for _ in own]
    chance.shuffle(order)
    waiting = [iter(own) for own in calls]
    half, late = len(order) // 2, len(order) * 2 // 3
    steps: list[Step] = []
    for index, client in enumerate(order):
        if index == half:
            steps += faults.through_image()
        if index == late:
            steps += faults.through_images()
        steps += faults.now_and_then()
        payload = next(waiting[client])
        level = _level(chance, reads.get(_native.loads(payload)[0], ""))
        pause = chance.choice([0.0, 0.0, 0.0005, 0.003])
        steps.append(Step("call", client=client, payload=payload, level=level, pause=pause))
    copies = chance.choice([0, 100, 300])
    return Plan(seed, nodes, len(calls), chance.randint(3, 12), copies, tuple(steps))


def _level(chance: random.Random, kind: str) -> str | None:
    if kind == "declared" or (kind == "proven" and chance.random() < 0.7):
        return chance.choice(["confirmed", "confirmed", "lease", "ordered"])
    return None


class _Faults:
    """Never more nodes are away than the group can miss."""

    def __init__(self, chance: random.Random, nodes: int) -> None:
        self._chance = chance
        self._nodes = range(1, nodes + 1)
        self._down: set[int] = set()
        self._cut: set[int] = set()

    def now_and_then(self) -> Iterator[Step]:
        """A fault, or the end of one, between two calls."""
        chance = self._chance
        if chance.random() > 0.2:
            return
        if away := sorted(self._down | self._cut):
            yield from self._end(chance.choice(away))
        elif len(self._nodes) > 2 or chance.random() < 0.3:
            node = chance.choice(self._nodes)
            if chance.random() < 0.6:
                self._down.add(node)
                yield Step("crash", node=node, pause=chance.choice([0.0, 0.01, 1.0]))
            else:
                self._cut.add(node)
                hides = chance.random() < 0.5
                yield Step("cut", node=node, hides=hides, pause=chance.choice([0.0, 0.01, 1.0]))

    def through_image(self) -> Iterator[Step]:
        """A snapshot, and one node that begins again with it."""
        yield from self._end_all()
        yield Step("snapshot", pause=0.1)
        yield from self._again(self._chance.choice(self._nodes))

    def through_images(self) -> Iterator[Step]:
        """A snapshot, and all nodes that begin again with it, one after the other."""
        yield from self._end_all()
        yield Step("snapshot", pause=0.1)
        for node in self._chance.sample(self._nodes, len(self._nodes)):
            yield from self._again(node)

    def _again(self, node: int) -> Iterator[Step]:
        yield Step("crash", node=node)
        yield Step("restart", node=node, pause=0.2)

    def _end_all(self) -> Iterator[Step]:
        for node in sorted(self._down | self._cut):
            yield from self._end(node)

    def _end(self, node: int) -> Iterator[Step]:
        kind: Kind = "restart" if node in self._down else "heal"
        self._down.discard(node)
        self._cut.discard(node)
        yield Step(kind, node=node, pause=self._chance.choice([0.0, 0.05, 0.5]))


def shrink(plan: Plan, fails: Callable[[Plan], bool], seconds: float) -> Plan:
    """A plan with fewer steps that fails too; tries for so many seconds.

    >>> steps = tuple(Step("crash", node=number) for number in range(20))
    >>> found = shrink(Plan(0, 3, 1, 5, 0, steps), lambda plan: any(s.node == 7 for s in plan.steps), 5.0)
    >>> [step.node for step in found.steps]
    [7]
    """
    until = time.monotonic() + seconds
    size = max(1, len(plan.steps) // 2)
    while True:
        is_smaller = False
        at = 0
        while at < len(plan.steps):
            if time.monotonic() > until:
                return plan
            fewer = dataclasses.replace(plan, steps=plan.steps[:at] + plan.steps[at + size :])
            if fewer.steps and fails(fewer):
                plan, is_smaller = fewer, True
            else:
                at += size
        if size == 1 and not is_smaller:
            return plan
        size = max(1, size // 2)
