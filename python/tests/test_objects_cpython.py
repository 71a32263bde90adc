"""CPython's own tests of its locks and queues, from the `test` package of this Python, on replicated ones.

Each runs once on a quiet group; then the quick ones run while the leader is killed every few seconds. `make
suites` has all of them run so, for as long as QUORATE_SUITES_SECONDS says.
"""

from __future__ import annotations

import importlib
import os
import time
import unittest
from collections.abc import Iterable, Iterator
from fnmatch import fnmatch
from typing import Any

import cpython_adapter
import pytest
from cpython_adapter import Borrower, Pool
from many_objects import killer

KILL_EVERY_S = 2.0
KILLS_S = 12.0
LONG_S = float(os.environ.get("QUORATE_SUITES_SECONDS", "0"))

NOT_APPLICABLE = {
    "*.test_weakref_*": "asks when Python frees the lock; a replicated one stays when its proxy goes",
    "*.test_repr": "asks for a text with the address of the object, which is in other processes",
    "*.test_locked_repr": "asks for a text with the address of the object, which is in other processes",
    "*.test_at_fork_reinit": "`_at_fork_reinit` mends the locks of a process that forks",
    "RLockTests.test_release_save_unacquired": "`_release_save` is for the Condition of CPython",
    "ConditionTests.test_acquire": "gives its Condition a lock of its own process, or expects an RLock in it",
    "*.test_shutdown_*": "Python's own queues have `shutdown` from 3.13 on; ours have none",
    "BarrierTests.test_action": "the action is code of the caller, and would have to run in the replicas",
    "*FailingQueueTest.*": "its `_put` and `_get` are code of the caller, which would run in the replicas",
    "*SimpleQueueTest.test_references": "asks when Python frees an item; what a proxy gets is a copy",
    "CSimpleQueueTest.test_is_default": "asks which of two implementations `queue.SimpleQueue` is",
    "CSimpleQueueTest.test_reentrancy": "asks what happens when the C code of one call is entered again",
}
"""Tests that cannot be made, and why."""

MEASURING = {
    "ConditionTests.test_waitfor_timeout": "0.1 seconds must not take 1 second: an election may",
}
"""Tests that cannot be made while the group elects, and why."""

SLOW = ("*timeout*", "*.test_basic", "*.test_queue_join", "BaseSimpleQueueTest.test_many_threads*")
"""What is left out where there is little time."""

SUITES: dict[str, dict[str, Any]] = {
    "lock_tests.LockTests": {"locktype": cpython_adapter.Lock},
    "lock_tests.RLockTests": {"locktype": cpython_adapter.RLock},
    "lock_tests.EventTests": {"eventtype": cpython_adapter.Event},
    "lock_tests.ConditionTests": {"condtype": cpython_adapter.Condition},
    "lock_tests.SemaphoreTests": {"semtype": cpython_adapter.Semaphore},
    "lock_tests.BoundedSemaphoreTests": {"semtype": cpython_adapter.BoundedSemaphore},
    "lock_tests.BarrierTests": {"barriertype": cpython_adapter.Barrier},
    "test_queue.QueueTest": {"queue": cpython_adapter.QueueModule},
    "test_queue.LifoQueueTest": {"queue": cpython_adapter.QueueModule},
    "test_queue.PriorityQueueTest": {"queue": cpython_adapter.QueueModule},
    # A SimpleQueue is a Queue without a bound and without `join`.
    "test_queue.BaseSimpleQueueTest": {
        "queue": cpython_adapter.QueueModule,
        "type2test": cpython_adapter.Queue,
    },
}
"""The suites, and what each is to test."""


def modules() -> dict[str, Any]:
    """The modules of the suites; none where this Python comes without its tests."""
    try:
        return {name: importlib.import_module(f"test.{name}") for name in ("lock_tests", "test_queue")}
    except ImportError:
        return {}


def is_any(name: str, patterns: Iterable[str]) -> bool:
    """Whether a name fits one of the patterns."""
    return any(fnmatch(name, pattern) for pattern in patterns)


def suite(name: str) -> type[unittest.TestCase]:
    """A suite for replicated objects, without what cannot be made."""
    module, _, short = name.partition(".")
    theirs = getattr(MODULES[module], short)
    members = {**SUITES[name], "__module__": __name__}
    for test in unittest.TestLoader().getTestCaseNames(theirs):
        if is_any(f"{short}.{test}", NOT_APPLICABLE):
            members[test] = None
    return type(short, (theirs, Borrower), members)


MODULES = modules()
CASES = [suite(name) for name in SUITES if MODULES]
globals().update({case.__name__: case for case in CASES})


@pytest.fixture(scope="module", autouse=True)
def installed() -> None:
    """Without CPython's own tests nothing here can pass."""
    if not MODULES:
        pytest.fail("this Python has no tests: install them (Debian: libpython3-testsuite)", pytrace=False)


def test_every_test_of_the_modules_runs_or_is_listed() -> None:
    """Also those of classes that no suite here is made of."""
    run = [getattr(MODULES[module], short) for module, _, short in (name.partition(".") for name in SUITES)]
    missing = [
        f"{theirs.__name__}.{test}"
        for module in MODULES.values()
        for theirs in vars(module).values()
        if isinstance(theirs, type) and theirs.__module__ == module.__name__
        for test in unittest.TestLoader().getTestCaseNames(theirs)
        if not any(getattr(theirs, test) is getattr(each, test, None) for each in run)
        if not is_any(f"{theirs.__name__}.{test}", NOT_APPLICABLE)
    ]
    assert missing == []


@pytest.fixture(scope="module", autouse=True)
def pool(installed: None) -> Iterator[Pool]:
    with Pool() as opened, pytest.MonkeyPatch.context() as patch:
        patch.setattr(MODULES["lock_tests"], "wait_threads_blocked", opened.wait_threads_blocked)
        # It would take the end of a node from the handle that waits for it.
        patch.setattr(MODULES["lock_tests"].support, "reap_children", lambda: None)
        yield opened
        assert opened.group.compare().is_equal


def test_the_suites_pass_while_the_leader_is_killed(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    left_out = (*MEASURING, *(() if LONG_S else SLOW))
    named = [(case, name) for case in CASES for name in unittest.TestLoader().getTestCaseNames(case)]
    chosen = [case(name) for case, name in named if not is_any(f"{case.__name__}.{name}", left_out)]
    # Its seconds are for the parties to come, which an election may keep from it.
    monkeypatch.setattr(MODULES["lock_tests"].BarrierTests, "defaultTimeout", 12.0)
    rounds, ends = 0, time.monotonic() + (LONG_S or KILLS_S)
    with killer(pool.group, KILL_EVERY_S) as killed:
        while time.monotonic() < ends:
            rounds += 1
            result = unittest.TestResult()
            for test in chosen:
                test.run(result)
            told = "\n".join(f"{test.id()}\n{trace}" for test, trace in result.failures + result.errors)
            assert result.wasSuccessful(), f"round {rounds}, after {len(killed)} kills:\n{told}"
            assert result.testsRun == len(chosen)
    print(f"{len(chosen)} tests, {rounds} rounds, {len(killed)} kills")
    assert len(killed) > 1
