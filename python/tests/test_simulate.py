"""`quorate.testing.simulate` finds planted faults by running them, and does not complain of sound classes."""

from __future__ import annotations

import io
import random
import re
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import odd_targets
import planted_faults
import pytest
import simulated_subjects
import sound_classes
import undo_subjects
from simulated_subjects import Box, Limit

import quorate
from quorate import _lives, _native, _progress, _simulate
from quorate._lives import Source
from quorate._plans import Plan, Step, draw, shrink
from quorate._simulated_run import Executed, Failed, History, Operation, Run, _judge_order
from quorate.testing import Counterexample, Simulated, simulate

SOUND = [cls.__name__ for cls in sound_classes.SOUND]
BY_RUNNING = [name for name, (_, rule) in planted_faults.FAULTS.items() if rule != "locale"]


@pytest.fixture(scope="module", autouse=True)
def short() -> Iterator[None]:
    """Examples need not be the shortest here."""
    usual, _simulate.SHRINK_SECONDS = _simulate.SHRINK_SECONDS, 1.0
    yield
    _simulate.SHRINK_SECONDS = usual


def found(cls: type, *args: Any, **options: Any) -> Counterexample | Simulated:
    try:
        return simulate(cls, *args, **options)
    except Counterexample as counterexample:
        return counterexample


@pytest.fixture(scope="module")
def results(short: None) -> Callable[[str], Counterexample | Simulated]:
    """What came of each class, three at a time: each is a handful of processes, and waits a second."""
    with ThreadPoolExecutor(3) as pool:
        classes = {name: getattr(planted_faults, name) for name in BY_RUNNING}
        begun = {name: pool.submit(found, cls, seeds=5, reads_source=False) for name, cls in classes.items()}
        begun |= {name: pool.submit(found, getattr(sound_classes, name), seeds=2) for name in SOUND}
        done = {name: each.result() for name, each in begun.items()}
    return done.__getitem__


@pytest.mark.parametrize("name", BY_RUNNING)
def test_running_a_class_finds_its_fault(
    name: str, results: Callable[[str], Counterexample | Simulated]
) -> None:
    method, _ = planted_faults.FAULTS[name]
    counterexample = results(name)
    assert isinstance(counterexample, Counterexample), counterexample
    assert counterexample.method == method, counterexample
    text = str(counterexample)
    assert re.search(
        rf"^{name} fails in a group of 3 nodes, seed \d+ \(\d+ steps?(, shrunk from \d+)?\):", text
    )
    assert f"`{method}`" in text and "what to do: " in text
    assert f"seeds=[{counterexample.seed}]" in text


@pytest.mark.parametrize("name", SOUND)
def test_a_sound_class_gives_no_alarm(
    name: str, results: Callable[[str], Counterexample | Simulated]
) -> None:
    simulated = results(name)
    assert isinstance(simulated, Simulated), simulated
    assert simulated.seeds == 2 and simulated.calls == 120
    assert simulated.crashes > 6 and simulated.restores > 6


def test_what_no_run_shows_is_found_in_the_source() -> None:
    with pytest.raises(Counterexample, match="follows the locale") as caught:
        simulate(planted_faults.Price, seeds=1)
    assert caught.value.method == "shown" and caught.value.seed is None


def spend(chance: random.Random, box: Any) -> None:
    for _ in range(20):
        try:
            box.put(chance.randrange(5))
        except OverflowError:
            assert box.count() > 0 and len(box) == box.count()


def fill(chance: random.Random) -> Iterator[Any]:
    for _ in range(10):
        yield "put", [chance.randrange(5)]
        yield "put", (), {"count": 1}
        yield ("count",)


@pytest.mark.parametrize("workload", [spend, fill, None])
def test_calls_come_from_a_workload_or_are_made_up(workload: Any) -> None:
    arguments: dict[str, Any] = {"args": [Limit(30)], "kwargs": {"name": b"box"}}
    simulated = simulate(Box, workload, seeds=[7, 1 << 40], nodes=5, clients=3, calls=30, **arguments)
    assert simulated.seeds == 2 and simulated.calls >= 60


@pytest.mark.parametrize(
    ("name", "method", "words"),
    [
        ("Generous", "give", "returns what cannot be sent"),
        ("Restless", "spin", "does not end within two seconds"),
        ("Unkept", "__getstate__", "no snapshot can be taken"),
        ("Late", "add", "left another state|returned"),
    ],
)
def test_other_faults_are_named(name: str, method: str, words: str) -> None:
    with pytest.raises(Counterexample, match=words) as caught:
        simulate(getattr(simulated_subjects, name), seeds=3, calls=20, reads_source=False)
    assert caught.value.method == method


def test_a_method_that_ends_its_process_is_named() -> None:
    with pytest.raises(Counterexample, match="ends the process"):
        simulate(simulated_subjects.Quitter, lambda _chance: [("quit",)], seeds=1)
    with pytest.raises(Counterexample, match=r"(?s)`quit` ends the process.*made up") as caught:
        simulate(simulated_subjects.Quitter, seeds=1)
    assert caught.value.method == "quit"


@pytest.mark.parametrize(
    ("name", "workload"),
    [("Unbounded", None), ("Unbounded", lambda _chance: [("total",)]), ("Restored", None)],
)
def test_a_method_that_hears_no_signal_is_ended_and_named(
    name: str, workload: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_lives, "CALL_SECONDS_MAX", 1.0)
    with pytest.raises(Counterexample, match="`total` does not end, and no signal ends it") as caught:
        simulate(getattr(simulated_subjects, name), workload, seeds=3, calls=20, reads_source=False)
    assert caught.value.method == "total"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_shows_how_far_it_is_and_is_left_clean(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = Terminal()
    monkeypatch.setattr(sys, "stderr", seen)
    simulate(sound_classes.Dice, seeds=2, calls=10)
    assert "0 of 2 seeds, 0 calls, 0 crashes; running seed 0" in seen.getvalue()
    assert "2 of 2 seeds" in seen.getvalue()
    assert seen.getvalue().endswith(_progress.CLEAR)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("Choosy", "cannot begin: .*port 7400.*see args= and kwargs="),
        ("Unguessed", "cannot begin: no Callable can be made up: see args= and kwargs="),
        ("Abstract", "cannot begin: .*Can't instantiate abstract class"),
        ("Leaving", "cannot begin: .*SystemExit: 3"),
    ],
)
def test_a_class_that_cannot_be_made_is_told_with_the_reason(name: str, said: str) -> None:
    with pytest.raises(Counterexample, match=said):
        simulate(getattr(odd_targets, name), seeds=1)


def test_a_class_with_type_arguments_is_simulated() -> None:
    assert simulate(odd_targets.Numbers, seeds=1, calls=10).seeds == 1


def test_a_class_that_says_how_calls_are_undone_is_simulated() -> None:
    assert simulate(undo_subjects.Sound, seeds=1, calls=10).seeds == 1


def test_a_class_without_methods_is_not_taken_for_sound() -> None:
    with pytest.raises(ValueError, match="no calls can be made up"):
        simulate(simulated_subjects.Silent, seeds=1)


def test_an_example_is_shrunk_and_its_seed_shows_it_again() -> None:
    calls = [("add", [value]) for value in range(12)]
    with pytest.raises(Counterexample) as first:
        simulate(simulated_subjects.Late, lambda _chance: calls, seeds=5, reads_source=False)
    assert "shrunk from" in str(first.value)
    assert str(first.value).count(": add(") < 12
    seed = first.value.seed
    assert seed is not None
    with pytest.raises(Counterexample) as second:
        simulate(simulated_subjects.Late, lambda _chance: calls, seeds=[seed], reads_source=False)
    assert (second.value.seed, second.value.method) == (seed, first.value.method)


def test_wrong_arguments_are_refused_with_the_reason() -> None:
    wrong: list[tuple[type[Exception], str, tuple[Any, ...], dict[str, Any]]] = [
        (TypeError, "takes a class, not str", ("bank:Account",), {}),
        (TypeError, "a workload is a function", (Box, 7), {}),
        (TypeError, "a workload takes random", (Box, lambda: []), {}),
        (TypeError, "seeds is a number", (Box,), {"seeds": "3"}),
        (TypeError, "a seed is a number", (Box,), {"seeds": [1.5]}),
        (ValueError, "at least 1", (Box,), {"seeds": 0}),
        (ValueError, "a seed is at least 0", (Box,), {"seeds": [-1]}),
        (ValueError, "nodes is from 1 to 9", (Box,), {"nodes": 10}),
        (TypeError, "clients is a number", (Box,), {"clients": 1.5}),
        (ValueError, "calls is from 1", (Box,), {"calls": 0}),
        (quorate.UnsupportedValue, "object is not supported", (Box,), {"args": [object()]}),
        (quorate.UnsupportedValue, "at most", (Box,), {"args": ["x" * 200_000]}),
        (TypeError, "gives \\(method", (sound_classes.Account, lambda _chance: [7]), {}),
        (
            quorate.NoSuchMethod,
            "no public method or attribute `no`|no public method `no`",
            (sound_classes.Account, lambda _: [("no",)]),
            {},
        ),
    ]
    for error, words, args, options in wrong:
        with pytest.raises(error, match=words):
            simulate(*args, **{"seeds": 1, **options})
    with pytest.raises(Counterexample, match="the class cannot begin"):
        simulate(Box, args=[1], seeds=1)

    class Inner:
        pass

    with pytest.raises(quorate.QuorateError, match="cannot be imported"):
        simulate(Inner)


def test_a_workload_without_an_end_is_refused() -> None:
    def endless(_chance: random.Random, account: sound_classes.Account) -> None:
        while True:
            account.deposit(1)

    with pytest.raises(ValueError, match="makes more than 2000 calls"):
        simulate(sound_classes.Account, endless, seeds=1)


@pytest.mark.parametrize("node", [1, 2, 3])
def test_a_node_that_is_down_at_the_end_begins_again_and_is_compared(node: int) -> None:
    counts = {"nodes": (3, 1, 9), "clients": (1, 1, 1), "calls": (8, 1, 8)}
    subject = _simulate.subject_of(
        simulated_subjects.Shortened,
        None,
        arguments=((), {}),
        counts=counts,
        allow=(),
        reads_source=False,
    )
    calls = [Step("call", payload=_native.dump_call("add", (value,), {})) for value in range(8)]
    steps = (*calls, Step("snapshot", pause=0.5), Step("crash", node=node, pause=1.0))
    request = _simulate._request(subject, watches_aliases=False)
    with Source(request, 1) as source, pytest.raises(Failed, match=r"the states of nodes 1 and \d differ"):
        Run(Plan(1, 3, 1, 100, 0, steps), source).run()


def operation(number: int, ended_before: int, value: bytes, *, slot: int = 0) -> Operation:
    payload = _native.dump_call("add", (), {})
    return Operation(0, 0, (slot == 0, number), payload, ended_before, "returned", value, slot)


def executed(number: int, value: bytes) -> Executed:
    told = {"how": "returned", "outcome": value, "shown": "", "digest": b""}
    return Executed(1, "", (0, number), 0, 0, _native.dump_call("add", (), {}), told)


def test_an_order_that_is_not_linearizable_is_refused() -> None:
    calls = {(1, 0): executed(1, b"a"), (2, 0): executed(2, b"b")}
    sound = [operation(1, 0, b"a"), operation(2, 1, b"b"), operation(1, 2, b"r", slot=2)]
    _judge_order(History(dict(calls), sound, {}, {}, 0))
    stale = [*sound[:2], operation(1, 2, b"r", slot=1)]
    with pytest.raises(Failed, match="older than one before it"):
        _judge_order(History(dict(calls), stale, {}, {}, 0))
    # Two calls that overlap may be ordered either way, two that do not may not.
    overlapping = [operation(2, 0, b"b"), operation(1, 0, b"a")]
    _judge_order(History(dict(calls), overlapping, {}, {}, 0))
    with pytest.raises(Failed, match="older than one before it"):
        _judge_order(History(dict(calls), [operation(2, 0, b"b"), operation(1, 1, b"a")], {}, {}, 0))
    # The answer of one that overlaps, and is older, does not make the newer one unknown.
    late = [operation(2, 0, b"b"), operation(1, 0, b"a"), operation(1, 2, b"r", slot=1)]
    with pytest.raises(Failed, match="older than one before it"):
        _judge_order(History(dict(calls), late, {}, {}, 0))
    with pytest.raises(Failed, match="not that of its call"):
        _judge_order(History(dict(calls), [operation(1, 0, b"b")], {}, {}, 0))
    with pytest.raises(Failed, match="executed twice"):
        _judge_order(History({**calls, (3, 0): executed(1, b"a")}, [], {}, {}, 0))
    refused = operation(1, 0, b"")
    refused.how = "not executed: refused"
    with pytest.raises(Failed, match="executed all the same"):
        _judge_order(History(dict(calls), [refused], {}, {}, 0))


def test_plans_keep_a_majority_and_have_all_calls() -> None:
    calls = [[_native.dump_call("add", (client, number), {}) for number in range(20)] for client in range(2)]
    for seed in range(50):
        plan = draw(seed, 3, calls, {})
        assert plan == draw(seed, 3, calls, {})
        away: set[int] = set()
        for step in plan.steps:
            if step.kind in ("crash", "cut"):
                away.add(step.node)
            elif step.kind in ("restart", "heal"):
                away.discard(step.node)
            assert len(away) <= 1
        made = [step.payload for step in plan.steps if step.kind == "call" and step.client == 1]
        assert made == calls[1]
        assert {"crash", "restart", "snapshot"} <= {step.kind for step in plan.steps}


def test_shrinking_keeps_what_fails_and_ends_in_time() -> None:
    plan = draw(1, 3, [[_native.dump_call("add", (number,), {}) for number in range(40)]], {})

    def fails(fewer: Plan) -> bool:
        made = [_native.loads(step.payload)[1][0] for step in fewer.steps if step.kind == "call"]
        return {3, 30} <= set(made)

    assert [step.kind for step in shrink(plan, fails, 10.0).steps] == ["call", "call"]
    assert shrink(plan, fails, 0.0) == plan
