"""Certificates of Python clients, against a group of real processes that takes sealed connections only."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import quorate
from quorate._local import program, start_group

MAPPED = "[::ffff:127.0.0.1]"
"""Loopback, and a node takes it for an address that other machines reach."""

SECONDS = 60


@pytest.fixture(scope="module")
def group() -> Iterator[dict[str, Any]]:
    with start_group("rust:counter", ["--tls", "--nodes", "1", "--port", "0"], Path.cwd()) as ready:
        yield ready


def test_both_flavours_bring_their_certificates(group: dict[str, Any]) -> None:
    tls = quorate.Tls(**group["tls"])
    with quorate.connect(group["endpoint"], tls=tls) as counter:
        assert counter.add(5) == 5

    async def add() -> Any:
        async with quorate.aconnect(group["endpoint"], tls=tls) as counter:
            return await counter.add(1)

    assert asyncio.run(add()) == 6


def test_a_plain_client_is_told_what_to_bring(group: dict[str, Any]) -> None:
    with pytest.raises(quorate.Refused, match=r"speaks TLS.*quorate\.Tls"):
        quorate.connect(group["endpoint"])


def test_a_file_that_cannot_be_read_is_named(group: dict[str, Any], tmp_path: Path) -> None:
    absent = tmp_path / "absent.key"
    with pytest.raises(quorate.Refused, match=r"absent\.key"):
        quorate.connect(group["endpoint"], tls=quorate.Tls(**{**group["tls"], "key": absent}))


def sealed(files: dict[str, str], *, with_own: bool = True) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=files["ca"])
    if with_own:
        context.load_cert_chain(files["cert"], files["key"])
    return context


def ask(port: int, context: ssl.SSLContext) -> str:
    with urllib.request.urlopen(f"https://127.0.0.1:{port}/readyz", context=context, timeout=5) as answer:
        return str(answer.read().decode())


@contextlib.contextmanager
def node_with_an_open_admin_port(home: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """The port, and the files of who may ask there."""
    options = ["--tls", "--nodes", "1", "--port", "0", "--dir", str(home)]
    with start_group("rust:counter", options, home) as ready:
        admin, files = ready["nodes"][0]["admin"], ready["tls"]
    port = int(admin.rsplit(":", 1)[1])
    config = home / "node-1.toml"
    config.write_text(config.read_text().replace(f'admin = "{admin}"', f'admin = "{MAPPED}:{port}"', 1))
    command = [program(), "node", "run", "--config", str(config)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as node:
        try:
            yield port, files
        finally:
            node.terminate()


def test_an_admin_port_that_others_reach_answers_only_who_brings_a_certificate(tmp_path: Path) -> None:
    with node_with_an_open_admin_port(tmp_path) as (port, files), contextlib.ExitStack() as silent:
        deadline = time.monotonic() + SECONDS
        answer = ""
        while answer != "ok\n":
            assert time.monotonic() < deadline, "the node is never ready"
            with contextlib.suppress(OSError):
                answer = ask(port, sealed(files))
        # Who says nothing in place of a greeting keeps nobody waiting.
        for _ in range(8):
            silent.enter_context(socket.create_connection(("127.0.0.1", port)))
        assert ask(port, sealed(files)) == "ok\n"
        with pytest.raises(OSError):
            ask(port, sealed(files, with_own=False))
        with socket.create_connection(("127.0.0.1", port), timeout=5) as plain:
            plain.sendall(b"GET /readyz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            told = b""
            with contextlib.suppress(ConnectionResetError):
                while piece := plain.recv(4096):
                    told += piece
        assert b"HTTP" not in told
        assert b"ok" not in told
