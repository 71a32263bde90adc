"""A group that was stopped as a whole starts again with its state, from snapshot and log."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from lazy_subjects import Ledger
from subjects import Wallet

import quorate
from quorate import _local, _names, _native


def test_a_stopped_group_has_everything_it_acknowledged(tmp_path: Path) -> None:
    options = ["--args", "[100]", "--persist", "disk", "--dir", str(tmp_path), "--port", "0"]
    here = Path(__file__).parent
    with (
        _local.start_group("subjects:Wallet", options, here) as ready,
        quorate.connect(ready["endpoint"], Wallet) as wallet,
    ):
        quorate.gather(*[quorate.submit(wallet.deposit, 1) for _ in range(1000)])
        command = [_local.program(), "snapshot", "--endpoint", ready["endpoint"]]
        subprocess.run(command, check=True, capture_output=True)
        assert wallet.deposit(1) == 1101
    with (
        _local.start_group("subjects:Wallet", options, here) as ready,
        quorate.connect(ready["endpoint"], Wallet) as wallet,
    ):
        assert wallet.total() == 1101
        assert wallet.deposit(1) == 1102


CLEAN = """
class Board:
    def __init__(self):
        self.lines = []
    def add(self, line):
        self.lines.append(line)
        return len(self.lines)
"""
UNCLEAN = CLEAN.replace("        return", "        Board.latest = line\n        return")


def test_a_group_starts_again_after_its_class_became_one_that_a_new_group_is_refused_for(
    tmp_path: Path,
) -> None:
    options = ["--persist", "disk", "--dir", str(tmp_path / "group"), "--port", "0"]
    module = tmp_path / "board.py"
    module.write_text(CLEAN)
    with (
        _local.start_group("board:Board", options, tmp_path) as ready,
        quorate.connect(ready["endpoint"]) as board,
    ):
        assert board.add("a") == 1
    module.write_text(UNCLEAN)
    with (
        _local.start_group("board:Board", [*options, "--accept-code"], tmp_path) as ready,
        quorate.connect(ready["endpoint"]) as board,
    ):
        assert board.add("b") == 2
    said = "".join(log.read_text() for log in (tmp_path / "group").rglob("*.log"))
    assert "warning: object Board: Board.latest is assigned in Board.add (board.py:" in said
    with pytest.raises(quorate.Unavailable, match=r"Board\.latest is assigned"):
        _local.start_group("board:Board", ["--port", "0"], tmp_path).__enter__()


START = """
import sys
from quorate import _host, _names, _native
from lazy_subjects import Ledger

_names.register(Ledger)
host = _host.Host(0)
host._classes[1] = Ledger
image = sys.stdin.buffer.read()
restored = host.restore([(1, image)])[1]
assert _native.dump_state(restored) == image
print(*restored.described())
"""


def test_a_new_host_knows_what_only_methods_had_imported() -> None:
    _names.register(Ledger)
    ledger = Ledger()
    ledger.keep()
    image = _native.dump_state(ledger)
    started = subprocess.run(
        [sys.executable, "-c", START],
        input=image,
        cwd=Path(__file__).parent,
        capture_output=True,
        check=False,
    )
    assert started.stdout.decode().split() == ledger.described(), started.stderr.decode()
