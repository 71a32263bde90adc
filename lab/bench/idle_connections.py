"""What idle connections cost: a node's memory before and after so many have said hello."""

from __future__ import annotations

import contextlib
import json
import resource
import socket
import sys
import threading
import urllib.request
from pathlib import Path

import quorate
from quorate import _local

SOURCES = 8
"""Addresses that the connections come from: one alone may hold 10,000 at most."""


def first_words() -> bytes:
    """The hello of a client."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        endpoint = f"quorate://127.0.0.1:{listener.getsockname()[1]}/counter"

        def knock() -> None:
            with contextlib.suppress(quorate.QuorateError):
                quorate.connect(endpoint, timeout=1)

        threading.Thread(target=knock, daemon=True).start()
        with listener.accept()[0] as connection:
            return connection.recv(1 << 16)


def resident_kib(pid: int) -> int:
    """Tell the memory of a process."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))


def connections(admin: str) -> int:
    """Tell how many connections a node has."""
    with urllib.request.urlopen(f"http://{admin}/status") as answer:
        return int(json.load(answer)["counts"]["connections"])


def main(count: int) -> None:
    """Open so many, and print what they cost."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    hello = first_words()
    with (
        contextlib.ExitStack() as held,
        _local.start_group("rust:counter", ["--nodes", "1", "--port", "0"], Path.cwd()) as ready,
    ):
        node = ready["nodes"][0]
        host, port = node["address"].rsplit(":", 1)
        before = resident_kib(node["pid"])
        for number in range(count):
            source = (f"127.0.0.{2 + number % SOURCES}", 0)
            connection = socket.create_connection((host, int(port)), source_address=source)
            held.enter_context(connection).sendall(hello)
        found, after = connections(node["admin"]), resident_kib(node["pid"])
        each = (after - before) * 1024 // found
        print(f"{found} connections: {before} KiB before, {after} KiB after, {each} bytes each")


if __name__ == "__main__":
    main(int(sys.argv[1]))
