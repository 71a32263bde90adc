"""Classes that say how their calls are undone: what is said wrongly is found, and undos are tried."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import undo_subjects
from host_frames import Frames
from patience import PATIENCE_S, until
from test_early import counter

import quorate
import quorate.testing
from quorate import _check, _lint, _undo

HERE = str(Path(__file__).parent)


def test_undos_are_found_by_the_method_that_they_undo() -> None:
    assert sorted(_undo.undos_of(undo_subjects.Sound)) == ["__setitem__", "add", "put", "take"]
    assert _undo.problems(undo_subjects.Sound) == []


WRONG = {
    "Nameless": "there is no such method",
    "Reading": "declared read-only",
    "Public": "clients could call",
    "Private": "no client can call",
    "Narrow": "write `def _undo_add(self, result, amount)`",
    "NarrowGenerator": "write `def _undo_add(self, amount)`",
    "Twice": "which `_undo_add` does too",
    "Async": "is async",
    "Static": "no plain method",
    "Overridden": "a class below has replaced",
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_said_wrongly_is_found_with_its_line_and_not_used(name: str) -> None:
    cls = getattr(undo_subjects, name)
    found = _undo.problems(cls)
    assert len(found) == 1, found
    assert WRONG[name] in str(found[0])
    assert found[0].file.endswith("undo_subjects.py")
    assert found[0].line > 0
    assert [each for each in _lint.lint(cls) if each.rule == "undo"] == found
    assert len(_undo.undos_of(cls)) == (1 if name == "Twice" else 0)


def test_the_decorator_refuses_what_is_no_method() -> None:
    with pytest.raises(TypeError, match="takes a method, or its name"):
        quorate.undoes(3)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="above its `def`"):
        quorate.undoes("add")(len)


LYING = {
    "Off": ("_undo_add", "`total` is not what it was"),
    "Unordered": ("_undo_take", "not in its order"),
    "LeavesOne": ("_undo_add", "`seen` is not what it was"),
    "Raising": ("_undo_add", "RuntimeError: no way back"),
    "Early": ("_undo_add", "before its `yield`"),
    "Changing": ("_undo_add", "changes the object before its `yield`"),
    "Drifting": ("_undo_add", "`total` is not what it was"),
    "Tagged": ("_undo_tag", "`tags` is not what it was before the call, or not in its order"),
}


@pytest.mark.parametrize("name", LYING)
def test_an_undo_that_lies_is_found_when_the_class_is_checked(name: str) -> None:
    own, part = LYING[name]
    plan = _check.Plan(f"undo_subjects:{name}", [HERE], calls=60, restores=1, is_short=True)
    found = [each for each in _check.check(plan).found if each.rule == "undo"]
    assert [each.function for each in found] == [f"{name}.{own}"], found
    assert part in found[0].reason
    assert found[0].level == "problem"
    assert found[0].line > 0


def test_sound_undos_pass_the_check() -> None:
    plan = _check.Plan("undo_subjects:Sound", [HERE], calls=120, restores=1, is_short=True)
    report = _check.check(plan)
    assert report.found == []
    assert {row.name for row in report.methods if row.calls} >= {"add", "put", "take"}


@pytest.mark.parametrize("name", LYING)
def test_a_group_in_this_process_tries_each_undo(name: str) -> None:
    own, part = LYING[name]
    method = own.removeprefix("_undo_")
    with quorate.testing.local(getattr(undo_subjects, name)) as it:
        with pytest.raises(
            quorate.testing.NotUndone, match=f"`{own}` of {name} does not undo `{method}`"
        ) as why:
            getattr(it, method)(3)
        assert part in str(why.value)


def test_a_group_in_this_process_goes_on_where_undos_are_right() -> None:
    with quorate.testing.local(undo_subjects.Sound) as it:
        assert it.add(3) == 3
        it.put("a", 1)
        assert it.take("a") == 1
        with pytest.raises(KeyError):
            it.take("a")
        assert it.add(1) == 4


def kept(target: Any, method: str, *args: Any) -> _undo.Kept:
    found = _undo.keep(target, method, args, {}, False)
    found.result = getattr(target, method)(*args)
    return found


def test_a_call_is_undone_by_value_and_another_difference_is_told() -> None:
    it = undo_subjects.Sound()
    first, second = kept(it, "put", "a", 1), kept(it, "put", "a", 2)
    _undo.undo(it, second)
    assert it.kept == {"a": 1}
    _undo.undo(it, first)
    assert it.kept == {}
    third, fourth = kept(it, "put", "a", 1), kept(it, "put", "b", 2)
    # In the wrong order.
    with pytest.raises(_undo.NotUndone, match="`kept` is not what it was"):
        _undo.undo(it, third)
    assert fourth.result is None


# ---- a host ----


@pytest.fixture
def host(request: pytest.FixtureRequest) -> Iterator[Callable[..., Frames]]:
    begun: list[Frames] = []

    def begin(name: str, *unreliable: tuple[int, str]) -> Frames:
        begun.append(Frames(f"undo_subjects:{name}", unreliable))
        return begun[-1]

    yield begin
    for each in begun:
        each.end()


CALLS: list[tuple[str, list[Any]]] = [
    ("put", ["a", 3]),
    ("put", ["b", 4]),
    ("take", ["a"]),
    ("wait", []),
    ("wake", [5]),
    ("remind", [9]),
    ("drop", []),
]


@pytest.mark.parametrize("seed", range(4))
def test_what_is_undone_leaves_the_image_that_was_there_before(
    seed: int, host: Callable[..., Frames]
) -> None:
    """Claim rp-145: parked calls, timers and sessions are in the image."""
    chance = random.Random(seed)
    frames, plain = host("Desk"), host("Desk")
    for each in (frames, plain):
        each.call("put", "a", 1, session=2)
        each.call("wait", session=3)
    has_changed = False
    for _ in range(12):
        before = frames.image()
        count = chance.randrange(1, 8)
        for _ in range(count):
            method, args = chance.choice(CALLS)
            assert frames.ahead(method, *args, session=chance.randrange(2, 6))
        has_changed |= frames.image() != before
        assert frames.undo(count) == ""
        assert frames.image() == before
        for each in (frames, plain):
            each.call("put", "c", count, session=2)
        assert frames.image() == plain.image()
    assert has_changed
    assert frames.call("wake", 1, session=2) == plain.call("wake", 1, session=2) == 1
    assert frames.tick(60) == plain.tick(60)


def test_what_a_host_was_told_to_be_unreliable_it_does_not_undo(host: Callable[..., Frames]) -> None:
    assert host("Sound").ahead("add", 1)
    assert not host("Sound", (1, "add")).ahead("add", 1)


def test_an_object_that_python_hashes_by_its_address_has_the_process_replaced(
    host: Callable[..., Frames],
) -> None:
    assert not host("Hashed").ahead("join", 1)
    assert host("Hashed").ahead("count")


def test_a_call_that_wakes_one_which_is_tried_again_has_the_process_replaced(
    host: Callable[..., Frames],
) -> None:
    frames = host("Shelf")
    assert frames.ahead("put", 1)
    assert frames.call("take") == 1
    assert frames.ahead("take"), "it leaves no trace"
    assert frames.undo(1) == ""
    assert frames.call("take") is None
    assert not frames.ahead("put", 1)


def test_a_lie_is_found_while_nothing_is_undone_and_the_undo_is_not_used_again(
    host: Callable[..., Frames],
) -> None:
    """Claim rp-147."""
    frames = host("LeavesOne")
    until = time.monotonic() + PATIENCE_S
    while frames.ahead("add", 1):
        assert time.monotonic() < until, "a forked process tries the undo, and finds the lie"


def test_a_lie_that_no_trial_met_is_found_when_it_is_used(host: Callable[..., Frames]) -> None:
    frames = host("Off")
    assert frames.ahead("add", 1)
    why = frames.undo(1)
    for part in ("`_undo_add` of Off", "`add`", "`total`", "remove @quorate.undoes"):
        assert part in why


# ---- a group ----


def hosts_of(node: int) -> set[int]:
    """The processes that a node has started."""
    tasks = Path(f"/proc/{node}/task").iterdir()
    return {int(each) for task in tasks for each in (task / "children").read_text().split()}


@pytest.mark.parametrize("name", ["Sound", "Plain"])
def test_a_leader_whose_calls_are_not_decided_goes_back_in_its_host(name: str, tmp_path: Path) -> None:
    with counter(tmp_path, path=f"undo_subjects:{name}") as nodes:
        leader = nodes.leader()
        own = int(nodes.nodes[leader]["pid"])
        with quorate.connect(nodes.at(leader), timeout=PATIENCE_S) as proxy:
            assert proxy.add(1) == 1
            hosts = hosts_of(own)
            assert hosts
            nodes.signal(signal.SIGSTOP, *nodes.others(leader))
            early = quorate.early(proxy.add, 10)
            assert early.tentative == 11
            until(lambda: nodes.status(leader)["undone"] > 0)
            nodes.signal(signal.SIGCONT, *nodes.others(leader))
            assert early.confirmed() == 11
            assert proxy.add(1) == 12
            assert (hosts_of(own) == hosts) == (name == "Sound")
