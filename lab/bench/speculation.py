"""What execution ahead of decisions saves: replies beside the times of ordering and of executing.

A Python object whose calls keep a processor busy for 0, 2 and 10 ms, three nodes with links of
10 ms and without a delay, logs on disk and in memory, `limits.speculation` 0 and 16; one client
that calls the leader from the leader's own namespace. Prints a row for each: the reply that the
client saw, the terms of the sum that speculation is to turn into a maximum, what it saves, and
when the first word of a call comes that is wanted early.
Needs root, for the links.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import statistics
import subprocess
import sys
import timeit
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path += [str(ROOT / "lab" / "runner"), str(ROOT / "lab" / "nemesis")]

from group import Group, GroupPlan, ObjectPlan  # noqa: E402
from links import Links, enter  # noqa: E402
from member import Member  # noqa: E402
from network import Loopback, Network  # noqa: E402
from session import default_quorate  # noqa: E402

SLOTS = (0, 16)
WORK_MS = (0.0, 2.0, 10.0)
PERSISTS = ("memory", "disk")
NUMBERS = 200_000
TRIALS = 20
READY_S = 90.0
ANSWER_S = 10.0

Row = dict[str, Any]


def numbers_a_ms() -> float:
    """How many numbers this machine adds up in a millisecond when nothing disturbs it."""
    return NUMBERS / (
        min(timeit.repeat(lambda: sum(range(NUMBERS)), number=1, repeat=TRIALS)) * 1e3
    )


@contextmanager
def group(given: argparse.Namespace, delay_ms: float, persist: str, slots: int) -> Iterator[Group]:
    """Run three nodes, with or without a delay between them."""
    directory: Path = given.out.resolve() / "nodes"
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    plan = GroupPlan(
        directory=directory,
        quorate=given.quorate,
        served=ObjectPlan("Busy", "busy:Busy", path=(ROOT / "lab" / "experiments" / "objects",)),
        persist=persist,
        ready_s=READY_S,
        limits=(f"speculation = {slots}",) if slots else (),
    )
    network: Network = Links(plan.nodes, delay_ms) if delay_ms else Loopback(plan.nodes)
    with closing(network), Group(plan, network) as running:
        yield running
    shutil.rmtree(directory)


def measured(running: Group, numbers: int, seconds: float, method: str = "work") -> Row:
    """What calls take that add up so many numbers."""
    leader = running.leader()
    before = sums(leader)
    endpoint = f"quorate://{running.network.listen(leader.number)}/Busy"
    client = [
        sys.executable,
        str(HERE / "staying.py"),
        endpoint,
        str(seconds),
        method,
        str(numbers),
    ]
    command = [*running.network.prefix(leader.number), *client]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}: {done.stderr.strip()}")
    latencies = json.loads(done.stdout)
    after = sums(leader)
    row: Row = {"calls": len(latencies), "reply_ms": statistics.median(latencies)}
    for name in ("commit", "execute", "reply"):
        count = after[f"{name}_seconds_count"] - before[f"{name}_seconds_count"]
        total = after[f"{name}_seconds_sum"] - before[f"{name}_seconds_sum"]
        row[f"{name}_count"] = int(count)
        row[f"{name}_mean_ms"] = total / count * 1e3 if count else None
    return row


def page(leader: Member, name: str) -> str:
    """A page of the admin port."""
    with urllib.request.urlopen(f"http://{leader.admin}/{name}", timeout=ANSWER_S) as answer:
        return str(answer.read().decode())


def sums(leader: Member) -> dict[str, float]:
    """Sums and counts of the histograms."""
    found = re.findall(
        r"^quorate_(\w+_seconds_(?:sum|count))\S* (\S+)$", page(leader, "metrics"), re.MULTILINE
    )
    return {name: float(value) for name, value in found}


def rows(given: argparse.Namespace, seconds: float) -> Iterator[Row]:
    """Measure everything once."""
    a_ms = numbers_a_ms()
    for delay_ms in (given.delay_ms, 0.0):
        for persist in PERSISTS:
            for slots in SLOTS:
                with group(given, delay_ms, persist, slots) as running:
                    for work in WORK_MS:
                        keys = {
                            "delay_ms": delay_ms,
                            "persist": persist,
                            "slots": slots,
                            "work_ms": work,
                        }
                        numbers = round(work * a_ms)
                        found = measured(running, numbers, seconds)
                        if slots:
                            early = measured(running, numbers, seconds, "early:work")
                            found["early_ms"] = early["reply_ms"]
                        status = json.loads(page(running.leader(), "status"))
                        ahead = {key: status.get(key) for key in ("executed_ahead", "undone")}
                        yield {**keys, **found, **ahead}


def print_table(found: list[Row]) -> None:
    """A row for each network, log and work: without and with speculation.

    `order` is the reply of a call without work and without speculation, less what it executes.
    `execute` is from the leader's `/metrics`, without speculation.
    """
    print(f"{'links':>6} {'log':>7} {'work ms':>8} {'order':>7} {'execute':>8} {'sum':>7}", end="")
    print(f" {'longer':>7} {'reply 0':>8} {'reply 16':>9} {'early 16':>9} {'gain':>7}")

    def middle(name: str, **wanted: object) -> float:
        fit = [row for row in found if all(row[key] == value for key, value in wanted.items())]
        return statistics.median(float(row[name]) for row in fit if row[name] is not None)

    for delay_ms in sorted({row["delay_ms"] for row in found}, reverse=True):
        for persist in PERSISTS:
            where = {"delay_ms": delay_ms, "persist": persist}
            order = middle("reply_ms", **where, slots=0, work_ms=0.0) - middle(
                "execute_mean_ms", **where, slots=0, work_ms=0.0
            )
            for work in WORK_MS:
                execute = middle("execute_mean_ms", **where, slots=0, work_ms=work)
                plain, ahead = (
                    middle("reply_ms", **where, slots=slots, work_ms=work) for slots in SLOTS
                )
                early = middle("early_ms", **where, slots=SLOTS[-1], work_ms=work)
                print(
                    f"{delay_ms:6g} {persist:>7} {work:8g} {order:7.2f} {execute:8.2f}"
                    f" {order + execute:7.2f} {max(order, execute):7.2f} {plain:8.2f} {ahead:9.2f}"
                    f" {early:9.2f} {order + execute - ahead:7.2f}"
                )


def print_counts(found: list[Row]) -> None:
    """What the leader told of its own."""
    for slots in SLOTS:
        fit = [row for row in found if row["slots"] == slots]
        calls = sum(row["calls"] for row in fit)
        counts = {
            name: sum(row[f"{name}_count"] for row in fit)
            for name in ("commit", "execute", "reply")
        }
        print(f"speculation {slots}: {calls} calls, of which /metrics timed {counts}")
        # Counted since the start of a group, which was asked for the last time after its last work.
        last = [row for row in fit if row["work_ms"] == WORK_MS[-1]]
        ahead, undone = (sum(row[key] for row in last) for key in ("executed_ahead", "undone"))
        print(f"  slots executed ahead {ahead}, undone {undone}")


def main() -> int:
    """Measure, and print."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--quorate", default=default_quorate(), help="the program under test")
    options.add_argument("--delay-ms", type=float, default=10.0, help="one way")
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--seconds", type=float, default=5.0, help="for each row")
    options.add_argument("--quick", action="store_true", help="one round of two seconds")
    options.add_argument("--out", type=Path, default=ROOT / "out" / "bench" / "speculation")
    given = options.parse_args()
    enter()
    rounds, seconds = (1, 2.0) if given.quick else (given.rounds, given.seconds)
    found: list[Row] = []
    for _ in range(rounds):
        found += rows(given, seconds)
        print(".", end="", file=sys.stderr, flush=True)
    print()
    print_table(found)
    print_counts(found)
    lines = [json.dumps(row) for row in found]
    (given.out / "measurements.jsonl").write_text("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
