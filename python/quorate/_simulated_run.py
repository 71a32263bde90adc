"""One run of a simulated group: the real core, and each replica's object in a process of its own.

Every call is compared between the replicas that execute it, by what it returned and by the state it left.
Afterwards an object alone makes the same calls in the agreed order: what the group answered must be what it
answers, and no answer may be older than one that was given before its call began.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from quorate import _native
from quorate._lives import Life, LifeEnded, Source
from quorate._plans import START_NS, Plan, Step

PATIENCE_SECONDS = 60.0
"""Virtual seconds that a client waits."""

SETTLES_MAX = 60
"""Virtual seconds in which replicas must have caught up, at the end of a run."""

KEEP = "keep all that calls need in the state, see docs/state.md"
AGREE = "take time, chance and numbers from Python's own modules, and no addresses"

_VERBS = {"returned": "returned", "raised": "raised", "untold": "returned", "endless": "did not end with"}


class Failed(Exception):
    """What went wrong: the method, the reason, what to do, and the step at which it showed."""

    def __init__(self, method: str, reason: str, fix: str, step: int | None = None) -> None:
        super().__init__(reason)
        self.method, self.reason, self.fix, self.step = method, reason, fix, step


@dataclasses.dataclass(slots=True)
class Executed:
    """A call as the first replica executed it."""

    node: int
    began: str
    who: tuple[int | None, int]
    wall_ns: int
    entropy: int
    payload: bytes
    told: dict[str, Any]


@dataclasses.dataclass(slots=True)
class Operation:
    """A call or read of a client."""

    step: int
    client: int
    number: tuple[bool, int]
    payload: bytes
    ended_before: int
    """How many operations had ended when it began."""
    how: str = ""
    value: bytes = b""
    slot: int = 0

    @property
    def has_answer(self) -> bool:
        """Whether it returned or raised."""
        return self.how in ("returned", "raised")


@dataclasses.dataclass(slots=True)
class History:
    """What a run has done."""

    executed: dict[tuple[int, int], Executed]
    ended: list[Operation]
    reads: dict[tuple[bytes, bytes], tuple[int, str]]
    """Payload and outcome of each read: the time that it saw, and how it is shown."""
    begun: dict[int, str]
    """From what the node began that a step started."""
    restores: int


def method_of(payload: bytes) -> str:
    """The method of a call."""
    return str(_native.loads(payload)[0])


def _both(told: dict[str, Any], where: str, other: dict[str, Any], there: str) -> str:
    def one(each: dict[str, Any], place: str) -> str:
        return f"{_VERBS[each['how']]} {each['shown'][:80]} {place}"

    return f"{one(told, where)}, and {one(other, there)}"


class Replicas:
    """What a rehearsal asks of objects, with a process for each life of a node."""

    def __init__(self, source: Source, seed: int) -> None:
        self._source, self._seed = source, seed
        self._lives: dict[int, Life] = {}
        self._began: dict[int, str] = {}
        self._count = 0
        self._images: dict[bytes, int] = {}
        self._at: dict[int, int] = {}
        self.history = History({}, [], {}, {}, 0)
        self.step = 0

    def close(self) -> None:
        """End all lives."""
        for life in self._lives.values():
            life.close()
        self._lives.clear()

    # ---- what a rehearsal asks ----

    def start(self, node: int, image: bytes | None) -> str | None:
        """A new process, as a host that starts."""
        if node in self._lives:
            self._lives.pop(node).close()
        self._count += 1
        life = self._lives[node] = self._source.begin()
        slot = self._images.get(_native.digest(image)) if image is not None else 0
        self._began[node] = (
            f"which began with the image of slot {slot}" if image is not None else "which began anew"
        )
        self._at[node] = slot or 0
        self.history.restores += image is not None
        reason = self._ask(node, "__init__", "make", self._seed % 1000 * 64 + self._count, image)
        assert life is self._lives[node]
        if reason is not None:
            raise Failed("__init__", f"a replica cannot begin: {reason}", KEEP, self.step)
        if image is not None:
            self.history.begun[self.step] = f"from the image of slot {slot}"
        return None

    def restore(self, node: int, image: bytes) -> str | None:
        """A running host takes over a fetched image."""
        slot = self._images.get(_native.digest(image), 0)
        reason = self._ask(node, "__setstate__", "restore", image)
        if reason is not None:
            raise Failed("__setstate__", f"a replica cannot go on: {reason}", KEEP, self.step)
        self._began[node] = f"which fetched the image of slot {slot}"
        self._at[node] = slot
        self.history.restores += 1
        return None

    def execute(
        self,
        node: int,
        who: tuple[int | None, int],
        place: tuple[int, int],
        stamp: tuple[int, int],
        payload: bytes,
    ) -> tuple[bool, bytes]:
        """A call; it must end as it did on the replica that executed it first."""
        told = self._ask(node, method_of(payload), "call", [*stamp, *place], payload)
        self._at[node] = place[0]
        self._judge_alone(payload, told)
        mine = Executed(node, self._began[node], who, *stamp, payload, told)
        first = self.history.executed.setdefault(place, mine)
        if first is not mine:
            self._compare(first, mine)
        return told["how"] != "returned", told["outcome"]

    def query(self, node: int, wall_ns: int, payload: bytes) -> tuple[bool, bytes]:
        """A read; it must leave the state as it is."""
        method = method_of(payload)
        told = self._ask(node, method, "read", wall_ns, payload)
        if told["how"] == "no read":
            return True, b""
        self._judge_alone(payload, told)
        if told["wrote"]:
            reason = f"`{method}` is taken for read-only, and changed {told['wrote']} on node {node}"
            raise Failed(method, reason, "remove the declaration or the change", self.step)
        self.history.reads[payload, told["outcome"]] = wall_ns, _shown(told)
        return told["how"] != "returned", told["outcome"]

    def image(self, node: int) -> bytes | str:
        """The image of a node's object."""
        image: bytes | str = self._ask(node, "__getstate__", "image")
        if isinstance(image, str):
            raise Failed("__getstate__", f"no snapshot can be taken: {image}", KEEP, self.step)
        self._images[_native.digest(image)] = self._at[node]
        return image

    # ---- inside ----

    def _ask(self, node: int, method: str, *message: Any) -> Any:
        try:
            return self._lives[node].ask(*message)
        except LifeEnded as ended:
            reason = ended.reason(method, f"ended the process of node {node}")
            raise Failed(method, reason, ended.fix, self.step) from None

    def _judge_alone(self, payload: bytes, told: dict[str, Any]) -> None:
        method = method_of(payload)
        if told["how"] == "endless":
            raise Failed(method, f"`{method}` does not end within two seconds", "bound its loops", self.step)
        if told["how"] == "untold":
            reason = f"`{method}` returns what cannot be sent: {told['shown']}"
            raise Failed(method, reason, "return plain values, or register the class", self.step)

    def _compare(self, first: Executed, mine: Executed) -> None:
        method = method_of(mine.payload)
        where = f"on node {mine.node}, {mine.began}"
        there = f"on node {first.node}, {first.began}"
        fix = AGREE if mine.began == first.began else f"{KEEP}; {AGREE}"
        if _outcome(mine.told) != _outcome(first.told):
            reason = f"`{method}` {_both(mine.told, where, first.told, there)}"
            raise Failed(method, reason, fix, self.step)
        if mine.told["digest"] != first.told["digest"]:
            reason = f"`{method}` left another state {where} than {there}"
            raise Failed(method, reason, fix, self.step)


def _outcome(told: dict[str, Any]) -> tuple[str, bytes]:
    return told["how"], told["outcome"]


def _shown(told: dict[str, Any]) -> str:
    shown = str(told["shown"])
    return shown if told["how"] == "returned" else f"{_VERBS[told['how']]} {shown}"


class Run:
    """The steps of a plan, done one after the other."""

    def __init__(self, plan: Plan, source: Source) -> None:
        self._plan = plan
        self._replicas = Replicas(source, plan.seed)
        self._group: _native.Rehearsal | None = None
        self._under_way: dict[int, Operation] = {}

    def run(self) -> History:
        """Do it; raises Failed."""
        plan, replicas = self._plan, self._replicas
        try:
            self._group = group = _native.Rehearsal(
                replicas,
                plan.nodes,
                plan.clients,
                plan.seed,
                plan.snapshot_every,
                plan.copies_per_mille,
                START_NS,
            )
            for number, step in enumerate(plan.steps):
                replicas.step = number
                self._do(group, number, step)
                self._take(group.pass_time(step.pause))
            self._end(group)
            return replicas.history
        finally:
            replicas.close()

    def shown(self) -> dict[int, str]:
        """What came of the steps so far."""
        history = self._replicas.history
        shown = dict(history.begun)
        told = {each.who: _shown(each.told) for each in history.executed.values()}
        for each in history.ended:
            if each.number[0]:
                shown[each.step] = told.get((each.client, each.number[1]), each.how)
            else:
                shown[each.step] = history.reads.get((each.payload, each.value), (0, each.how))[1]
        return shown

    def _do(self, group: _native.Rehearsal, number: int, step: Step) -> None:
        match step.kind:
            case "call":
                self._wait(group, step.client)
                begun = group.begin(step.client, step.payload, step.level, PATIENCE_SECONDS)
                ended = len(self._replicas.history.ended)
                self._under_way[step.client] = Operation(number, step.client, begun, step.payload, ended)
            case "snapshot":
                self._wait(group, 0)
                begun = group.begin_snapshot(0, PATIENCE_SECONDS)
                self._under_way[0] = Operation(number, 0, begun, b"", 0)
                self._wait(group, 0)
            case "crash":
                group.crash(step.node)
            case "restart":
                group.restart(step.node)
            case "cut":
                group.cut(step.node, step.hides)
            case "heal":
                group.heal(step.node)

    def _wait(self, group: _native.Rehearsal, client: int) -> None:
        while client in self._under_way:
            self._take(group.run_until_ended())

    def _take(self, ended: list[tuple[int, bool, int, str, bytes | None, int]]) -> None:
        for client, is_call, number, how, value, slot in ended:
            operation = self._under_way.pop(client)
            assert operation.number == (is_call, number)
            operation.how, operation.value, operation.slot = how, value or b"", slot
            if operation.payload:
                self._replicas.history.ended.append(operation)

    def _end(self, group: _native.Rehearsal) -> None:
        """All nodes are there again; they reach the same slot, and the same state."""
        nodes = range(1, self._plan.nodes + 1)
        for node in nodes:
            group.heal(node)
            group.restart(node)
        for client in range(self._plan.clients):
            self._wait(group, client)
        for _ in range(SETTLES_MAX):
            self._take(group.pass_time(1.0))
            reports = [group.report(node) for node in nodes]
            if len({(report["executed"], report["decided"]) for report in reports}) == 1:
                break
        else:
            raise Failed("__init__", f"the replicas do not catch up: {reports}", KEEP)
        digests = {node: _native.digest(_bytes(self._replicas.image(node))) for node in nodes}
        for node in nodes:
            if digests[node] != digests[1]:
                reason = f"the states of nodes 1 and {node} differ after the same calls"
                raise Failed("__getstate__", reason, KEEP)


def _bytes(image: bytes | str) -> bytes:
    assert isinstance(image, bytes)
    return image


def judge(history: History, source: Source, stir: int) -> None:
    """Compare a run with an object alone, in the agreed order; raises Failed."""
    _judge_order(history)
    life = source.begin()
    method = "__init__"
    try:
        life.ask("make", stir, None)
        for _, step, payload, place, theirs in _in_order(history):
            method = method_of(payload)
            told = life.ask("call", place, payload)
            if theirs is not None and _outcome(told) != _outcome(theirs):
                reason = f"`{method}` {_both(theirs, 'in the group', told, 'where the class runs alone')}"
                raise Failed(method, reason, f"{AGREE}; sort sets before their order shows", step)
            if told["alias"]:
                reason = (
                    f"`{method}` returns a part of the object itself: alone the caller sees it change, "
                    "in a group the caller has a copy"
                )
                raise Failed(method, reason, "return a copy", step)
    except LifeEnded as ended:
        reason = ended.reason(method, "ends its process where the class runs alone")
        raise Failed(method, reason, AGREE) from None
    finally:
        life.close()


_Item = tuple[tuple[int, float], int | None, bytes, list[int], dict[str, Any] | None]
"""Position, step, call, environment, and what the group answered."""


def _in_order(history: History) -> list[_Item]:
    steps = {(each.client, each.number[1]): each.step for each in history.ended if each.number[0]}
    items: list[_Item] = []
    for place, each in history.executed.items():
        environment = [each.wall_ns, each.entropy, *place]
        items.append(
            (place, steps.get((each.who[0] or 0, each.who[1])), each.payload, environment, each.told)
        )
    for read in history.ended:
        if not read.number[0] and read.has_answer and read.value:
            wall, shown = history.reads[read.payload, read.value]
            told = {"how": read.how, "outcome": read.value, "shown": shown.removeprefix("raised ")}
            items.append(((read.slot, float("inf")), read.step, read.payload, [wall, 0, 0, 0], told))
    return sorted(items, key=lambda item: item[0])


def _judge_order(history: History) -> None:
    """No call runs twice, each answer is that of its call, and none is older than what was known before."""
    places: dict[tuple[int | None, int], tuple[int, int]] = {}
    for place, each in history.executed.items():
        if each.who in places:
            raise Failed(method_of(each.payload), f"a call was executed twice: {each.who}", AGREE)
        places[each.who] = place
    newest: list[tuple[float, float]] = [(0, 0)]
    for one in history.ended:
        at = places.get((one.client, one.number[1])) if one.number[0] else (one.slot, float("inf"))
        method = method_of(one.payload)
        if one.how.startswith("not executed") and one.number[0] and at is not None:
            raise Failed(method, f"`{method}` was refused, and executed all the same", AGREE, one.step)
        if not one.has_answer or at is None:
            newest.append(newest[-1])
            continue
        if one.number[0] and history.executed[places[one.client, one.number[1]]].told["outcome"] != one.value:
            raise Failed(method, f"the answer of `{method}` is not that of its call", AGREE, one.step)
        if at < newest[one.ended_before]:
            raise Failed(method, f"the answer of `{method}` is older than one before it", AGREE, one.step)
        newest.append(max(newest[-1], at))
