"""A call that takes more steps than its budget is ended everywhere, and leaves no trace."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from endless_subjects import Host, Spinner

import quorate
from quorate import _local, _native, _steps

HERE = Path(__file__).parent


def start(*options: str) -> AbstractContextManager[dict[str, Any]]:
    return _local.start_group("endless_subjects:Spinner", ["--port", "0", *options], HERE)


def digests(ready: dict[str, Any]) -> set[str]:
    """The digests of the replies on all nodes, as soon as all have executed the same."""
    until = time.monotonic() + 30
    found = told(ready)
    while len({executed for executed, _ in found}) > 1:
        assert time.monotonic() < until, found
        found = told(ready)
    return {digest for _, digest in found}


def open_sessions(ready: dict[str, Any]) -> set[int]:
    """How many sessions are open on each node."""
    found = set()
    for node in ready["nodes"]:
        with urllib.request.urlopen(f"http://{node['admin']}/status", timeout=20) as answer:
            found.add(json.load(answer)["counts"]["sessions"])
    return found


def told(ready: dict[str, Any]) -> set[tuple[int, str]]:
    found = set()
    for node in ready["nodes"]:
        with urllib.request.urlopen(f"http://{node['admin']}/status", timeout=20) as answer:
            status = json.load(answer)
        found.add((status["executed"], status["digest"]))
    return found


@pytest.mark.parametrize("method", ["spin", "swallow", "hold_on", "gather", "bounce"])
def test_a_call_that_never_ends_is_ended_and_has_changed_nothing(method: str) -> None:
    with (
        start("--budget", "200000") as ready,
        quorate.connect(ready["endpoint"], Spinner, timeout=60) as spinner,
    ):
        assert spinner.add() == 1
        with pytest.raises(quorate.BudgetExceeded, match=f"`{method}` of Spinner took more than 200000"):
            getattr(spinner, method)()
        assert spinner.add() == 2
        assert len(digests(ready)) == 1


@pytest.mark.parametrize("how", ["steps", "memory"])
def test_what_an_object_does_at_the_end_of_a_session_leaves_no_trace_where_it_is_ended(how: str) -> None:
    options = ["--port", "0", "--budget", "200000"]
    with (
        _local.start_group("endless_subjects:Host", options, HERE) as ready,
        quorate.connect(ready["endpoint"], Host, timeout=60) as host,
        ThreadPoolExecutor(1) as pool,
    ):
        host.fail_by(how)
        with quorate.connect(ready["endpoint"], Host, timeout=60) as guest:
            stays = pool.submit(guest.stay)
            # Asked on the connection of the guest, which is told first that its call waits.
            while guest.guests() == 0:
                assert not stays.done()
        with pytest.raises(quorate.OutcomeUnknown):
            stays.result(60)
        while open_sessions(ready) != {1}:
            time.sleep(0.1)
        assert [host.count(), host.count()] == [1, 2]
        assert len(digests(ready)) == 1


def test_the_message_says_where_the_call_was() -> None:
    with (
        start("--budget", "1000", "--nodes", "1") as ready,
        quorate.connect(ready["endpoint"], Spinner, timeout=60) as spinner,
        pytest.raises(quorate.BudgetExceeded, match=r", in endless_subjects.py:\d+; it was ended"),
    ):
        spinner.spin()


@pytest.mark.parametrize("nodes", [1, 3])
def test_what_nobody_calls_is_ended_too_and_has_changed_nothing(nodes: int) -> None:
    with (
        start("--budget", "20000", "--nodes", str(nodes)) as ready,
        quorate.connect(ready["endpoint"], Spinner, timeout=60) as spinner,
    ):
        with quorate.connect(ready["endpoint"], Spinner, timeout=60) as other:
            assert other.know_caller() > 0
        assert spinner.add() == 1, "what was to run at the session's end has not"
        spinner.spin_later()
        time_is_up = time.monotonic() + 30
        while len(digests(ready)) > 1 or spinner.add() < 3:
            assert time.monotonic() < time_is_up
        assert spinner.total() < 100, "no timer of the tick has run"


def test_the_command_advises_what_to_do_about_the_budget() -> None:
    with start("--budget", "1000", "--nodes", "1") as ready:
        words = ["call", "--endpoint", ready["endpoint"], "Spinner", "spin", "-o", "json"]
        ended = subprocess.run([_local.program(), *words], capture_output=True, text=True, check=False)
    told = json.loads(ended.stderr)
    assert told["message"].startswith("quorate.BudgetExceeded: `spin`")
    assert "bound the method's loops" in told["advice"] and "--budget" in told["advice"]


def test_calls_before_and_after_in_one_batch_are_executed_once() -> None:
    with (
        start("--budget", "100000") as ready,
        quorate.connect(ready["endpoint"], Spinner, timeout=60) as spinner,
    ):
        calls = [quorate.submit(spinner.spin if n == 5 else spinner.add) for n in range(10)]
        outcomes: list[Any] = [call.exception(timeout=60) or call.result() for call in calls]
        assert isinstance(outcomes.pop(5), quorate.BudgetExceeded)
        assert sorted(outcomes) == list(range(1, 10))


def test_a_start_from_the_log_ends_the_call_again(tmp_path: Path) -> None:
    options = ["--budget", "50000", "--nodes", "1", "--dir", str(tmp_path), "--no-snapshot"]
    with start(*options) as ready, quorate.connect(ready["endpoint"], Spinner, timeout=60) as spinner:
        assert spinner.add() == 1
        with pytest.raises(quorate.BudgetExceeded):
            spinner.spin()
    with start(*options) as ready, quorate.connect(ready["endpoint"], Spinner, timeout=60) as spinner:
        assert spinner.add() == 2


def test_a_budget_belongs_to_the_code_of_a_group(tmp_path: Path) -> None:
    options = ["--nodes", "1", "--dir", str(tmp_path), "--persist", "disk"]
    with start(*options, "--budget", "70000") as ready:
        assert ready["settings"]["budget"] == 70000
    with pytest.raises(quorate.Unavailable, match="the budget of Spinner: 70000 steps became 80000"):
        start(*options, "--budget", "80000").__enter__()
    with start(*options) as ready:
        assert ready["settings"]["budget"] == 70000, "what was refused has changed nothing"


def test_an_endless_read_is_ended_too() -> None:
    with (
        start("--budget", "100000", "--nodes", "1") as ready,
        quorate.connect(ready["endpoint"], Spinner, timeout=60) as spinner,
    ):
        with pytest.raises(quorate.BudgetExceeded, match="`spin_reading` of Spinner"):
            spinner.spin_reading()
        assert spinner.total() == 0


COUNTED = """
def none():
    pass
def rounds(n):
    "A docstring stays."
    for _ in range(n):
        pass
    while n:
        n -= 1
def made(n):
    return sum(x for x in [y for y in range(n)])
def called(n):
    return sorted(range(n), key=lambda x: -x)
"""

STEPS = """
import sys
from quorate import _native, _steps
sys.path.insert(0, sys.argv[1])
_steps.install(["counted_subject:None"])
import counted_subject
def steps(call, *args):
    _native.begin_steps(10**6)
    call(*args)
    return _native.end_steps(10**6)
found = counted_subject
print(steps(found.none), steps(found.rounds, 10), steps(found.made, 10), steps(found.called, 10))
print(found.rounds.__doc__)
"""


def test_rounds_and_starts_of_functions_are_counted_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "counted_subject.py").write_text(COUNTED)
    command = [sys.executable, "-c", STEPS, str(tmp_path)]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert told.splitlines() == ["1 21 21 11", "A docstring stays."]
    assert not list(tmp_path.rglob("*.pyc")), "counted code is nobody else's"


INSTALLED = """
import sys
from quorate import _fingerprint, _native, _steps
sys.path.insert(0, sys.argv[1])
_fingerprint._installed = lambda: [sys.argv[1]]
_steps.install(["served.objects:None"])
from served import beside, objects
import other
for module in (objects, beside, other):
    _native.begin_steps(10**6)
    module.rounds(10)
    print(_native.end_steps(10**6))
"""


def test_the_whole_package_of_a_class_is_counted_where_it_is_installed_and_no_other(tmp_path: Path) -> None:
    (tmp_path / "served").mkdir()
    for module in ("served/__init__", "served/objects", "served/beside", "other"):
        (tmp_path / f"{module}.py").write_text(COUNTED)
    command = [sys.executable, "-c", INSTALLED, str(tmp_path)]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert told.split() == ["21", "21", "0"]


def test_what_runs_while_modules_import_each_other_is_not_counted() -> None:
    step = _native.Step()
    _native.begin_steps(10)
    assert ~step
    _native.begin_import("outer")
    assert ~step
    _native.begin_import("inner")
    assert ~step
    _native.end_import()
    assert ~step
    _native.end_import()
    assert ~step
    assert _native.end_steps(10) == 2


def test_a_budget_is_used_up_by_the_step_after_it() -> None:
    step = _native.Step()
    for steps, left in ((3, 3), (4, None)):
        _native.begin_steps(3)
        try:
            for _ in range(steps):
                assert ~step
        except _steps.Spent:
            assert left is None
        assert _native.end_steps(3) == left
