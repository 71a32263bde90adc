"""Ten thousand clients that say nothing beside one that calls."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest

IDLE = 10_000
FILES_BESIDE = 512
"""Of the node and of the script, beside those connections."""

SCRIPT = Path(__file__).parents[2] / "lab" / "bench" / "idle_connections.py"


def test_ten_thousand_idle_connections_cost_a_node_few_bytes_each_and_no_client_its_place() -> None:
    _, allowed = resource.getrlimit(resource.RLIMIT_NOFILE)
    if allowed != resource.RLIM_INFINITY and allowed < IDLE + FILES_BESIDE:
        pytest.skip(f"a process may open {allowed} files here")
    command = [sys.executable, str(SCRIPT), str(IDLE)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
