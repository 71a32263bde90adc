"""What objects want done outside is done beside the leader: values count once, effects are not lost."""

from __future__ import annotations

import contextlib
import functools
import math
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from patience import PATIENCE_S, until
from reach_classes import Reacher, noted

import quorate
from quorate import LocalGroup, _native, _outbox
from quorate._local import start_group
from quorate._options import Options
from quorate._proxy import Flow, Proxy, flow_of


@pytest.fixture(scope="module")
def nodes() -> Iterator[LocalGroup[Reacher]]:
    """Three nodes."""
    with (running := quorate.local(Reacher, persist="disk", timeout=PATIENCE_S)):
        yield running


@pytest.fixture
def reacher(group: quorate.Group) -> Reacher:
    """An object of its own for each test."""
    return group.create(Reacher, "reacher")


def has_gone_on(answers: list[Any], seen: int, most: int) -> bool:
    """Whether there are more than so many, or all."""
    return len(answers) > seen or len(answers) == most


def outbox_of(reacher: object) -> Any:
    """The group's own object that keeps what is to be done outside."""
    flow = Flow(flow_of(reacher).client.beside(_outbox.NUMBER), _outbox.Outbox, Options())
    return Proxy(flow)


def is_at_rest(reacher: object) -> bool:
    """Whether nothing is to be done, and nothing is kept."""
    return bool(outbox_of(reacher).load() == [0, 0, 0])


def test_a_value_is_captured_once_and_is_the_same_on_all_replicas(
    nodes: LocalGroup[Reacher], reacher: Reacher, tmp_path: Path
) -> None:
    """Claim rp-77."""
    found = reacher.capture_pid(str(tmp_path))
    assert found not in {os.getpid(), 1}
    assert noted(str(tmp_path)) == ["pid"]
    # The tries before left no trace.
    assert (reacher.found, reacher.tries) == ([found], 1)
    assert nodes.compare().is_equal


def test_values_come_one_after_the_other_and_from_async_functions(reacher: Reacher, tmp_path: Path) -> None:
    assert reacher.capture_two(str(tmp_path), "a", "b") == ["a", "b"]
    assert noted(str(tmp_path)) == ["a", "b"]
    assert reacher.capture_two(str(tmp_path), "a", "b") == ["a", "b"]
    assert noted(str(tmp_path)) == ["a", "b", "a", "b"]
    assert reacher.capture_later(3) == 4


def test_a_call_that_waits_captures_for_what_it_finds_then(reacher: Reacher, tmp_path: Path) -> None:
    with ThreadPoolExecutor(3) as threads:
        taking = [threads.submit(reacher.capture_after_wait, str(tmp_path)) for _ in range(3)]
        for item in "abc":
            reacher.put(item)
        assert sorted(each.result(PATIENCE_S) for each in taking) == ["a", "b", "c"]
    assert reacher.items == []
    # Who found another item than the one for which it had asked has asked again.
    assert set(noted(str(tmp_path))) == {"a", "b", "c"}
    until(lambda: is_at_rest(reacher))


def test_what_the_function_raises_is_raised_in_the_method(reacher: Reacher, tmp_path: Path) -> None:
    assert reacher.capture_failing(str(tmp_path), "no such rate") == "caught no such rate"
    assert reacher.tries == 1
    with pytest.raises(LookupError, match="no such rate"):
        reacher.capture_raised(str(tmp_path), "no such rate")
    assert noted(str(tmp_path)) == ["no such rate"] * 2


def test_what_cannot_be_captured_says_why(reacher: Reacher) -> None:
    assert reacher.capture_large(60_000) == 60_000
    with pytest.raises(quorate.CaptureFailed, match="takes 70005 bytes, and may take 61440"):
        reacher.capture_large(70_000)
    with pytest.raises(quorate.UnsupportedValue, match="object is not supported"):
        reacher.capture_odd()
    with pytest.raises(quorate.UnsupportedValue, match="a function that a module of the objects' own"):
        reacher.capture_local()
    with pytest.raises(quorate.UnsupportedValue, match="a function that a module of the objects' own"):
        reacher.capture_of_others()
    assert reacher.capture_many(64) == sum(range(64))
    with pytest.raises(quorate.Overloaded, match="captures at most 64 values"):
        reacher.capture_many(65)
    with pytest.raises(quorate.UnsupportedValue, match="the arguments of quorate"):
        reacher.capture_two("x" * 70_000, "a", "b")


def test_each_value_counts_once_while_leaders_and_workers_are_killed(
    nodes: LocalGroup[Reacher], reacher: Reacher, tmp_path: Path
) -> None:
    """Claim rp-77: whatever ends, every call has one value, which all replicas keep."""
    calls, kills = 60, 3
    left = iter(range(calls))
    lock = threading.Lock()
    answers: list[list[str]] = []

    def call() -> None:
        while True:
            with lock:
                at = next(left, None)
            if at is None:
                return
            answers.append(reacher.capture_two(str(tmp_path), f"{at}-a", f"{at}-b"))

    with ThreadPoolExecutor(4) as threads:
        calling = [threads.submit(call) for _ in range(4)]
        for _ in range(kills):
            seen = len(answers)
            until(functools.partial(has_gone_on, answers, seen, calls))
            killed = nodes.leader
            nodes.kill(killed)
            nodes.restart(killed)
        for each in calling:
            each.result(PATIENCE_S)
    assert sorted(answers) == sorted([f"{at}-a", f"{at}-b"] for at in range(calls))
    assert set(noted(str(tmp_path))) == {f"{at}-{which}" for at in range(calls) for which in "ab"}
    assert nodes.compare().is_equal


def test_an_effect_comes_after_the_decision_and_its_result_as_a_call(
    nodes: LocalGroup[Reacher], reacher: Reacher, tmp_path: Path
) -> None:
    """Claim rp-78."""
    key = reacher.pay(str(tmp_path), 7)
    until(lambda: reacher.told)
    assert reacher.told == [[key, "paid 7", None]]
    assert noted(str(tmp_path)) == [f"{key} 7"]
    assert reacher.pay(str(tmp_path), 8, "order-8") == "order-8"
    assert key != reacher.pay(str(tmp_path), 9)
    until(lambda: len(reacher.told) == 3)
    until(lambda: is_at_rest(reacher))
    assert nodes.compare().is_equal


def test_an_effect_whose_worker_dies_is_repeated_with_the_same_key(reacher: Reacher, tmp_path: Path) -> None:
    """Claim rp-78."""
    key = reacher.end_worker(str(tmp_path))
    until(lambda: reacher.told)
    assert reacher.told == [[key, "done", None]]
    assert noted(str(tmp_path)) == [key, key]


def test_a_worker_has_the_certificates_of_its_node() -> None:
    options = ["--tls", "--nodes", "1", "--port", "0"]
    with start_group("reach_classes:Reacher", options, Path(__file__).parent) as ready:
        tls = quorate.Tls(**ready["tls"])
        with quorate.connect(ready["endpoint"], Reacher, tls=tls) as reacher:
            assert reacher.capture_later(1) == 2


def test_effects_are_all_done_while_leaders_are_killed(
    nodes: LocalGroup[Reacher], reacher: Reacher, tmp_path: Path
) -> None:
    """Claim rp-78: none is lost, and its result is delivered once."""
    rounds, each_round = 3, 40
    for _ in range(rounds):
        reacher.effects(str(tmp_path), each_round)
        killed = nodes.leader
        nodes.kill(killed)
        nodes.restart(killed)
    until(lambda: len(reacher.told) >= rounds * each_round)
    told = reacher.told
    assert sorted(value for _, value, _ in told) == sorted(
        f"paid {at}" for at in range(each_round) for _ in range(rounds)
    )
    keys = {key for key, _, _ in told}
    assert len(keys) == rounds * each_round
    assert {line.partition(" ")[0] for line in noted(str(tmp_path))} == keys
    assert nodes.compare().is_equal


def test_values_and_effects_outlive_leaders_and_workers_that_are_killed(
    nodes: LocalGroup[Reacher], reacher: Reacher, tmp_path: Path
) -> None:
    """Claims rp-77 and rp-78: each deal ends in an answer or in another deal, whichever process ends."""
    aside, captured = tmp_path / "aside", tmp_path / "captured"
    aside.mkdir()
    captured.mkdir()
    rounds, each_round = 6, 20
    calls = rounds * each_round
    answers: list[list[str]] = []

    def call() -> None:
        for at in range(calls):
            answers.append(reacher.capture_two(str(captured), f"{at}-a", f"{at}-b"))

    with ThreadPoolExecutor(1) as threads:
        calling = threads.submit(call)
        for at in range(rounds):
            reacher.effects(str(tmp_path), each_round)
            seen = len(answers)
            until(functools.partial(has_gone_on, answers, seen, calls))
            with contextlib.suppress(ProcessLookupError):
                os.kill(reacher.capture_pid(str(aside)), signal.SIGKILL)
            if at % 2:
                killed = nodes.leader
                nodes.kill(killed)
                nodes.restart(killed)
        calling.result(PATIENCE_S)
    assert answers == [[f"{at}-a", f"{at}-b"] for at in range(calls)]
    until(lambda: len(reacher.told) >= calls)
    until(lambda: is_at_rest(reacher))
    told = reacher.told
    assert all(error is None for _, _, error in told), "what is killed is no try"
    assert sorted(value for _, value, _ in told) == sorted(
        f"paid {at}" for at in range(each_round) for _ in range(rounds)
    )
    assert len({key for key, _, _ in told}) == calls
    assert nodes.compare().is_equal


def test_an_effect_that_raises_is_tried_some_times(reacher: Reacher, tmp_path: Path) -> None:
    key = reacher.fail_outside(str(tmp_path), "closed")
    until(lambda: reacher.told)
    assert reacher.told == [[key, None, "builtins.LookupError: closed"]]
    assert noted(str(tmp_path)) == ["closed"] * _outbox.TRIES_MAX


def test_an_effect_that_rests_when_its_worker_ends_is_not_lost(reacher: Reacher, tmp_path: Path) -> None:
    aside = tmp_path / "aside"
    aside.mkdir()
    # More than one worker does at once, so that some are ready and no worker has them.
    keys = [reacher.fail_outside(str(tmp_path), "closed") for _ in range(40)]
    while not reacher.told:
        os.kill(reacher.capture_pid(str(aside)), signal.SIGKILL)
    until(lambda: len(reacher.told) == len(keys))
    assert sorted(each[0] for each in reacher.told) == sorted(keys)


def test_a_task_that_ends_its_workers_is_given_up(reacher: Reacher, tmp_path: Path) -> None:
    with pytest.raises(quorate.CaptureFailed, match="given to workers 5 times, and none of them answered"):
        reacher.capture_poison(str(tmp_path))
    assert 0 < len(noted(str(tmp_path))) <= _outbox.DEALS_MAX
    assert reacher.capture_later(1) == 2


def test_an_effect_whose_tick_is_left_out_is_done_all_the_same(reacher: Reacher, tmp_path: Path) -> None:
    """Claim rp-78: a timer of an object that ends every host takes nothing along that was decided."""
    key = reacher.effect_and_end_hosts(str(tmp_path))
    until(lambda: reacher.told)
    assert reacher.told == [[key, "paid 1", None]]
    assert noted(str(tmp_path)) == [f"{key} 1"]
    until(lambda: is_at_rest(reacher))
    assert reacher.capture_later(1) == 2


def test_an_effect_is_done_and_told_though_a_timer_ends_the_hosts_in_each_tick(
    reacher: Reacher, tmp_path: Path
) -> None:
    """Claim rp-78: the timer repeats until the result is there."""
    key = reacher.effect_while_hosts_end(str(tmp_path))
    until(lambda: noted(str(tmp_path)))
    until(lambda: reacher.told)
    assert reacher.told == [[key, "paid 1", None]]
    assert noted(str(tmp_path)) == [f"{key} 1"]


def test_where_nobody_calls_there_are_effects_alone(reacher: Reacher, tmp_path: Path) -> None:
    reacher.effect_by_timer(str(tmp_path))
    until(lambda: reacher.told)
    assert "nobody calls here" in reacher.found[0]


def test_tries_that_leave_no_trace_have_no_effect(reacher: Reacher, tmp_path: Path) -> None:
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(reacher.effect_and_wait, str(tmp_path))
        key = reacher.pay(str(tmp_path), 1)
        until(lambda: reacher.told)
        assert noted(str(tmp_path)) == [f"{key} 1"]
        reacher.put("go")
        waiting.result(PATIENCE_S)
    until(lambda: len(noted(str(tmp_path))) == 2)
    assert noted(str(tmp_path)) == [f"{key} 1", "effect"]


def test_bad_effects_are_refused_and_do_nothing(reacher: Reacher, tmp_path: Path) -> None:
    with pytest.raises(AttributeError, match="no method `nowhere`"):
        reacher.effect_to("nowhere")
    with pytest.raises(ValueError, match="a key is a text of 1 to 255 bytes"):
        reacher.pay(str(tmp_path), 1, "")
    with pytest.raises(ValueError, match="a key is a text of 1 to 255 bytes"):
        reacher.pay(str(tmp_path), 1, "k" * 256)
    with pytest.raises(quorate.NotInCall):
        quorate.capture(math.sqrt, 4)
    with pytest.raises(quorate.NotInCall):
        quorate.effect(math.sqrt, 4)
    assert noted(str(tmp_path)) == []


def test_a_captured_value_outlives_snapshot_restart_and_worker(
    nodes: LocalGroup[Reacher], group: quorate.Group, reacher: Reacher, tmp_path: Path
) -> None:
    """Claim rp-77: what waits is in the snapshot, with what was asked for."""
    file = tmp_path / "there"
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(reacher.capture_waiting, str(file))
        until(lambda: group.describe("reacher")["waiting"])
        nodes.snapshot()
        for node in (1, 2, 3):
            nodes.kill(node)
            nodes.restart(node)
        file.touch()
        assert waiting.result(PATIENCE_S) == str(file)
    assert nodes.compare().is_equal


def test_who_goes_leaves_nothing_behind(group: quorate.Group, reacher: Reacher, tmp_path: Path) -> None:
    """A dropped object's call is answered, and what it had asked for counts for nothing."""
    file = tmp_path / "there"
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(reacher.capture_waiting, str(file))
        until(lambda: group.describe("reacher")["waiting"])
        group.drop("reacher")
        with pytest.raises(quorate.ObjectDropped):
            waiting.result(PATIENCE_S)
        file.touch()
    again = group.create(Reacher, "reacher")
    assert again.capture_later(1) == 2


def test_a_stranger_at_the_outbox_changes_nothing(reacher: Reacher, tmp_path: Path) -> None:
    assert reacher.capture_later(1) == 2
    outbox = outbox_of(reacher)
    for finished in (7, [1], [1, True, "text"], ["1", True, b""], [1, True, bytes(70_000)]):
        with pytest.raises(quorate.Refused, match="an answer is"):
            outbox.next(finished)
    with pytest.raises(quorate.Refused, match="another worker"):
        outbox.next([10**9, False, _native.dumps(1)])
    for name in ("_ask", "_act", "_forget", "_give_up"):
        with pytest.raises(quorate.NoSuchMethod):
            getattr(outbox, name)
    assert reacher.capture_later(2) == 3


@pytest.mark.parametrize(
    "path",
    [
        "os:system",
        "posix:system",
        "builtins:exec",
        "quorate._worker:done",
        "reach_classes:os.system",
        "no:where",
    ],
)
def test_the_worker_calls_nothing_but_the_functions_of_users(reacher: Reacher, path: str) -> None:
    """Whatever takes over a class does not get out of its host by the worker."""
    kind, text = reacher.ask_for(path)
    assert kind == "quorate.Refused"
    assert text.startswith(f"{path} is no function that the worker calls")


def test_a_worker_that_is_killed_is_replaced(reacher: Reacher, tmp_path: Path) -> None:
    worker = reacher.capture_pid(str(tmp_path))
    os.kill(worker, signal.SIGKILL)
    assert reacher.capture_pid(str(tmp_path)) != worker
