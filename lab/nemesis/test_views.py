"""All machines of a small group are replaced under load, and what is drawn of such a run."""

from __future__ import annotations

from pathlib import Path

import pytest

import views
from checker import checker
from outages import MS
from recording import Operation
from timeline import Sample, Timeline

CHECKS = 11
"""Of a run in which every machine was replaced."""


def test_three_machines_are_replaced_while_clients_call_and_the_leader_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every check is made and passes; times are printed and not judged."""
    monkeypatch.setenv("QUORATE_HISTORY", checker())
    verdict = views.run(views.read_options(["--short", "--keep", str(tmp_path)]))
    said = capsys.readouterr().out
    assert verdict.failures == [], said
    assert verdict.passed == CHECKS, said
    assert "leader killed" in said
    assert list(tmp_path.glob("*/timeline.svg")), said


def test_a_member_stays_from_the_first_view_that_names_it_to_the_last() -> None:
    """One that is named once was there for a moment."""
    samples = [Sample(0, 1, (1, 2), 1), Sample(5, 2, (1, 2, 3), 1), Sample(9, 3, (2, 3), 2)]
    assert Timeline(samples=samples).stays() == {1: (0, 5), 2: (0, 9), 3: (5, 9)}


def test_only_acknowledged_calls_of_the_span_count_as_throughput() -> None:
    """In whole tenths of a second."""

    def call(return_ms: int | None, error: str | None = None) -> Operation:
        returned = None if return_ms is None else return_ms * MS
        return Operation(1, "kv/Shelf", "get", ("key",), 0, returned, None, True, error)

    calls = [call(50), call(99), call(100), call(260), call(None, "unknown: TimedOut")]
    assert Timeline(start_ns=0, end_ns=250 * MS).rates(calls) == [20, 10]
