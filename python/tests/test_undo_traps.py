"""Undos that do what they must not: hosts name them and go on without, and no result is wrong."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import undo_traps
from host_frames import Frames
from patience import PATIENCE_S
from test_early import counter

import quorate
import quorate.testing
from quorate import _check, _host, _undo

HERE = str(Path(__file__).parent)

KEPT_MAX = 16_384
"""Calls that a host keeps; `KEPT_MAX` of `kept.rs`."""

CHECK_SECONDS_MAX = 60.0
"""Of a check in which one undo does not end: each of sixty calls would take two seconds."""


def checked(name: str) -> _check.Report:
    plan = _check.Plan(f"undo_traps:{name}", [HERE], calls=60, restores=1, is_short=True)
    return _check.check(plan)


# ---- when the class is checked ----


AT_CHECK = {
    "Endless": "it does not end within two seconds",
    "EndlessBefore": "before its `yield`",
    "Stubborn": "it does not end",
    "StubbornBefore": "it does not end",
    "Ending": "it ends the process",
    "EndingBefore": "it ends the process",
    "Hidden": "changes the object before its `yield`: `log`",
    "RaisingBefore": "changes the object before its `yield`, and raises: `total`",
    "NeverYielding": "before its `yield`",
    "Wrapped": "mark the function that has the `yield`",
    "Slotted": "`total` is not what it was",
}


@pytest.mark.parametrize("name", AT_CHECK)
def test_what_an_undo_does_is_found_soon_and_is_not_taken_for_the_methods(name: str) -> None:
    began = time.monotonic()
    report = checked(name)
    assert time.monotonic() - began < CHECK_SECONDS_MAX
    found = [each for each in report.found if each.level == "problem"]
    assert [(each.rule, each.function) for each in found] == [("undo", f"{name}._undo_add")], found
    assert AT_CHECK[name] in found[0].reason
    assert found[0].file.endswith("undo_traps.py")
    assert found[0].line > 0
    (row,) = (row for row in report.methods if row.name == "add")
    assert row.ended == ""
    assert row.calls > 50


def test_an_undo_of_a_special_method_is_tried_and_the_method_has_a_row() -> None:
    report = checked("Losing")
    assert [each.function for each in report.found] == ["Losing._undo_setitem"]
    (row,) = report.methods
    assert row.name == "__setitem__"
    assert row.calls > 50


GUARDED = ["Finally", "CatchesExit", "Delegating", "WithBlock"]


@pytest.mark.parametrize("name", GUARDED)
def test_an_undo_whose_end_would_run_at_the_decision_is_refused(name: str) -> None:
    cls = getattr(undo_traps, name)
    assert "would run when the call is decided" in str(_undo.problems(cls)[0])
    assert _undo.undos_of(cls) == {}


def test_what_a_generator_catches_before_and_after_its_yield_is_its_own_affair() -> None:
    assert _undo.problems(undo_traps.TryBefore) == []
    assert list(_undo.undos_of(undo_traps.TryBefore)) == ["add"]


# ---- in a group in this process ----


@pytest.mark.parametrize("name", ["Endless", "EndlessBefore"])
def test_an_undo_that_does_not_end_is_ended_in_this_process(name: str) -> None:
    told = pytest.raises(quorate.testing.NotUndone, match="`_undo_add`")
    with quorate.testing.local(getattr(undo_traps, name)) as it, told:
        it.add(3)


# ---- a host ----


@pytest.fixture
def host() -> Iterator[Callable[..., Frames]]:
    begun: list[Frames] = []

    def begin(name: str, *unreliable: tuple[int, str], checks: str = "all") -> Frames:
        begun.append(Frames(f"undo_traps:{name}", unreliable, checks=checks))
        return begun[-1]

    yield begin
    for each in begun:
        each.end()


BEFORE = {
    "Hidden": "changes the object before its `yield`: `log`",
    "RaisingBefore": "changes the object before its `yield`, and raises: `total`",
    "NeverYielding": "changes the object before its `yield`: `total`",
}


@pytest.mark.parametrize("name", BEFORE)
def test_what_changes_the_object_before_a_call_ends_the_host_before_the_call(
    name: str, host: Callable[..., Frames]
) -> None:
    """Claim rp-147."""
    # Also where nothing is compared of a sample.
    why = host(name, checks="never").ahead_fails("add", 1)
    for part in (BEFORE[name], f"`_undo_add` of {name}", "`add`", "remove @quorate.undoes"):
        assert part in why
    frames = host(name, (1, "add"), checks="never")
    assert not frames.ahead("add", 1)
    assert frames.call("add", 1) == 2


def test_an_undo_that_lies_is_not_used_for_any_object_of_the_class() -> None:
    host = _host.Host(-1)
    host._classes = {1: undo_traps.TryBefore, 2: undo_traps.TryBefore, 3: undo_traps.Copying}
    assert host.undo_methods() == {1: {"add"}, 2: {"add"}, 3: {"put"}}
    host.distrust(2, "add")
    # Others are created later.
    assert host.undo_methods() == {3: {"put"}}
    assert host.undo_methods([1]) == {}


def test_an_undo_that_ends_its_trial_is_not_used_again(host: Callable[..., Frames]) -> None:
    frames = host("Ending")
    end = time.monotonic() + PATIENCE_S
    while frames.ahead("add", 1):
        assert time.monotonic() < end, "a forked process tries the undo, and ends"


def test_what_was_kept_before_a_trial_found_the_lie_is_not_undone_by_it(host: Callable[..., Frames]) -> None:
    frames = host("Picky")
    end = time.monotonic() + PATIENCE_S
    assert frames.ahead("add", 5), "nobody has compared yet"
    slots = 1
    while frames.ahead("add", 6):
        slots += 1
        assert time.monotonic() < end
    # The last one alone cannot be undone. What is before it was kept for an undo that lies.
    assert "`_undo_add` of Picky does not undo `add`: `log`" in frames.undo(slots + 1)


def test_an_undo_waits_for_the_trial_of_what_it_needs(host: Callable[..., Frames]) -> None:
    frames = host("EndlessForLarge", checks="sample")
    # The first call is tried, and that works for some seconds yet.
    assert frames.ahead("add", 6)
    assert frames.ahead("add", 1)
    # Nothing is wrong with this one alone.
    assert "`add`" in frames.undo(1)


def test_a_call_that_waits_leaves_nothing_to_what_began_at_another_instance(
    host: Callable[..., Frames],
) -> None:
    frames = host("Replaced")
    assert frames.ahead("put", 1)
    assert frames.ahead("take"), "it leaves no trace"
    assert "a call that waits has replaced" in frames.undo(2)


def test_calls_are_kept_up_to_a_bound(host: Callable[..., Frames]) -> None:
    frames = host("TryBefore", checks="never")
    for _ in range(KEPT_MAX):
        assert frames.ahead("add", 1)
    assert not frames.ahead("add", 1)
    # Everything before it is decided.
    frames.call("add", 1)
    assert frames.ahead("add", 1)


def test_what_is_kept_leaves_memory_to_calls(
    host: Callable[..., Frames], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QUORATE_HOST_MEMORY", str(512 << 20))
    # The system counts what the process that starts another one had at most for that one too.
    large = bytearray(b"1") * (400 << 20)
    del large
    frames = host("Copying", checks="never")
    frames.call("fill", 1_000_000)
    # Each copy has 8 MB.
    told = [frames.ahead("put", place, 1) for place in range(40)]
    assert told[0]
    assert not told[-1]
    assert frames.call("put", 0, 1) == 40


@pytest.mark.parametrize("how", ["timer", "wake", "park", "publish"])
def test_what_runs_before_a_call_does_nothing_that_calls_do(how: str, host: Callable[..., Frames]) -> None:
    """Claim rp-146."""
    frames, plain = host("Sneaking"), host("Sneaking", (1, "add"))
    for each in (frames, plain):
        each.call("wait", session=3)
        each.ahead("add", how)
        each.call("add", "")
    assert frames.image() == plain.image()
    assert frames.tick(10) == plain.tick(10)
    assert frames.image() == plain.image()


def test_items_and_slots_are_compared_after_every_undo() -> None:
    for name, part in (("Pile", "its items as a list"), ("Slotted", "`total`")):
        it: Any = getattr(undo_traps, name)()
        kept = _undo.keep(it, "add", (1,), {}, False)
        kept.result = it.add(1)
        with pytest.raises(_undo.NotUndone, match=part):
            _undo.undo(it, kept)


# ---- a group ----


IN_GROUPS = ["Hidden", "RaisingBefore", "NeverYielding", "EndlessBefore", "EndingBefore", "Finally", "Ending"]


@pytest.mark.parametrize("name", IN_GROUPS)
def test_a_group_goes_on_and_every_result_is_right(name: str, tmp_path: Path) -> None:
    """Claim rp-148."""
    with counter(tmp_path, path=f"undo_traps:{name}") as nodes:
        leader = nodes.leader()
        with quorate.connect(nodes.at(leader), timeout=PATIENCE_S) as proxy:
            told = [proxy.add(1) for _ in range(20)]
        assert told == list(range(1, 21))
        for number in nodes.nodes:
            assert nodes.status(number)["frozen"] is None
            with quorate.connect(nodes.at(number), timeout=PATIENCE_S) as proxy:
                assert proxy.add(0) == 20
