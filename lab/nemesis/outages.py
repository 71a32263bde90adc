"""How long clients went without an answer, from the calls that they recorded.

A client's outage in a span of time is the longest stretch between two answers in a row of that client which
touches the span. Calls that ended without an answer, and refusals, are no answers.
"""

from __future__ import annotations

import itertools
import statistics
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from recording import Operation

MS = 1_000_000
"""Nanoseconds of a millisecond."""


@dataclass(frozen=True)
class Outage:
    """What the clients of one span saw, in milliseconds."""

    median_ms: float
    longest_ms: float


def outage(operations: Iterable[Operation], start_ns: int, end_ns: int) -> Outage:
    """The outage of the median client and of the unluckiest one between two moments."""
    answers: dict[int, list[int]] = defaultdict(list)
    for operation in operations:
        if operation.is_acknowledged and operation.return_ns is not None and operation.client > 0:
            answers[operation.client].append(operation.return_ns)
    longest = [_longest_gap(sorted(times), start_ns, end_ns) / MS for times in answers.values()]
    if not longest:
        whole = (end_ns - start_ns) / MS
        return Outage(whole, whole)
    return Outage(statistics.median(longest), max(longest))


P99_FLOOR_MS = 3.0
"""A call of the lab waits for flushes of a disk and for a turn of one of two processors. A quiet machine
takes 1.8 to 3.2 ms without any fault, and a crowd that goes elsewhere makes that up to 1.5 times as long.
A busy machine takes longer before a fault already, and that counts instead."""


def p99_ms(operations: Iterable[Operation], start_ns: int, end_ns: int) -> float | None:
    """Within what time 99 of 100 calls of a span were answered; those without an answer waited to its end."""
    took = sorted(
        ((operation.return_ns or end_ns) - operation.invoke_ns) / MS
        for operation in operations
        if operation.client > 0 and start_ns <= operation.invoke_ns < end_ns and not operation.is_refused
    )
    return took[len(took) * 99 // 100] if took else None


def slowed(before_ms: float | None, during_ms: float | None, times_max: float) -> list[str]:
    """What is wrong where calls under a fault took more than so many times as long as before."""
    if before_ms is None or during_ms is None:
        return ["too few calls to compare"]
    if during_ms <= times_max * max(before_ms, P99_FLOOR_MS):
        return []
    return [f"99 of 100 calls took {during_ms:.0f} ms, and {before_ms:.0f} ms before"]


def told_p99(before_ms: float | None, during_ms: float | None) -> str:
    """Both, and how many times as long it is."""
    before, during = before_ms or 0.0, during_ms or 0.0
    times = f"{during / before:.1f} times" if before else "nothing to compare with"
    return f"{before:.1f} ms before and {during:.1f} ms: {times}"


def answered_between(operations: Iterable[Operation], start_ns: int, end_ns: int) -> bool:
    """Whether a call that was made in the span was also answered in it: somebody is served."""
    return any(
        operation.is_acknowledged
        and operation.return_ns is not None
        and operation.invoke_ns >= start_ns
        and operation.return_ns <= end_ns
        for operation in operations
    )


def _longest_gap(times: list[int], start_ns: int, end_ns: int) -> int:
    before = [time for time in times if time <= start_ns]
    inside = [time for time in times if start_ns < time < end_ns]
    after = [time for time in times if time >= end_ns]
    edges = [before[-1] if before else start_ns, *inside, after[0] if after else end_ns]
    return max(later - earlier for earlier, later in itertools.pairwise(edges))
