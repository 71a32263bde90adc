"""A group that was stopped as a whole starts again with its state, from snapshot and log."""

from __future__ import annotations

import subprocess
from pathlib import Path

from subjects import Wallet

import quorate
from quorate import _local


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
