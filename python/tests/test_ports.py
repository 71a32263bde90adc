"""Crowds and strangers at the ports of a node: how many it takes, how long, and who needs a certificate."""

from __future__ import annotations

import contextlib
import socket
import time
from pathlib import Path

import pytest

from quorate import _local

SECONDS = 60
PLACES = 32
"""Connections of the admin port; see `shell/node/src/limits.rs`, like the next."""

LONGEST = 30
FEW_FILES = 300
"""More than a node keeps for itself, fewer than it keeps and the crowd below together."""

CROWD = 400


def admin_of(ready: dict[str, object]) -> tuple[str, int]:
    host, port = ready["nodes"][0]["admin"].rsplit(":", 1)  # type: ignore[index]
    return host, int(port)


def has_ended(connection: socket.socket, within: float) -> bool:
    connection.settimeout(within)
    try:
        return connection.recv(1) == b""
    except TimeoutError:
        return False
    except ConnectionError:
        return True


def test_the_admin_port_ends_its_oldest_connections_above_its_places(tmp_path: Path) -> None:
    with (
        _local.start_group("rust:counter", ["--nodes", "1", "--port", "0"], tmp_path) as ready,
        contextlib.ExitStack() as stack,
    ):
        crowd = []
        for _ in range(PLACES + 8):
            crowd.append(stack.enter_context(socket.create_connection(admin_of(ready))))
        assert all(has_ended(connection, SECONDS / 4) for connection in crowd[:8])
        assert not any(has_ended(connection, 0.01) for connection in crowd[8:])


def test_a_connection_to_the_admin_port_ends_after_its_time_whatever_it_sends(tmp_path: Path) -> None:
    with _local.start_group("rust:counter", ["--nodes", "1", "--port", "0"], tmp_path) as ready:
        begun = time.monotonic()
        with socket.create_connection(admin_of(ready)) as drips:
            drips.sendall(b"GET /livez HTTP/1.1\r\nX: ")
            while not has_ended(drips, 1.0):
                assert time.monotonic() - begun < 2 * LONGEST, "it lasts"
                with contextlib.suppress(ConnectionError):
                    drips.sendall(b"x")
        assert time.monotonic() - begun > LONGEST - 1


def test_a_low_soft_limit_of_files_is_raised_to_the_hard_one(tmp_path: Path) -> None:
    limited = tmp_path / "limited"
    limited.write_text(f'#!/bin/sh\nulimit -Sn {FEW_FILES}\nexec "{_local.program()}" "$@"\n')
    limited.chmod(0o755)
    with (
        pytest.MonkeyPatch.context() as patched,
        contextlib.ExitStack() as stack,
    ):
        patched.setenv("QUORATE_PROGRAM", str(limited))
        options = ["--nodes", "1", "--port", "0"]
        node = stack.enter_context(_local.start_group("rust:counter", options, tmp_path))["nodes"][0]
        host, port = node["address"].rsplit(":", 1)
        for _ in range(CROWD):
            stack.enter_context(socket.create_connection((host, int(port))))
        deadline = time.monotonic() + SECONDS
        while (held := len(list(Path(f"/proc/{node['pid']}/fd").iterdir()))) < CROWD:
            assert time.monotonic() < deadline, f"{held} files are open"
