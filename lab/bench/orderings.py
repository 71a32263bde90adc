"""What each ordering costs: throughput, latency, CPU and bytes, beside what its messages predict.

Three and five nodes in memory and their clients share this machine. For each size of command and
each ordering one line: calls a second, latencies, CPU-seconds of all processes for 1000 calls, and
the bytes that the busiest node sent for a call. The prediction counts the bytes of the messages of
one command alone, as `quorate bench --trace-one` draws them; the difference says what batches save
and signs of life cost. The Performance of Paxos in the Cloud, section IV: commands of 200 bytes,
4 KiB and 100 KiB.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from rivals import free_ports

SIZES = (200, 4_096, 102_400)
NODES = (3, 5)

ORDERINGS = ["paxos", "libpaxos", "libpaxos+", "fast_paxos", "s_paxos"]

FAST_NODES = 4
"""Fewer go on in no fast round without one of them: fast_paxos is refused."""
CLIENTS = 4
WINDOW = 16
LARGE = 64 << 10
"""From this size on each client has fewer commands under way: the papers' clients wait as well."""

EXPLAINED = 0.2
"""A larger difference between what is predicted and measured is worth a word."""

TIMEOUT_S = 120.0
LISTENING_S = 1.0


@dataclass(frozen=True)
class Row:
    """What a run showed."""

    calls: float
    p50_ms: float
    p99_ms: float
    cpu_s: float
    sent: float


def asked(quorate: str, *words: str) -> dict[str, Any]:
    """Run `quorate bench` and read what it printed."""
    command = [quorate, "bench", "-o", "json", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}: {done.stderr.strip()}")
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def predicted(quorate: str, ordering: str, nodes: int, size: int) -> int:
    """Count the bytes that the busiest node sends for one command alone."""
    with tempfile.TemporaryDirectory() as folder:
        picture = str(Path(folder) / "one.svg")
        words = ["--trace-one", picture, "--local", str(nodes), "--size", str(size)]
        trace = asked(quorate, *words, "--ordering", ordering)
    nodes_sent = [sender for sender in trace["sent"] if sender["party"] != "client"]
    return max(int(sender["bytes"]) for sender in nodes_sent)


def measured(quorate: str, ordering: str, nodes: int, size: int, seconds: float) -> Row:
    """Load a group for so long."""
    window = WINDOW if size < LARGE else 2
    words = ["--local", str(nodes), "--size", str(size), "--object", "rust:register"]
    words += ["--persist", "memory", "--clients", str(CLIENTS), "--window", str(window)]
    words += ["--seconds", str(seconds), "--warmup", "1", "--ordering", ordering]
    report = asked(quorate, *words)
    latency, cost = report["latency_us"], report["cpu_s_per_1000_ops"]
    return Row(
        report["ops_per_s"],
        latency["p50"] / 1000,
        latency["p99"] / 1000,
        cost["total"],
        max(report["sent_bytes_per_op"], default=0.0),
    )


def middle(rows: list[Row]) -> Row:
    """Take the median of each figure."""
    fields = ("calls", "p50_ms", "p99_ms", "cpu_s", "sent")
    return Row(*(median(getattr(row, field) for row in rows) for field in fields))


def line(name: str, row: Row, told: str) -> str:
    """Print a run."""
    return (
        f"{name:12} {row.calls:9.0f} {row.p50_ms:8.2f} {row.p99_ms:8.2f} {row.cpu_s:10.4f} "
        f"{row.sent:10.0f} {told}"
    )


def against(sent: float, promise: int) -> str:
    """What is to be said of a prediction."""
    off = sent / promise - 1
    word = f"{promise:10d} {off:+6.0%}"
    if abs(off) <= EXPLAINED:
        return word
    saved = "batches share the heads of messages; who is spared fetches from others"
    added = "signs of life, and values sent again"
    return f"{word}  {saved if off < 0 else added}"


def libpaxos(home: Path, nodes: int, size: int, seconds: float) -> float | None:
    """Values a second of LibPaxos3: its acceptors, one proposer and its own client, in memory."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        ports = free_ports(nodes + 1)
        roles = [f"acceptor {at} 127.0.0.1 {port}" for at, port in enumerate(ports[:nodes])]
        roles += [f"proposer 0 127.0.0.1 {ports[-1]}", "verbosity error", ""]
        config = folder / "paxos.conf"
        config.write_text("\n".join(roles))
        servers = [["acceptor", str(at)] for at in range(nodes)] + [["proposer", "0"]]
        for name, number in servers:
            log = stack.enter_context((folder / f"{name}-{number}").open("wb"))
            server = subprocess.Popen([home / name, number, config], stdout=log, stderr=log)
            stack.callback(server.wait)
            stack.callback(server.kill)
        time.sleep(LISTENING_S)
        outstanding = CLIENTS * (WINDOW if size < LARGE else 2)
        client = [home / "client", config, "-o", str(outstanding), "-v", str(size)]
        words = ["timeout", str(seconds + 1), "stdbuf", "-oL", *map(str, client)]
        told = subprocess.run(words, capture_output=True, text=True, check=False).stdout
    rates = [int(rate) for rate in re.findall(r"(\d+) value/sec", told)]
    return median(rates[1:] or rates) if rates else None


def main() -> int:
    """Measure all, and print."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--quorate", default="target/release/quorate")
    options.add_argument("--orderings", nargs="+", default=ORDERINGS)
    options.add_argument("--seconds", type=float, default=4.0)
    options.add_argument("--runs", type=int, default=3)
    options.add_argument("--libpaxos", type=Path, help="a folder with LibPaxos3's sample programs")
    given = options.parse_args()
    for nodes in NODES:
        for size in SIZES:
            print(f"\n{nodes} nodes, {size} bytes")
            print(f"{'':12} {'calls/s':>9} {'p50 ms':>8} {'p99 ms':>8} {'CPU-s/1000':>10}", end="")
            print(f" {'sent/call':>10} {'predicted':>10}")
            possible = [
                name for name in given.orderings if name != "fast_paxos" or nodes >= FAST_NODES
            ]
            runs: dict[str, list[Row]] = {ordering: [] for ordering in possible}
            for _ in range(given.runs):
                for ordering, rows in runs.items():
                    rows.append(measured(given.quorate, ordering, nodes, size, given.seconds))
            for ordering, rows in runs.items():
                row = middle(rows)
                promise = predicted(given.quorate, ordering, nodes, size)
                print(line(ordering, row, against(row.sent, promise)), flush=True)
            if given.libpaxos:
                rate = libpaxos(given.libpaxos, nodes, size, given.seconds)
                print(f"{'LibPaxos3':12} {rate or 0:9.0f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
