"""What etcd takes for puts of one size: a group whose files are in memory, and Python clients.

Beside the rows of `orderings.py`, and only roughly comparable with them: see `HOW`. As a program it
is one of the clients: `etcd_puts.py PORT SIZE SECONDS PUTS_MAX` prints its latencies as JSON.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import sys
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from statistics import quantiles

from ordering_rows import EXPLAINED
from rivals import Absent, Etcd, _bytes, _field, module

MEMORY = "/dev/shm"
CLIENTS = 4
WINDOW = 16
"""Threads of each client, with one put at a time."""
FILES_PER_PUT = 2
"""Each member keeps a put in its log and in its database."""
MEMORY_SHARE = 4
"""A run takes no more than this part of the memory that is free."""
PUT_S = 30.0
SENT = ("etcd_network_peer_sent_bytes_total", "etcd_network_client_grpc_sent_bytes_total")

HOW = (
    "etcd is not comparable in this: each put stays in its log and its database, with fsync into"
    f" {MEMORY}, where Quorate in memory mode has no file; the clients are {CLIENTS} Python"
    f" processes with {WINDOW} threads each over gRPC, which take more CPU than the load of"
    " `quorate bench`, and its CPU column has the servers alone; it stores a key, where Quorate"
    " runs a method of an object"
)


@dataclass(frozen=True)
class Puts:
    """What a run showed."""

    rate: float
    p50_ms: float
    p99_ms: float
    cpu_s: tuple[float, ...]
    """Of each member, for 1000 puts."""
    sent: tuple[float, ...]
    """Bytes that each member sent for a put."""


def measured(members: int, size: int, seconds: float) -> Puts:
    """Start a group, load its leader for so long, and end it."""
    if not os.path.isdir(MEMORY):
        raise Absent(f"a directory in memory at {MEMORY}")
    most = shutil.disk_usage(MEMORY).free // MEMORY_SHARE // (members * FILES_PER_PUT * size)
    with Etcd(members, MEMORY) as etcd:
        words = [leader_port(etcd.ports), size, seconds, most // CLIENTS]
        command = [sys.executable, __file__, *map(str, words)]
        cpu_before, sent_before = cpu_of(etcd.pids), sent_by(etcd.ports)
        clients = [
            subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(CLIENTS)
        ]
        told = [client.communicate()[0] for client in clients]
        cpu, sent = cpu_of(etcd.pids), sent_by(etcd.ports)
    if any(client.returncode != 0 for client in clients):
        raise SystemExit(f"a client of etcd failed: {' '.join(command)}")
    seen = [json.loads(text) for text in told]
    latencies = [latency for client in seen for latency in client["latencies_ms"]]
    cuts = quantiles(latencies, n=100)
    puts = len(latencies)
    return Puts(
        rate=sum(len(client["latencies_ms"]) / client["seconds"] for client in seen),
        p50_ms=cuts[49],
        p99_ms=cuts[98],
        cpu_s=tuple((b - a) / puts * 1000 for a, b in zip(cpu_before, cpu, strict=True)),
        sent=tuple((b - a) / puts for a, b in zip(sent_before, sent, strict=True)),
    )


def difference(sent: float, values: float) -> str | None:
    """A sentence about bytes that are not those of the values; none where they nearly are."""
    off = sent / values - 1
    if abs(off) <= EXPLAINED:
        return None
    cause = (
        "heads of entries, of HTTP/2 and of gRPC, and answers to clients"
        if off > 0
        else "a member lagged, and was sent less than all"
    )
    return f"etcd: {sent:.0f} bytes a put, {off:+.0%} beside {values:.0f} of values alone: {cause}"


def leader_port(ports: list[int]) -> int:
    """The port of the member that leads: a put at another one goes over it."""
    grpc = module("grpc", "grpcio")
    for port in ports:
        with closing(grpc.insecure_channel(f"127.0.0.1:{port}")) as channel:
            # StatusResponse{header = 1, leader = 4}, ResponseHeader{member_id = 2}.
            status = channel.unary_unary("/etcdserverpb.Maintenance/Status")(b"", timeout=PUT_S)
            if _field(bytes(_field(status, 1)), 2) == _field(status, 4):
                return port
    raise SystemExit("no member of etcd leads")


def cpu_of(pids: list[int]) -> list[float]:
    """CPU seconds of each process so far."""
    ticks = os.sysconf("SC_CLK_TCK")
    stats = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in pids]
    return [(int(fields[11]) + int(fields[12])) / ticks for fields in stats]


def sent_by(ports: list[int]) -> list[float]:
    """Bytes that each member has sent to members and clients so far."""
    # The environment may name a proxy.
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    found = []
    for port in ports:
        with direct.open(f"http://127.0.0.1:{port}/metrics", timeout=PUT_S) as answer:
            lines = answer.read().decode().splitlines()
        found.append(sum(float(line.split()[-1]) for line in lines if line.startswith(SENT)))
    return found


def put_for(port: int, size: int, seconds: float, most: int) -> dict[str, object]:
    """Put the same key again and again, with `WINDOW` puts under way."""
    grpc = module("grpc", "grpcio")
    # PutRequest{key = 1, value = 2}.
    request = _bytes(1, b"register") + _bytes(2, bytes([7]) * size)
    begun = itertools.count()
    with closing(grpc.insecure_channel(f"127.0.0.1:{port}")) as channel:
        put = channel.unary_unary("/etcdserverpb.KV/Put")
        put(request, timeout=PUT_S)
        start = time.perf_counter()

        def client(_: int) -> list[float]:
            latencies = []
            while time.perf_counter() < start + seconds and next(begun) < most:
                before = time.perf_counter()
                put(request, timeout=PUT_S)
                latencies.append((time.perf_counter() - before) * 1e3)
            return latencies

        with ThreadPoolExecutor(WINDOW) as pool:
            each = list(pool.map(client, range(WINDOW)))
    took = time.perf_counter() - start
    return {"seconds": took, "latencies_ms": [latency for one in each for latency in one]}


if __name__ == "__main__":
    port, size, seconds, most = sys.argv[1:]
    print(json.dumps(put_for(int(port), int(size), float(seconds), int(most))))
