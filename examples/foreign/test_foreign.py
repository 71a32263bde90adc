"""Each class is driven by random calls beside a twin, through images and restarts.

FOREIGN_CALLS makes the rounds longer, FOREIGN_SEED draws other ones: `make foreign CALLS=2000`.
"""

from __future__ import annotations

import os

import pytest

from foreign.drive import drive
from foreign.groups import drive_group
from foreign.subject import TABLES, Subject, subjects

CALLS = int(os.environ.get("FOREIGN_CALLS", "40"))
SEED = int(os.environ.get("FOREIGN_SEED", "1"))
CALLS_PER_RESTORE = 40
ALL = [subject for table in TABLES for subject in subjects(table)]
IN_GROUPS = (
    "SortedDict",
    "OrderedBidict",
    "Graph",
    "Board",
    "Machine",
    "Lark",
    "BitMap",
    "IntervalTree",
)


@pytest.mark.parametrize("subject", ALL, ids=lambda subject: subject.path)
def test_a_host_that_is_restored_answers_like_one_that_stayed(subject: Subject) -> None:
    """Images, answers and exceptions are equal, before and after."""
    drive(subject, CALLS, SEED, restores=max(1, CALLS // CALLS_PER_RESTORE))


def _in_groups() -> list[Subject]:
    if CALLS > CALLS_PER_RESTORE:
        return [subject for subject in ALL if not subject.is_timed]
    return [subject for subject in ALL if subject.path.partition(":")[2] in IN_GROUPS]


@pytest.mark.parametrize("subject", _in_groups(), ids=lambda subject: subject.path)
def test_a_group_goes_on_when_its_leader_is_killed_and_all_restart(subject: Subject) -> None:
    """Answers are those of a local twin, and all replicas agree on digest and snapshot."""
    drive_group(subject, CALLS, SEED)
