"""What each ordering costs: throughput, latency, CPU and bytes, beside what its messages predict.

Three and five nodes in memory and their clients share this machine. For each size of command and
each ordering one line: commands a second, latencies, CPU-seconds of all processes for 1000
commands, and the bytes that the busiest node sent for a command. The prediction counts the messages
of one command alone, as `quorate bench --trace-one` draws them; a difference of more than a fifth
has a sentence. The Performance of Paxos in the Cloud, section IV: commands of 200 bytes, 4 KiB and
100 KiB.

Rows named "at all nodes" have a client at each node that stays there, as S-Paxos is meant for; all
others call the leader, or the node that they found where that one proposes. The row of batches is
OpenReplica's of section IV.A: a client that gathers. Leaves measurements.jsonl in the directory
that --out names.
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
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

import etcd_puts
from ordering_rows import (
    Case,
    Prediction,
    Row,
    Verdict,
    difference,
    even_cpu,
    middle,
    predicted,
    ring_saves,
    row_of,
)
from rivals import Absent, free_ports

ROOT = Path(__file__).resolve().parents[2]
SIZES = (200, 4_096, 102_400)
NODES = (3, 5)

ORDERINGS = ["paxos", "libpaxos", "libpaxos+", "fast_paxos", "s_paxos", "ring_paxos"]
SPREAD = ("paxos", "s_paxos")
"""Measured with clients at all nodes too."""

FAST_NODES = 4
"""Fewer go on in no fast round without one of them: fast_paxos is refused."""
CLIENTS = 4
WINDOW = 16
LARGE = 64 << 10
"""From this size on each client has fewer commands under way: the papers' clients wait as well."""
BATCH = 60
"""Commands of 200 bytes in a batch of 12 kB."""

BATCHES = (
    f"a batch is one call that carries {BATCH} commands of {min(SIZES)} bytes, which the object"
    " takes as one value: its row shows what gathering at the client saves of ordering, not of"
    " executing; its latencies are those of a batch"
)

TIMEOUT_S = 120.0
LISTENING_S = 1.0

HEAD = (
    f"{'':22} {'commands/s':>10} {'p50 ms':>8} {'p99 ms':>8} {'CPU-s/1000':>10} {'sent':>9}"
    f" {'predicted':>9} {'':>6} {'messages':>8} {'copies':>6}"
)
"""The last two are predicted: what the busiest node sends for one command alone."""


def asked(quorate: str, *words: str) -> dict[str, Any]:
    """Run `quorate bench` and read what it printed."""
    command = [quorate, "bench", "-o", "json", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}: {done.stderr.strip()}")
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def traced(quorate: str, case: Case) -> Prediction:
    """Count what the busiest node sends for one command alone."""
    with tempfile.TemporaryDirectory() as folder:
        picture = str(Path(folder) / "one.svg")
        words = ["--trace-one", picture, "--local", str(case.nodes)]
        words += ["--size", str(case.size * case.batch), "--ordering", case.ordering]
        return predicted(asked(quorate, *words), case)


def measured(quorate: str, case: Case, seconds: float) -> Row:
    """Load a group for so long."""
    words = ["--local", str(case.nodes), "--size", str(case.size * case.batch)]
    words += ["--object", "rust:register", "--persist", "memory", "--ordering", case.ordering]
    words += ["--clients", str(case.clients), "--window", str(case.window)]
    words += ["--seconds", str(seconds), "--warmup", "1"]
    words += ["--spread-clients"] if case.is_spread else []
    return row_of(asked(quorate, *words), case.batch)


def cases(orderings: list[str], nodes: int, size: int) -> list[Case]:
    """What is measured with so many nodes and commands of this size."""
    window = WINDOW if size < LARGE else 2
    possible = [name for name in orderings if name != "fast_paxos" or nodes >= FAST_NODES]
    found = [Case(name, name, nodes, size, CLIENTS, window) for name in possible]
    found += [
        Case(f"{name} at all nodes", name, nodes, size, nodes, window, is_spread=True)
        for name in possible
        if name in SPREAD
    ]
    if size == min(SIZES) and "paxos" in possible:
        found.append(
            Case("paxos, 12 kB batches", "paxos", nodes, size, CLIENTS, WINDOW, batch=BATCH)
        )
    return found


def line(name: str, row: Row, promise: Prediction | None) -> str:
    """Print a run."""
    told = (
        f"{name:22} {row.commands:10.0f} {row.p50_ms:8.2f} {row.p99_ms:8.2f} {row.cpu_s:10.4f}"
        f" {row.busiest_sent:9.0f}"
    )
    if promise is None:
        return told
    off = row.busiest_sent / promise.sent - 1
    return f"{told} {promise.sent:9.0f} {off:+6.0%} {promise.messages:8.2f} {promise.copies:6.2f}"


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


def etcd(nodes: int, size: int, seconds: float, runs: int) -> Row:
    """The medians of runs of etcd."""
    rows = []
    for _ in range(runs):
        puts = etcd_puts.measured(nodes, size, seconds)
        figures = (puts.rate, puts.p50_ms, puts.p99_ms, sum(puts.cpu_s))
        rows.append(Row(*figures, puts.cpu_s, puts.sent))
    return middle(rows)


class Session:
    """What was measured so far."""

    def __init__(self, given: argparse.Namespace) -> None:
        self.given = given
        self.measured: list[tuple[Case, Row]] = []
        self.records: list[dict[str, Any]] = []
        self.is_etcd_there = True

    def table(self, nodes: int, size: int) -> None:
        """Measure all orderings with so many nodes and commands of this size, and print them."""
        given = self.given
        print(f"\n{nodes} nodes, {size} bytes\n{HEAD}", flush=True)
        runs: dict[Case, list[Row]] = {case: [] for case in cases(given.orderings, nodes, size)}
        for _ in range(given.runs):
            for case, rows in runs.items():
                rows.append(measured(given.quorate, case, given.seconds))
        sentences = []
        for case, rows in runs.items():
            row, promise = middle(rows), traced(given.quorate, case)
            self.measured.append((case, row))
            print(line(case.name, row, promise), flush=True)
            sentence = difference(case, row, promise)
            sentences += [sentence] if sentence else []
            parts = {"case": asdict(case), "row": asdict(row), "prediction": asdict(promise)}
            self.records.append({"kind": "row", **parts, "difference": sentence})
        sentences += self.others(nodes, size)
        if sentences:
            print(*sentences, sep="\n")
        for case, row in self.measured:
            if case.is_spread and (case.nodes, case.size) == (nodes, size):
                told = " ".join(f"{spent:.4f}" for spent in row.node_cpu_s)
                print(f"{case.name}: CPU-s/1000 of the nodes {told}, busiest to mean", end="")
                print(f" {row.unevenness:.2f}", flush=True)

    def others(self, nodes: int, size: int) -> list[str]:
        """The rows of other systems, and what is to be said of them."""
        given = self.given
        if given.libpaxos:
            rate = libpaxos(given.libpaxos, nodes, size, given.seconds)
            print(f"{'LibPaxos3':22} {rate or 0:10.0f}", flush=True)
        if not self.is_etcd_there:
            return []
        try:
            row = etcd(nodes, size, given.seconds, given.runs)
        except Absent as missing:
            self.is_etcd_there = False
            print(f"etcd is left out: {missing}", flush=True)
            return []
        # Its leader sends the value to each other member.
        copies = float(nodes - 1)
        promise = Prediction(copies * size, copies, copies)
        print(line("etcd", row, promise), flush=True)
        sentence = etcd_puts.difference(row.busiest_sent, promise.sent)
        record = {"kind": "etcd", "nodes": nodes, "size": size, "row": asdict(row)}
        self.records.append({**record, "difference": sentence})
        return [sentence] if sentence else []

    def end(self) -> list[Verdict]:
        """Say what columns and rows are, judge, and keep it."""
        print()
        if any(case.batch > 1 for case, _ in self.measured):
            print(BATCHES)
        if self.is_etcd_there:
            print(etcd_puts.HOW)
        verdicts = even_cpu(self.measured) + ring_saves(self.measured)
        for verdict in verdicts:
            holds = "holds" if verdict.holds else "does not hold"
            print(f"{verdict.claim}: {holds}, {verdict.found}")
            self.records.append({"kind": "verdict", **asdict(verdict)})
        out: Path = self.given.out
        out.mkdir(parents=True, exist_ok=True)
        lines = [json.dumps(record) for record in self.records]
        (out / "measurements.jsonl").write_text("\n".join(lines) + "\n")
        return verdicts


def main() -> int:
    """Measure all, and print."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--quorate", default="target/release/quorate")
    options.add_argument("--orderings", nargs="+", default=ORDERINGS)
    options.add_argument("--nodes", nargs="+", type=int, default=NODES)
    options.add_argument("--sizes", nargs="+", type=int, default=SIZES)
    options.add_argument("--seconds", type=float, default=4.0)
    options.add_argument("--runs", type=int, default=3)
    options.add_argument("--short", action="store_true", help="one run of two seconds, not judged")
    options.add_argument("--libpaxos", type=Path, help="a folder with LibPaxos3's sample programs")
    options.add_argument("--out", type=Path, default=ROOT / "out" / "bench" / "orderings")
    given = options.parse_args()
    if given.short:
        given.runs, given.seconds = 1, 2.0
    session = Session(given)
    for nodes in given.nodes:
        for size in given.sizes:
            session.table(nodes, size)
    failed = [verdict for verdict in session.end() if not verdict.holds]
    return 1 if failed and not given.short else 0


if __name__ == "__main__":
    sys.exit(main())
