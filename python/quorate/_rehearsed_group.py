"""The handle of a group in this process: the real core in virtual time, with an instance for each node.

Made by `quorate.testing.local`. A call takes about a millisecond or less, and a seed determines everything
but what the class does. It has the handle's methods of `quorate.local`, and clocks that can be set.
"""

from __future__ import annotations

import dataclasses
import time
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Generic, Self, TypeVar, cast

from quorate import _data_model, _native, _values
from quorate._errors import OutcomeUnknown, QuorateError, Unavailable
from quorate._local_group import Comparison
from quorate._options import Freshness, Options
from quorate._own_objects import OwnObjects
from quorate._proxy import Flow, LabelledMethod, Method, Proxy
from quorate._rare_values import ITSELF

T = TypeVar("T")

SETTLE_SECONDS = 2.0
"""Virtual time in which a group elects a leader, or its replicas catch up."""

SETTLES_MAX = 30

SPREAD_SECONDS = 0.006
"""Virtual time in which followers hear that a call was decided, and execute it too."""

Answer = tuple[str, bytes | None, int]
"""How an operation ended, what it gave, and the slot of a read."""


@dataclasses.dataclass(frozen=True, slots=True)
class Settings:
    """What a group in this process is made from."""

    nodes: int
    timeout: float
    seed: int
    snapshot_every: int


class GroupFlow(Flow):
    """The path of the calls of a group in this process."""

    __slots__ = ("group", "newest")

    def __init__(self, group: RehearsedGroup[Any], cls: type, options: Options) -> None:
        super().__init__(cast(Any, None), cls, options)
        self.group = group
        self.newest = Freshness(0, 0.0)

    def beside(self, options: Options) -> GroupFlow:
        """Another path with the same group."""
        return GroupFlow(self.group, cast(type, self.cls), options)

    def call(self, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call and wait."""
        return GroupMethod(self, method)(*args, **kwargs)

    @property
    def freshness(self) -> Freshness:
        """Slot and age of the newest read."""
        return self.newest


class GroupMethod(Method):
    """A method of a proxy of such a group."""

    __slots__ = ()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        flow = cast(GroupFlow, self.flow)
        level = flow.level_of(self.name) or ("confirmed" if flow.group._is_read(self.name) else None)
        payload = _native.dump_call(self.name, args, kwargs)
        how, value, slot = flow.group._perform(payload, level, flow.options.timeout)
        if level is not None and slot:
            flow.newest = Freshness(slot, 0.0)
        result = result_of(how, value)
        return self.itself() if result is ITSELF else result

    def begin(self, args: tuple[Any, ...], kwargs: dict[str, Any] | None) -> Any:
        """A future that is done: nothing else goes on in virtual time."""
        future: Future[Any] = Future()
        try:
            future.set_result(self(*args, **(kwargs or {})))
        except Exception as error:
            future.set_exception(error)
        return future


class GroupLabelledMethod(LabelledMethod, GroupMethod):
    """One that is given the label of the thread that calls."""

    __slots__ = ()


GroupMethod._labelled = GroupLabelledMethod


class GroupProxy(Proxy):
    """Stands for the object of such a group."""

    __slots__ = ()

    _method_class = GroupMethod


def result_of(how: str, value: bytes | None) -> Any:
    """What an operation gave; raises what it raised, or why it has no answer."""
    if how == "returned" and value is not None:
        return _native.loads(value)
    if how == "raised" and value is not None:
        raise _values.exception(value)
    certainty, _, why = how.partition(": ")
    if certainty == "not executed":
        raise Unavailable(f"the call was not executed: {why}")
    raise OutcomeUnknown(f"the call may have been executed: {why}")


class RehearsedGroup(Generic[T]):
    """A group of the real core in this process; as a context manager it gives the object's proxy.

    ::

        group = quorate.testing.local(Account, "A-1", balance=100)
        with group as account:
            group.kill(group.leader)
            assert account.deposit(10) == 110
    """

    def __init__(self, cls: type, arguments: tuple[Any, Any], settings: Settings) -> None:
        self._cls = cls
        self._settings = settings
        self._arguments = arguments
        self._objects: OwnObjects | None = None
        self._group: _native.Rehearsal | None = None
        self._answers: dict[tuple[bool, int], Answer] = {}
        self._steps: dict[int, float] = {}

    def start(self) -> Self:
        """Make the nodes; what the class's constructor raises is raised here."""
        if self._group is not None:
            raise QuorateError("the group runs already")
        told = self._settings
        self._objects = OwnObjects(self._cls, *self._arguments)
        self._answers.clear()
        self._steps = dict.fromkeys(self.nodes, 0.0)
        self._group = _native.Rehearsal(
            self._objects, told.nodes, 1, told.seed, told.snapshot_every, 0, time.time_ns()
        )
        return self

    def close(self) -> None:
        """Forget the nodes."""
        self._group = self._objects = None

    def __enter__(self) -> T:
        """The proxy."""
        return self.start().proxy

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # ---- what there is ----

    @property
    def proxy(self) -> T:
        """The object's stand-in."""
        self._running()
        return cast(T, GroupProxy(GroupFlow(self, self._cls, Options())))

    @property
    def nodes(self) -> tuple[int, ...]:
        """The numbers of all nodes."""
        return tuple(range(1, self._settings.nodes + 1))

    @property
    def stopped(self) -> tuple[int, ...]:
        """The nodes that were killed."""
        return tuple(node for node in self.nodes if not self.status(node)["is_running"])

    @property
    def leader(self) -> int:
        """Who leads; lets time pass until a majority of the nodes agree on it."""
        for _ in range(SETTLES_MAX):
            told = [self.status(node)["leader"] for node in self.nodes]
            for node in self.nodes:
                if told.count(node) * 2 > len(told) and not self.status(node)["is_cut"]:
                    return node
            self.pass_time(SETTLE_SECONDS)
        raise Unavailable("no leader was elected")

    def instance(self, node: int) -> T:
        """The instance of a node itself, to look at: what changes it makes the replicas differ."""
        self._check(node)
        if not self.status(node)["is_running"]:
            raise QuorateError(f"node {node} does not run: start it with restart({node})")
        return cast(T, cast(OwnObjects, self._objects).instances[node])

    def status(self, node: int) -> dict[str, Any]:
        """How a node is: is_running, is_cut, leader, executed, decided, snapshot, diverged and failure."""
        self._check(node)
        return self._running().report(node)

    # ---- faults and time ----

    def kill(self, node: int) -> None:
        """End a node; what it had not written to its disk is lost, and so is its instance."""
        if not self.status(node)["is_running"]:
            raise QuorateError(f"node {node} does not run: start it with restart({node})")
        self._running().crash(node)

    def restart(self, node: int) -> None:
        """Start a node again that was killed, from its newest snapshot and its log."""
        if self.status(node)["is_running"]:
            raise QuorateError(f"node {node} runs: kill it first")
        self._running().restart(node)
        failure = self.status(node)["failure"]
        if failure is not None:
            raise QuorateError(f"node {node} does not start: {failure}")

    def cut(self, node: int, *, from_clients: bool = True) -> None:
        """Cut a node's links, until `heal`; without `from_clients` the proxy still reaches it."""
        self._check(node)
        self._running().cut(node, from_clients)

    def heal(self, node: int | None = None) -> None:
        """Mend the links of a node; of all nodes without a number."""
        for each in self.nodes if node is None else (node,):
            self._check(each)
            self._running().heal(each)

    def step_clock(self, seconds: float, node: int | None = None) -> None:
        """Set a node's clock forward, or back; without a number the clocks of all nodes."""
        for each in self.nodes if node is None else (node,):
            self._check(each)
            self._steps[each] += seconds
            self._running().set_clock_off(each, int(self._steps[each] * 1e9))
        # Nodes tell each other what their clocks show: agreed time follows a majority of them.
        self.pass_time(SETTLE_SECONDS)

    def pass_time(self, seconds: float) -> None:
        """Let virtual time pass: nodes notice what is gone, elect leaders and catch up."""
        self._take(self._running().pass_time(seconds))

    # ---- snapshots ----

    def snapshot(self) -> int:
        """Take a snapshot on every replica at one agreed slot, which is returned."""
        number = self._running().begin_snapshot(0, self._settings.timeout)
        how, _, slot = self._await(number)
        if how != "snapshot":
            raise Unavailable(f"no snapshot was taken: {how}")
        self.pass_time(SETTLE_SECONDS)
        return slot

    def compare(self) -> Comparison:
        """Compare the replicas that run, once they have executed the same slots."""
        for _ in range(SETTLES_MAX):
            told = {node: self.status(node) for node in self.nodes}
            live = {node: each for node, each in told.items() if each["is_running"] and not each["is_cut"]}
            if len({each["executed"] for each in live.values()}) <= 1:
                break
            self.pass_time(SETTLE_SECONDS)
        else:
            raise Unavailable("the replicas do not reach the same slot")
        slot = max((each["executed"] for each in live.values()), default=0)
        return Comparison(slot, {node: self._digest(node) if node in live else None for node in self.nodes})

    # ---- inside ----

    def _digest(self, node: int) -> str:
        image = cast(OwnObjects, self._objects).image(node)
        if isinstance(image, str):
            raise QuorateError(f"node {node}: {image}")
        return _native.digest(image).hex()

    def _running(self) -> _native.Rehearsal:
        if self._group is None:
            raise QuorateError("the group does not run: use it as a context manager")
        return self._group

    def _check(self, node: int) -> None:
        if isinstance(node, bool) or not isinstance(node, int):
            raise TypeError(f"a node is a number, not {type(node).__name__}")
        if node not in self.nodes:
            raise ValueError(f"there is no node {node}: the nodes are {', '.join(map(str, self.nodes))}")

    def _is_read(self, method: str) -> bool:
        objects = cast(OwnObjects, self._objects)
        if self._objects is None or not objects.instances:
            return False
        if _data_model.is_readonly(self._cls, method):
            return True
        return bool(objects.reads.kind(next(iter(objects.instances.values())), method))

    def _perform(self, payload: bytes, level: str | None, timeout: float | None) -> Answer:
        seconds = self._settings.timeout if timeout is None else timeout
        answer = self._await(self._running().begin(0, payload, level, seconds))
        if level is None:
            # What differs shows in the call that made it.
            self.pass_time(SPREAD_SECONDS)
        return answer

    def _await(self, number: tuple[bool, int]) -> Answer:
        while number not in self._answers:
            self._take(self._running().run_until_ended())
        return self._answers.pop(number)

    def _take(self, ended: list[tuple[int, bool, int, str, bytes | None, int]]) -> None:
        for _, is_call, number, how, value, slot in ended:
            self._answers[is_call, number] = how, value, slot


RehearsedGroup.__module__ = "quorate.testing"
