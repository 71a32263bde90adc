"""A group goes to another level and back under load."""

from __future__ import annotations

from pathlib import Path

import pytest

import upgrades
from checker import checker

CHECKS = 11
"""Of a run there and back."""


def test_three_nodes_go_to_a_newer_version_and_back_while_clients_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every check is made and passes."""
    monkeypatch.setenv("QUORATE_HISTORY", checker())
    verdict = upgrades.run(upgrades.read_options(["--keep", str(tmp_path)]))
    said = capsys.readouterr().out
    assert verdict.failures == [], said
    assert verdict.passed == CHECKS, said
