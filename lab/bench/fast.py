"""Fast Paxos beside Multi-Paxos where a message takes 10 ms: what it saves, and when it costs.

First one client alone, with four and five nodes: apart from all nodes, or beside the node it calls.
Then one to sixteen clients that call all followers of five nodes at random times, so that fast
rounds collide the more often the more clients there are. Needs root, for the links. Leaves
measurements.jsonl and fast-crossover.svg in the directory that --out names.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path += [str(ROOT / "lab" / "runner"), str(ROOT / "lab" / "nemesis")]

from drawing import BLUE, GREEN, RED, Drawing  # noqa: E402
from group import Group, GroupPlan, ObjectPlan  # noqa: E402
from links import CLIENTS, Links, enter  # noqa: E402
from session import default_quorate  # noqa: E402
from staying import at_random, latencies_ms, staying  # noqa: E402

ORDERINGS = ("paxos", "libpaxos", "fast_paxos")
COLOURS = dict(zip(ORDERINGS, (BLUE, GREEN, RED), strict=True))
LONE_NODES = (4, 5)
CROWD_NODES = 5
CLIENT_COUNTS, CLIENT_COUNTS_QUICK = (1, 2, 4, 8, 12, 16), (1, 8)

REST_S = 0.1
"""Mean of the time between an answer and the client's next call, which is drawn each time."""

LONE_S = 1.5
SEED = 7
READY_S = 60.0

Row = dict[str, Any]


class Lab:
    """Where groups run, one after the other."""

    def __init__(self, quorate_program: str, directory: Path, delay_ms: float) -> None:
        self.program = quorate_program
        self.directory = directory
        self.delay_ms = delay_ms
        self.links: Links

    @contextmanager
    def group(self, nodes: int, ordering: str) -> Iterator[Group]:
        """Run a group in memory, so that only messages take time."""
        directory = self.directory / "nodes"
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        plan = GroupPlan(
            directory=directory,
            quorate=self.program,
            served=ObjectPlan("Counter", "rust:counter"),
            nodes=nodes,
            persist="memory",
            ordering=ordering,
            ready_s=READY_S,
        )
        with closing(Links(nodes, self.delay_ms)) as self.links, Group(plan, self.links) as group:
            yield group
        shutil.rmtree(directory)


def lone(lab: Lab, nodes: int, ordering: str, seconds: float) -> Iterator[Row]:
    """One client that calls again as soon as it has its answer."""
    with lab.group(nodes, ordering) as group:
        leader, follower = group.leader(), group.followers()[0]
        for called, member in (("leader", leader), ("follower", follower)):
            for where, place in (("apart", CLIENTS), ("beside", member.number)):
                endpoint = f"quorate://{lab.links.listen(member.number)}/Counter"
                client = [
                    sys.executable,
                    str(HERE / "staying.py"),
                    endpoint,
                    str(seconds),
                    "add",
                    "1",
                ]
                command = [*lab.links.prefix(place), *client]
                done = subprocess.run(command, capture_output=True, text=True, check=False)
                if done.returncode != 0:
                    raise SystemExit(f"{' '.join(command)}: {done.stderr.strip()}")
                cuts = statistics.quantiles(json.loads(done.stdout), n=100)
                yield {
                    "kind": "lone",
                    "nodes": nodes,
                    "ordering": ordering,
                    "called": called,
                    "client": where,
                    "p50_ms": cuts[49],
                    "p99_ms": cuts[98],
                }


def crowd(lab: Lab, ordering: str, count: int, seconds: float) -> Row:
    """So many clients at once, each at one of the followers of a fresh group."""
    with lab.group(CROWD_NODES, ordering) as group:
        followers = [member.number for member in group.followers()]
        at = [followers[number % len(followers)] for number in range(count)]
        endpoints = [f"quorate://{lab.links.listen(node)}/Counter" for node in at]
        before = newest_round(group)
        latencies = all_at_once(endpoints, seconds)
        return {
            "kind": "crowd",
            "ordering": ordering,
            "clients": count,
            "seconds": seconds,
            "latencies_ms": latencies,
            "changes": newest_round(group) - before,
        }


def newest_round(group: Group) -> int:
    """The round of the newest ballot: a change between fast and classic rounds begins a ballot."""
    return max(int(status.ballot.lstrip("b").split(".")[0]) for status in group.statuses().values())


def all_at_once(endpoints: list[str], seconds: float) -> list[float]:
    """What the calls of clients took that rest for a random time before each."""
    with ExitStack() as block, ThreadPoolExecutor(len(endpoints)) as pool:
        # One after the other: what opens sessions must not collide.
        counters = [block.enter_context(staying(endpoint)) for endpoint in endpoints]
        for counter in counters:
            counter.add(1)

        def client(number: int) -> list[float]:
            pause = at_random(REST_S, f"{SEED} {number}")
            return latencies_ms(lambda: counters[number].add(1), seconds, pause)

        each = list(pool.map(client, range(len(endpoints))))
    return [latency for latencies in each for latency in latencies]


def middle_of(rows: list[Row], **wanted: object) -> tuple[float, float]:
    """The medians over the rounds of p50 and p99 of the rows that are so."""
    fit = [row for row in rows if all(row[key] == value for key, value in wanted.items())]
    return (
        statistics.median(row["p50_ms"] for row in fit),
        statistics.median(row["p99_ms"] for row in fit),
    )


def print_lone(rows: list[Row]) -> None:
    """A row for each place of the client, a column for each ordering."""
    print(f"\none client, p50 ms {'':24}" + "".join(f"{name:>12}" for name in ORDERINGS))
    for nodes in LONE_NODES:
        for called in ("leader", "follower"):
            for client in ("apart", "beside"):
                keys = {"nodes": nodes, "called": called, "client": client}
                found = [middle_of(rows, **keys, ordering=name)[0] for name in ORDERINGS]
                where = "apart" if client == "apart" else "beside it"
                told = f"{nodes} nodes, calls the {called}, {where}"
                print(f"{told:43}" + "".join(f"{p50:12.1f}" for p50 in found))


def points(rows: list[Row], delay_ms: float) -> list[Row]:
    """The crowd's figures: a row for each ordering and number of clients, of all rounds."""
    found = []
    for ordering in ORDERINGS:
        for count in sorted({row["clients"] for row in rows}):
            fit = [row for row in rows if (row["ordering"], row["clients"]) == (ordering, count)]
            calls = [latency for row in fit for latency in row["latencies_ms"]]
            # The medians of the rounds: a busy minute of the machine must not decide the tail.
            rounds = [statistics.quantiles(row["latencies_ms"], n=100) for row in fit]
            p50, p99 = (statistics.median(cuts[at] for cuts in rounds) for at in (49, 98))
            found.append(
                {
                    "kind": "point",
                    "ordering": ordering,
                    "clients": count,
                    "calls": len(calls),
                    "calls_per_s": len(calls) / sum(row["seconds"] for row in fit),
                    "p50_ms": p50,
                    "mean_ms": statistics.fmean(calls),
                    "p99_ms": p99,
                    **shares(calls, delay_ms),
                    "changes": sum(row["changes"] for row in fit),
                }
            )
    return found


def shares(calls: list[float], delay_ms: float) -> Row:
    """How many calls took four message delays, five, and more.

    Two delays belong to the client. Then a fast round takes two through a follower, and a classic
    one three where votes are told to all; a collision adds two to a fast round.
    """
    fast, classic = 4.5 * delay_ms, 5.5 * delay_ms
    return {
        "four_delays": sum(call < fast for call in calls) / len(calls),
        "five_delays": sum(fast <= call < classic for call in calls) / len(calls),
        "more_delays": sum(call >= classic for call in calls) / len(calls),
    }


def print_crowd(found: list[Row]) -> None:
    """A row for each ordering and number of clients."""
    print(f"\n{CROWD_NODES} nodes, clients apart at the followers: calls by what they took")
    print(
        f"{'ordering':12} {'clients':>7} {'calls/s':>8} {'p50 ms':>7} {'mean':>7} {'p99':>7}",
        end="",
    )
    print(f" {'4 delays':>9} {'5 delays':>9} {'more':>7} {'changes':>8}")
    for row in found:
        print(
            f"{row['ordering']:12} {row['clients']:7d} {row['calls_per_s']:8.1f}"
            f" {row['p50_ms']:7.1f} {row['mean_ms']:7.1f} {row['p99_ms']:7.1f}"
            f" {row['four_delays']:9.0%} {row['five_delays']:9.0%} {row['more_delays']:7.0%}"
            f" {row['changes']:8d}"
        )


def draw(found: list[Row], delay_ms: float, directory: Path) -> None:
    """Latency by the number of clients."""
    title = f"Latency by the number of clients, {delay_ms:g} ms a message: p50, and p99 (dotted)"
    with Drawing(directory).picture("fast-crossover", title) as plot:
        for ordering in ORDERINGS:
            rows = [row for row in found if row["ordering"] == ordering]
            clients = [row["clients"] for row in rows]
            colour = COLOURS[ordering]
            p50 = [row["p50_ms"] for row in rows]
            plot.axes.plot(clients, p50, color=colour, marker="o", markersize=4, label=ordering)
            p99 = [row["p99_ms"] for row in rows]
            plot.axes.plot(clients, p99, color=colour, linestyle=":", marker=".")
        plot.axes.set_xscale("log", base=2)
        ticks = sorted({row["clients"] for row in found})
        plot.axes.set_xticks(ticks, [str(tick) for tick in ticks])
        plot.axes.minorticks_off()
        plot.axes.set_xlabel(f"clients, each with a call after {REST_S:g} s of rest on average")
        plot.axes.set_ylabel("ms")
        plot.axes.set_ylim(bottom=0)
        plot.axes.legend(fontsize=8)


def main() -> int:
    """Measure, print, draw."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--quorate", default=default_quorate(), help="the program under test")
    options.add_argument("--delay-ms", type=float, default=10.0, help="one way")
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--seconds", type=float, default=5.0, help="for each number of clients")
    options.add_argument(
        "--quick", action="store_true", help="one round of two seconds, fewer clients"
    )
    options.add_argument("--out", type=Path, default=ROOT / "out" / "bench" / "fast")
    given = options.parse_args()
    enter()
    rounds, seconds = (1, 2.0) if given.quick else (given.rounds, given.seconds)
    counts = CLIENT_COUNTS_QUICK if given.quick else CLIENT_COUNTS
    out: Path = given.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    lab = Lab(given.quorate, out, given.delay_ms)
    rows: list[Row] = []
    for _ in range(rounds):
        for ordering in ORDERINGS:
            for nodes in LONE_NODES:
                rows += lone(lab, nodes, ordering, LONE_S)
            rows += [crowd(lab, ordering, count, seconds) for count in counts]
            print(".", end="", file=sys.stderr, flush=True)
    print_lone([row for row in rows if row["kind"] == "lone"])
    found = points([row for row in rows if row["kind"] == "crowd"], given.delay_ms)
    print_crowd(found)
    draw(found, given.delay_ms, out)
    lines = [json.dumps(row) for row in rows + found]
    (out / "measurements.jsonl").write_text("\n".join(lines) + "\n")
    print(f"\nmeasurements and picture in {out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
