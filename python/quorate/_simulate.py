"""`quorate.testing.simulate`: a class on the real core under faults, judged by the class run alone."""

from __future__ import annotations

import dataclasses
import inspect
import itertools
import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from typing import Any, cast

from quorate import _data_model, _lint, _names, _native, _values
from quorate._errors import NoSuchMethod, UnsupportedValue
from quorate._lives import Life, LifeEnded, Source
from quorate._local import class_path
from quorate._local_group import folder_of
from quorate._options import Options
from quorate._plans import START_NS, Plan, draw, shrink
from quorate._progress import Progress
from quorate._proxy import Flow, Method, Proxy
from quorate._simulated_run import Failed, Run, judge

TURN_OF_CLOCK_SECONDS = 1.1
"""Between a run and the same calls alone: a clock that shows seconds shows others then."""

BATCH = 25
"""Seeds that run before the first of them is judged alone."""

CALLS_MAX = 2000
"""Calls of one client in one run: what goes on for ever is ended."""

SHRINK_SECONDS = 10.0

SEEDS_MAX = 1_000_000

GROUP_HASHES, ALONE_HASHES = 1, 2
"""Replicas of one group have one hash seed; alone a class has another."""

ALONE_STIR = 100_007

Workload = Callable[..., Any]


class Counterexample(AssertionError):
    """A run that shows a fault of a class: its text has the steps, what came of them, and what to do.

    >>> issubclass(Counterexample, AssertionError)
    True
    """

    def __init__(self, text: str, seed: int | None, method: str, reason: str) -> None:
        super().__init__(text)
        self.seed = seed
        """The seed of the run; None if reading the source has shown the fault."""
        self.method = method
        self.reason = reason


@dataclasses.dataclass(frozen=True, slots=True)
class Simulated:
    """What a simulation that found nothing has done.

    >>> Simulated(seeds=1, calls=60, crashes=5, cuts=2, restores=4).restores
    4
    """

    seeds: int
    calls: int
    crashes: int
    cuts: int
    restores: int
    """How often a replica began with an image, or took one over."""


@dataclasses.dataclass(frozen=True, slots=True)
class Subject:
    """What is simulated."""

    cls: type
    workload: Workload | None
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    nodes: int
    clients: int
    calls: int
    allow: Sequence[str]
    reads_source: bool


def simulate(subject: Subject, seeds: Iterable[int]) -> Simulated:
    """Run the seeds; raises Counterexample."""
    with (
        Source(_request(subject, watches_aliases=False), GROUP_HASHES) as group,
        Source(_request(subject, watches_aliases=True), ALONE_HASHES) as alone,
        Progress() as progress,
    ):
        done = _Simulation(subject, group, alone, progress).run(seeds)
    if subject.reads_source:
        _read_source(subject.cls)
    return done


def _request(subject: Subject, *, watches_aliases: bool) -> dict[str, Any]:
    is_given = bool(subject.args) or bool(subject.kwargs)
    arguments = _native.dumps([list(subject.args), dict(subject.kwargs)])
    return {
        "class": class_path(subject.cls),
        "paths": [str(folder_of(subject.cls))],
        "allow": list(subject.allow),
        "arguments": arguments if is_given else None,
        "args": [],
        "kwargs": {},
        "guess_arguments": not is_given,
        "seed": 7,
        "keeps_images": False,
        "watches_aliases": watches_aliases,
    }


def _read_source(cls: type) -> None:
    for found in _lint.lint(cls):
        if found.level == "problem":
            text = f"{cls.__name__}: nothing showed in the runs, but the source does\n{found}"
            raise Counterexample(text, None, found.function.rpartition(".")[2], found.reason)


@dataclasses.dataclass(frozen=True, slots=True)
class _Example:
    """A run that failed, and what came of its steps."""

    plan: Plan
    shown: Mapping[int, str]
    failed: Failed


class _Simulation:
    def __init__(self, subject: Subject, group: Source, alone: Source, progress: Progress) -> None:
        self._subject, self._group, self._alone = subject, group, alone
        self._progress = progress
        self._of_how_many = ""
        self._reads: dict[str, str] = {}
        self._calls = self._crashes = self._cuts = self._restores = self._seeds = 0

    def run(self, seeds: Iterable[int]) -> Simulated:
        """Run all seeds, some at a time: those are judged alone when clocks have gone on."""
        with self._life() as life:
            self._reads = life.ask("kinds")
        self._of_how_many = f" of {len(seeds)}" if isinstance(seeds, Sized) else ""
        waiting = iter(seeds)
        while batch := list(itertools.islice(waiting, BATCH)):
            self._run_some(batch)
        return Simulated(self._seeds, self._calls, self._crashes, self._cuts, self._restores)

    def _run_some(self, seeds: list[int]) -> None:
        done = []
        for seed in seeds:
            self._progress.show(f"{self._shown()}; running seed {seed}")
            plan = draw(seed, self._subject.nodes, self._drawn_calls(seed), self._reads)
            run = Run(plan, self._group)
            try:
                done.append((plan, run, run.run()))
            except Failed as failed:
                self._tell(_Example(plan, run.shown(), failed))
            self._count(plan)
        self._progress.show(f"{self._shown()}; running the same calls alone")
        _wait_for_clocks()
        for plan, run, history in done:
            self._restores += history.restores
            try:
                judge(history, self._alone, ALONE_STIR + plan.seed % 1000)
            except Failed as failed:
                self._tell(_Example(plan, run.shown(), failed))

    def _shown(self) -> str:
        """How far it is, for whoever watches."""
        return f"{self._seeds}{self._of_how_many} seeds, {self._calls} calls, {self._crashes} crashes"

    def _count(self, plan: Plan) -> None:
        kinds = [step.kind for step in plan.steps]
        self._seeds += 1
        self._calls += kinds.count("call")
        self._crashes += kinds.count("crash")
        self._cuts += kinds.count("cut")

    # ---- what clients call ----

    def _drawn_calls(self, seed: int) -> list[list[bytes]]:
        """The calls of each client."""
        subject = self._subject
        if subject.workload is None:
            made = self._made_up(seed)
            return [made[client :: subject.clients] for client in range(subject.clients)]
        return [self._of_workload(subject.workload, seed, client) for client in range(subject.clients)]

    def _made_up(self, seed: int) -> list[bytes]:
        with self._life() as life:
            try:
                made: list[bytes] = life.ask("explore", seed % (1 << 31), self._subject.calls)
            except LifeEnded as ended:
                reason = ended.reason(life.method, "ends the process that executes it")
                text = f"{reason}\nwhat to do: {ended.fix}; the call was made up, as `quorate check` does"
                raise Counterexample(text, seed, life.method, reason) from None
        if not made:
            raise ValueError("no calls can be made up for this class: give a workload")
        return made

    def _of_workload(self, workload: Workload, seed: int, client: int) -> list[bytes]:
        """What a client does where the class runs alone."""
        chance = random.Random(f"{seed} {client}")
        with self._life() as life:
            flow = _RecordingFlow(life, self._subject.cls)
            if _wants_proxy(workload):
                workload(chance, _RecordingProxy(flow))
            else:
                for call in itertools.islice(workload(chance), CALLS_MAX):
                    flow.note(*_parts(call))
            return flow.payloads

    def _life(self) -> _Alone:
        return _Alone(self._alone)

    # ---- what was found ----

    def _tell(self, first: _Example) -> None:
        """Shrink the run and raise what it shows."""
        self._progress.show(f"seed {first.plan.seed} shows a fault; looking for a shorter run")
        best = first
        needs_clocks = False

        def fails(plan: Plan) -> bool:
            nonlocal best
            found = self._example(plan, needs_clocks)
            if found is not None:
                best = found
            return found is not None

        plan, step = first.plan, first.failed.step
        if step is not None:
            # What comes after the step at which it showed did not bring it about.
            plan = dataclasses.replace(plan, steps=plan.steps[: step + 1])
        if not fails(plan):
            needs_clocks = True
            if not fails(plan):
                plan = first.plan
        shrink(plan, fails, SHRINK_SECONDS)
        raise Counterexample(
            _text(self._subject, first, best), plan.seed, best.failed.method, str(best.failed)
        ) from None

    def _example(self, plan: Plan, needs_clocks: bool) -> _Example | None:
        """What a run of the plan shows."""
        run = Run(plan, self._group)
        try:
            history = run.run()
            if needs_clocks:
                _wait_for_clocks()
            judge(history, self._alone, ALONE_STIR)
        except Failed as failed:
            return _Example(plan, run.shown(), failed)
        return None


def _wait_for_clocks() -> None:
    # Not a wait for anything that happens: the clocks are to show another second.
    time.sleep(TURN_OF_CLOCK_SECONDS)


def _text(subject: Subject, first: _Example, best: _Example) -> str:
    name, plan, steps, shown = subject.cls.__name__, first.plan, best.plan.steps, best.shown
    fewer = f", shrunk from {len(plan.steps)}" if len(steps) < len(plan.steps) else ""
    count = f"{len(steps)} step{'s' * (len(steps) != 1)}{fewer}"
    lines = [f"{name} fails in a group of {plan.nodes} nodes, seed {plan.seed} ({count}):"]
    width = len(str(len(steps)))
    for number, step in enumerate(steps):
        came = ""
        if number in shown:
            came = f" -> {shown[number]}" if step.kind == "call" else f", {shown[number]}"
        lines.append(f"  {number + 1:>{width}}  {step.shown()}{came}")
    again = f"simulate({name}, ..., seeds=[{plan.seed}])"
    return "\n".join([*lines, str(best.failed), f"what to do: {best.failed.fix}", f"again: {again}"])


class _Alone:
    """A life of the class alone, for the length of a block."""

    def __init__(self, source: Source) -> None:
        self._life = source.begin()

    def __enter__(self) -> Life:
        reason = self._life.ask("make", ALONE_STIR, None)
        if reason is not None:
            self.__exit__()
            reason = reason.replace("--args and --kwargs", "args= and kwargs=")
            raise Counterexample(f"the class cannot begin: {reason}", None, "__init__", reason)
        return self._life

    def __exit__(self, *_: object) -> None:
        self._life.close()


class _RecordingFlow(Flow):
    """The path of calls whose bytes are noted."""

    __slots__ = ("life", "payloads")

    def __init__(self, life: Life, cls: type) -> None:
        super().__init__(cast(Any, None), cls, Options())
        self.life = life
        self.payloads: list[bytes] = []

    def beside(self, options: Options) -> _RecordingFlow:
        """The same path: options change nothing of what is called."""
        return self

    def call(self, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call, and note the call."""
        told = self.note(method, args, kwargs)
        if told["how"] == "returned":
            return _native.loads(told["outcome"])
        if told["how"] == "raised":
            raise _values.exception(_native.dumps([*_native.loads(told["outcome"])[:3], "", {}]))
        raise UnsupportedValue(f"`{method}` cannot be simulated: {told['how']} {told['shown']}")

    def note(self, method: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Note a call, and what comes of it alone."""
        if len(self.payloads) >= CALLS_MAX:
            raise ValueError(f"the workload makes more than {CALLS_MAX} calls: bound its loops")
        # Raises NoSuchMethod, as a group would.
        _data_model.way_of(cast(type, self.cls), method)
        payload = _native.dump_call(method, tuple(args), dict(kwargs))
        self.payloads.append(payload)
        index = len(self.payloads)
        try:
            told: dict[str, Any] = self.life.ask("call", [START_NS + index, 1, index, 0], payload)
        except LifeEnded as ended:
            reason = ended.reason(method, "ends the process that executes it")
            raise Counterexample(f"{reason}\nwhat to do: {ended.fix}", None, method, reason) from None
        # A method that only an instance could have had: a misspelt workload is no test.
        name, _, text = told["shown"].partition(": ")
        if told["how"] == "raised" and name.endswith(".NoSuchMethod"):
            raise NoSuchMethod(text)
        return told


class _RecordingMethod(Method):
    __slots__ = ()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.flow.call(self.name, args, kwargs)


class _RecordingProxy(Proxy):
    __slots__ = ()

    _method_class = _RecordingMethod


def _wants_proxy(workload: Workload) -> bool:
    """Whether it calls methods itself; one that is called with chance alone gives calls."""
    parameters = inspect.signature(workload).parameters.values()
    required = [
        each
        for each in parameters
        if each.default is each.empty and each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)
    ]
    if not 1 <= len(required) <= 2:
        raise TypeError("a workload takes random and the proxy, or random alone and gives calls")
    return len(required) == 2


def _parts(call: Any) -> tuple[str, Sequence[Any], Mapping[str, Any]]:
    """Method, arguments and named arguments of what a workload gave."""
    parts = [*call, (), {}] if isinstance(call, tuple | list) and len(call) == 1 else call
    parts = [*parts, {}] if isinstance(parts, tuple | list) and len(parts) == 2 else parts
    match parts:
        case [str() as method, list() | tuple() as args, dict() as kwargs]:
            return method, args, kwargs
    raise TypeError(f"a workload gives (method, arguments, named arguments), not {call!r}"[:200])


def subject_of(
    cls: type,
    workload: Workload | None,
    *,
    arguments: tuple[Sequence[Any], Mapping[str, Any]],
    counts: Mapping[str, tuple[int, int, int]],
    allow: Sequence[str],
    reads_source: bool,
) -> Subject:
    """What is asked for, when it can be; raises TypeError and ValueError."""
    cls = _names.class_of(cls)
    if not isinstance(cls, type):
        raise TypeError(f"simulate takes a class, not {type(cls).__name__}")
    if workload is not None and not callable(workload):
        raise TypeError(f"a workload is a function, not a {type(workload).__name__}")
    for name, (value, least, most) in counts.items():
        if isinstance(value, bool) or not isinstance(value, int):
            raise TypeError(f"{name} is a number, not {type(value).__name__}")
        if not least <= value <= most:
            raise ValueError(f"{name} is from {least} to {most}, not {value}")
    if workload is not None:
        _wants_proxy(workload)
    _names.register(cls)
    nodes, clients, calls = (counts[name][0] for name in ("nodes", "clients", "calls"))
    return Subject(cls, workload, *arguments, nodes, clients, calls, allow, reads_source)


def seeds_of(seeds: int | Iterable[int]) -> Iterable[int]:
    """The seeds: so many from 0, or those that are given.

    >>> list(seeds_of(3)), list(seeds_of([7]))
    ([0, 1, 2], [7])
    """
    if isinstance(seeds, bool | str | bytes) or not isinstance(seeds, int | Iterable):
        raise TypeError(f"seeds is a number or a list of numbers, not {type(seeds).__name__}")
    if isinstance(seeds, int):
        if not 1 <= seeds <= SEEDS_MAX:
            raise ValueError(f"at least 1 and at most {SEEDS_MAX} seeds, not {seeds}")
        return range(seeds)
    return (_seed(seed) for seed in seeds)


def _seed(seed: Any) -> int:
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise TypeError(f"a seed is a number, not {type(seed).__name__}")
    if not 0 <= seed < 1 << 64:
        raise ValueError(f"a seed is at least 0 and below 2**64, not {seed}")
    return seed


Counterexample.__module__ = Simulated.__module__ = "quorate.testing"
