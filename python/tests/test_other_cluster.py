"""Another cluster comes to listen where a client's own did: it is refused, and nothing is executed there."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest

import quorate
from quorate import _local

CONFLICT = 7
SECONDS = 60
COMMAND_SECONDS = 600
"""So long a command without a session looks for a node, unless another cluster is everywhere."""

BELOW_EPHEMERAL = range(20_000, 32_000)
ADMIN_ABOVE = 100


def is_free(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
        return True
    return False


def free_ports(nodes: int) -> str:
    """The first of so many ports in a row that are free, as are those of their admin ports."""
    while True:
        first = random.choice(BELOW_EPHEMERAL)
        wanted = [first + above + node for above in (0, ADMIN_ABOVE) for node in range(nodes)]
        if all(is_free(port) for port in wanted):
            return str(first)


def cluster(nodes: int, port: str, home: Path) -> contextlib.AbstractContextManager[dict[str, Any]]:
    home.mkdir()
    options = ["--nodes", str(nodes), "--no-restart", "--port", port, "--dir", str(home)]
    return _local.start_group("rust:counter", options, home)


def total(ready: dict[str, Any]) -> int:
    with quorate.connect(ready["endpoint"]) as counter:
        return int(counter.get())


def test_a_connection_refuses_the_cluster_that_took_its_address(tmp_path: Path) -> None:
    port = free_ports(1)
    with contextlib.ExitStack() as stack:
        with cluster(1, port, tmp_path / "own") as ready:
            counter = stack.enter_context(quorate.connect(ready["endpoint"]))
            assert counter.add(5) == 5
        with cluster(1, port, tmp_path / "other") as ready:
            for _ in range(2):
                with pytest.raises(quorate.OtherCluster, match="nothing was sent to it") as refused:
                    counter.add(1)
                assert refused.value.executed is False
            assert total(ready) == 0, "the other cluster executed nothing"
            with quorate.connect(ready["endpoint"]) as anew:
                assert anew.add(1) == 1


def test_a_command_refuses_the_cluster_that_took_its_addresses(tmp_path: Path) -> None:
    port = free_ports(2)
    with contextlib.ExitStack() as stack:
        with cluster(2, port, tmp_path / "own") as ready:
            first, second = ready["nodes"]
            # Without a majority the command's session does not open, and its call stays with the command.
            os.kill(second["pid"], signal.SIGKILL)
            before = clients(first["admin"])
            endpoint = f"quorate://{first['address']}"
            words = ["call", "--endpoint", endpoint, "--timeout", str(COMMAND_SECONDS), "counter", "add", "1"]
            command = stack.enter_context(
                subprocess.Popen([_local.program(), *words], stderr=subprocess.PIPE, text=True)
            )
            stack.callback(command.kill)
            deadline = time.monotonic() + SECONDS
            while clients(first["admin"]) <= before:
                assert time.monotonic() < deadline, "the command was never welcomed"
            os.kill(first["pid"], signal.SIGKILL)
        with cluster(2, port, tmp_path / "other") as ready:
            _, complaint = command.communicate(timeout=SECONDS)
            expected = "and this client first spoke to cluster"
            assert (command.returncode, expected in complaint) == (CONFLICT, True), complaint
            assert total(ready) == 0, "the other cluster executed nothing"


def clients(admin: str) -> int:
    """How many clients a node has welcomed and still has."""
    with urllib.request.urlopen(f"http://{admin}/status", timeout=SECONDS) as answer:
        return int(json.load(answer)["counts"]["clients"])
