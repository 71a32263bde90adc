"""What is checked of every group once its load has ended: calls, object, replicas and history.

Each check is one line of the verdict. Called by the campaigns; it injects nothing and waits only for replicas
to become equal.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from checker import judge
from group import Group
from load import Load, read_all
from member import Member
from recording import Recording
from verdict import Verdict, show_progress
from waiting import NeverHappened
from workload import Workload


def judge_load(
    title: str, load: Load, recording: Recording, members: Iterable[Member], verdict: Verdict
) -> None:
    """No client met an error that no user expects, and no process ended by itself."""
    answered, refused, unknown = recording.counts()
    note = f"{answered} acknowledged, {refused} refused, {unknown} unknown"
    verdict.check(f"{title} no surprising answer", load.surprises, note)
    ends: list[str] = []
    for member in members:
        member.is_running()
        ends += member.unasked_ends
    verdict.check(f"{title} no node ended unasked", ends)


def judge_object(
    title: str, group: Group, workload: Workload, recording: Recording, verdict: Verdict
) -> None:
    """Every acknowledged call is present exactly once."""
    before = recording.operations()
    final = read_all(group.endpoint, workload, recording, workload.final_steps(before))
    unread = [operation.describe() for operation in final if not operation.is_acknowledged]
    verdict.check(f"{title} final reads answered", unread, f"{len(final)} reads")
    if not unread:
        problems = workload.problems(before, final)
        verdict.check(f"{title} every acknowledged call present exactly once", problems)


def judge_replicas(title: str, group: Group, seconds: float, verdict: Verdict) -> None:
    """All nodes reach the same slot and have one digest there."""
    try:
        statuses = group.wait_equal(seconds)
    except NeverHappened as error:
        verdict.check(f"{title} replicas equal", [str(error)])
        return
    digests = {number: status.digest for number, status in statuses.items()}
    differing = [] if len(set(digests.values())) == 1 else [f"digests {digests}"]
    for number, status in statuses.items():
        if status.diverged is not None:
            differing.append(f"node {number} says that it diverged at slot {status.diverged}")
        if status.frozen is not None:
            differing.append(f"node {number} says that objects froze at slot {status.frozen}")
    slot = next(iter(statuses.values())).executed
    verdict.check(f"{title} replicas equal", differing, f"at slot {slot}")


def judge_history(title: str, checker: str, history: Path, count: int, verdict: Verdict) -> None:
    """Some order explains what the clients saw."""
    show_progress(f"{title}: judging {count} operations")
    is_linearizable, said = judge(checker, history)
    lines = said.splitlines() or ["the checker said nothing"]
    verdict.check(f"{title} linearizable", [] if is_linearizable else lines, lines[-1])
