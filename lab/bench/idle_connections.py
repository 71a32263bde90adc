"""What idle connections cost: a node's memory before and after so many have said hello.

Ends with 1 when the node does not hold all of them, when each costs more than the bound, or when
a client that calls is not served beside them.
"""

from __future__ import annotations

import contextlib
import json
import resource
import socket
import sys
import threading
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import quorate
from quorate import _local

SOURCES = 8
"""Addresses that the connections come from: one alone may hold 10,000 at most."""

BYTES_MAX = 8192
"""What one connection may cost: docs/nodes.md says 4 to 5 KiB, and a node takes whole pages."""

AT_ONCE = 64
"""Connections that are being made: fewer than wait for a node to accept them."""

CALLS = 100
"""Of a client that comes last."""


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


def main(count: int) -> int:
    """Open so many, print what they cost, and judge it."""
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

        def greet(number: int) -> socket.socket:
            source = (f"127.0.0.{2 + number % SOURCES}", 0)
            connection = socket.create_connection((host, int(port)), source_address=source)
            connection.sendall(hello)
            return connection

        with ThreadPoolExecutor(AT_ONCE) as threads:
            for connection in threads.map(greet, range(count)):
                held.enter_context(connection)
        with quorate.connect(ready["endpoint"]) as counter:
            served = [counter.add(1) for _ in range(CALLS)]
        found, after = connections(node["admin"]), resident_kib(node["pid"])
    each = (after - before) * 1024 // max(found, 1)
    print(f"{found} connections: {before} KiB before, {after} KiB after, {each} bytes each")
    is_served = served == list(range(1, CALLS + 1))
    return 0 if found >= count and each <= BYTES_MAX and is_served else 1


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
