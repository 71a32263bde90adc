"""What the commands say of a group of Python objects."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from quorate import _local

BOARD = '''
class Board:
    """Lines that people write."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def add(self, line: str, *, first: bool = False) -> int:
        """Write a line."""
        self.lines.insert(0 if first else len(self.lines), line)
        return len(self.lines)

    def read(self) -> list[str]:
        """All lines.

        In their order.
        """
        return self.lines

    def jam(self) -> None:
        self.jammed = (line for line in self.lines)
'''


@dataclass(frozen=True)
class Running:
    ready: dict[str, Any]

    def quorate(self, command: str, *words: str) -> subprocess.CompletedProcess[str]:
        line = [_local.program(), command, "--endpoint", self.ready["endpoint"], *words]
        return subprocess.run(line, capture_output=True, text=True, timeout=120, check=False)

    def nodes(self) -> list[dict[str, Any]]:
        document = json.loads(self.quorate("status", "-o", "json").stdout)
        return list(document["nodes"])


@pytest.fixture
def board(tmp_path: Path) -> Iterator[Running]:
    (tmp_path / "board.py").write_text(BOARD)
    options = ["--port", "0", "--dir", str(tmp_path / "data")]
    with _local.start_group("board:Board", options, tmp_path) as ready:
        yield Running(ready)


def test_a_call_without_a_method_lists_the_methods(board: Running) -> None:
    told = board.quorate("call", "Board", "-o", "json")
    assert told.returncode == 0, told.stderr
    assert json.loads(told.stdout) == [
        {
            "method": "add(line: str, *, first: bool = False) -> int",
            "kind": "call",
            "description": "Write a line.",
        },
        {"method": "jam() -> None", "kind": "call", "description": ""},
        {"method": "read() -> list[str]", "kind": "read", "description": "All lines."},
    ]
    table = board.quorate("call", "Board").stdout.splitlines()
    assert len(table) == 4
    assert table[3].split() == ["read()", "->", "list[str]", "read", "All", "lines."]


def test_a_misspelt_method_is_told_with_those_that_there_are(board: Running) -> None:
    told = board.quorate("call", "Board", "raed")
    assert told.returncode == 1
    assert "did you mean `read`? (its methods: add, jam, read)" in told.stderr
    as_json = json.loads(board.quorate("call", "Board", "raed", "-o", "json").stderr)
    assert as_json["advice"] == "`quorate call OBJECT` lists the object's methods"
    assert "did you mean" not in board.quorate("call", "Board", "withdraw").stderr


def test_a_snapshot_is_on_the_disks_of_a_majority_when_the_command_returns(board: Running) -> None:
    for _ in range(5):
        board.quorate("call", "Board", "add", "x")
        taken = board.quorate("snapshot")
        slot = int(taken.stdout)
        held = [node for node in board.nodes() if node["snapshot"] >= slot]
        assert len(held) >= 2


def test_a_snapshot_that_nobody_can_take_fails_and_says_why(board: Running) -> None:
    assert board.quorate("call", "Board", "jam").returncode == 0
    taken = board.quorate("snapshot")
    assert taken.returncode == 1, taken.stdout
    assert taken.stdout == ""
    assert "no snapshot was taken at slot" in taken.stderr
    assert "generator" in taken.stderr
    assert "took no snapshot at slot" in board.quorate("status").stdout


@pytest.mark.parametrize("is_kept", [False, True])
def test_a_group_says_when_its_data_goes_with_it(tmp_path: Path, is_kept: bool) -> None:
    words = ["--dir", str(tmp_path)] if is_kept else []
    command = [_local.program(), "up", "rust:counter", "--nodes", "1", "--port", "0", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as up:
        assert up.stdout is not None
        said = ""
        while "stop with Ctrl-C" not in said:
            line = up.stdout.readline()
            assert line, said
            said += line
        up.terminate()
    assert ("goes when this ends; --dir DIR keeps it" in said) is not is_kept
    assert "1 acceptor: 1 decide; the group goes on without 0\n" in said


def test_every_node_of_a_group_that_is_stopped_holds_its_last_snapshot(tmp_path: Path) -> None:
    (tmp_path / "board.py").write_text(BOARD)
    data = str(tmp_path / "data")
    with _local.start_group("board:Board", ["--port", "0", "--dir", data], tmp_path) as ready:
        Running(ready).quorate("call", "Board", "add", "a line")
    told = subprocess.run([_local.program(), "verify", data], capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stderr
