"""The table of the guide that says how large the objects are, and how little of them knows of replication.

It is table 1 of the OpenReplica paper with the objects of this library.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from objects_sizes import size

from quorate import _check, _lint, objects
from quorate.objects import _account, _binary_search_tree, _line, _queue, _storage
from quorate.objects._binary_search_tree import TreeNode
from quorate.objects._line import Line
from quorate.objects._linked_list import ListNode
from quorate.objects._rendezvous import Rendezvous

PAGE = Path(__file__).resolve().parents[2] / "docs/guide/objects.rst"
ROW = re.compile(r'^   "(\w+)", "?(\w*)"?, (\d+), (\d+), (\d+), "(\d*) ?/? ?(\d*)"$', re.MULTILINE)

HELPERS: dict[str, tuple[Callable[..., Any], ...]] = {
    "LinkedList": (ListNode,),
    "BinarySearchTree": (TreeNode, _binary_search_tree._is_less),
    "Account": (_account.checked,),
    "Storage": (_storage.checked,),
    "Line": (_line.calling, _line.labelled, _line.named, _line.patience),
    "Queue": (_queue._patience,),
}
BASES: dict[str, type[Any]] = {"Line": Line, "Rendezvous": Rendezvous}

STRUCTURES = ["Stack", "LinkedList", "RedBlackTree", "BinarySearchTree", "Counter", "Map", "Set", "Log"]
STRUCTURES += ["Storage", "Account", "Bank", "RateLimiter"]
FEW = 4
MORE = {"Condition": 12, "Queue": 10, "Election": 9, "ResourceBroker": 8, "Membership": 6, "JobManager": 5}
"""Objects with more lines that wait than a few. The guide says why, each on a line of its own."""

REASON = re.compile(r"^\* ``(\w+)``, (\d+): \w", re.MULTILINE)


def class_of(name: str) -> type[Any]:
    found: type[Any] = BASES[name] if name in BASES else getattr(objects, name)
    return found


def all_classes() -> set[str]:
    return {name for name in objects.__all__ if not issubclass(getattr(objects, name), Exception)}


def sizes(name: str) -> tuple[int, int, int]:
    return size(class_of(name), *HELPERS.get(name, ()))


def test_data_structures_know_nothing_of_replication() -> None:
    assert {name: sizes(name)[1:] for name in STRUCTURES} == dict.fromkeys(STRUCTURES, (0, 0))


def test_synchronisation_takes_few_lines_that_wait_or_the_guide_says_why() -> None:
    waiting = {name: sizes(name)[1] for name in all_classes() - set(STRUCTURES)}
    assert {name: lines for name, lines in waiting.items() if lines > FEW} == MORE
    told = REASON.findall(PAGE.read_text("utf-8"))
    assert {name: int(lines) for name, lines in told} == MORE
    assert len(told) == len(MORE)


def test_the_table_of_the_guide_is_true() -> None:
    text = PAGE.read_text("utf-8")
    rows = {name: (base, tuple(map(int, numbers))) for name, base, *numbers, _, _ in ROW.findall(text)}
    assert rows.keys() == all_classes() | BASES.keys()
    for name, (base, numbers) in rows.items():
        assert numbers == sizes(name), f"{name} has {sizes(name)}"
        assert base == "" or issubclass(class_of(name), class_of(base))


def test_the_guide_speaks_of_every_object() -> None:
    text = PAGE.read_text("utf-8").partition("csv-table")[0]
    missing = [name for name in objects.__all__ if not re.search(rf"``{name}\b", text)]
    assert not missing


@pytest.mark.parametrize("name", objects.__all__)
def test_nothing_in_the_source_of_an_object_makes_replicas_differ(name: str) -> None:
    assert _lint.lint(getattr(objects, name)) == []


@pytest.mark.parametrize(
    "name", ["RedBlackTree", "Counter", "Storage", "PriorityQueue", "RLock", "JobManager"]
)
def test_an_object_is_found_fit_when_it_is_run(name: str) -> None:
    report = _check.Check(_check.Plan(f"quorate.objects:{name}", [], is_short=True, calls=60)).run()
    assert report.problems == 0
    assert all(method.is_agreed and method.is_kept and method.is_told for method in report.methods)
