"""`make nemesis`: real processes on an isolated loopback, under faults, under load, judged from outside.

The short form meets every kind of fault once; `--minutes M` goes on for M minutes in changing orders.
Histories, logs and configurations are kept below out/nemesis. Ends with `N passed, N failed`, and 1 when a
check failed.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import shutil
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import isolation
from campaign import Campaign
from catalogue import CATALOGUE, chosen, described, missing, title_of, usual, wants_own_disks
from checker import ROOT, checker
from disks import FlushShim, SmallDisk
from fault import Need, Scene
from group import Group, GroupPlan
from network import Network
from outages import Outage
from session import default_quorate, network_of
from verdict import Verdict, clear_progress
from waiting import NeverHappened
from workload import Texts, Workload, named

SNAPSHOT_AFTER = (1000, 32 << 10)
"""Commands and bytes: a snapshot every second or two of this load, so that faults meet them."""


@dataclass(frozen=True)
class Options:
    """What the command line says."""

    faults: list[str]
    minutes: float | None
    seed: int
    nodes: int
    clients: int
    served: str
    persist: str
    ordering: str
    quorate: str
    keep: Path


def main() -> int:
    """Run all, print the checks, return the exit code."""
    options = read_options()
    os.environ["QUORATE_HISTORY"] = checker()
    isolation.enter()
    verdict = Verdict()
    directory = fresh(options.keep / time.strftime("%Y%m%d-%H%M%S"))
    print(
        f"seed {options.seed}, {options.nodes} nodes, {options.served}, histories in {directory}", flush=True
    )
    workload = named(options.served, ROOT / "examples")
    outages: dict[str, list[Outage]] = {}
    with network_of(options.nodes) as network:
        provided = provided_needs(network, workload, options)
        permitted = [name for name in options.faults if not report_skipped(name, provided)]
        titles = [title_of(name, options.persist) for name in permitted]
        for title in dict.fromkeys(titles):
            names = [name for name, of in zip(permitted, titles, strict=True) if of == title]
            share = len(names) / len(permitted)
            run_campaign(title, names, share, options, network, workload, directory, verdict, outages)
    print_outages(outages)
    print(verdict.last_line())
    return 1 if verdict.failed or not verdict.passed else 0


def run_campaign(
    title: str,
    names: list[str],
    share: float,
    options: Options,
    network: Network,
    workload: Workload,
    parent: Path,
    verdict: Verdict,
    outages: dict[str, list[Outage]],
) -> None:
    """One group, its faults and its checks; a group that cannot even start is a failed check."""
    directory = fresh(parent / title)
    until_ns = None
    if options.minutes is not None:
        until_ns = time.monotonic_ns() + int(options.minutes * share * 60e9)
    with contextlib.ExitStack() as stack:
        shim, disks = None, {}
        if wants_own_disks(names[0]):
            shim = FlushShim(directory) if shutil.which("cc") else None
            disks = small_disks(stack, directory, options.nodes)
        plan = GroupPlan(
            directory=directory,
            quorate=options.quorate,
            served=workload.served,
            nodes=options.nodes,
            persist="memory" if title == "memory" else options.persist,
            ordering=options.ordering,
            environment=shim.environment() if shim else {},
            snapshot_after=SNAPSHOT_AFTER,
        )
        try:
            group = stack.enter_context(Group(plan, network))
            scene = Scene(group, random.Random(options.seed), shim, disks)
            checks = os.environ["QUORATE_HISTORY"]
            campaign = Campaign(
                title, scene, workload, directory, checks, verdict, options.clients, options.seed
            )
            for name, seen in campaign.run(names, until_ns).items():
                outages.setdefault(name, []).extend(seen)
        except (NeverHappened, OSError) as error:
            verdict.check(f"{title} group", [str(error)])


def small_disks(stack: contextlib.ExitStack, directory: Path, nodes: int) -> dict[int, SmallDisk]:
    """A small file system per node, unmounted when the stack ends; none without namespaces."""
    if not isolation.is_isolated():
        return {}
    disks = {node: SmallDisk(directory / f"disk{node}") for node in range(1, nodes + 1)}
    for disk in disks.values():
        stack.callback(disk.close)
    return disks


def provided_needs(network: Network, workload: Workload, options: Options) -> set[Need]:
    """What the machine and the options give to faults."""
    given = {
        Need.NAMESPACES: network.can_cut,
        Need.SMALL_DISK: isolation.is_isolated(),
        Need.SHIM: shutil.which("cc") is not None,
        Need.HOST: workload.served.is_python,
        Need.TEXTS: isinstance(workload, Texts),
        Need.DISK: options.persist == "disk",
        Need.MEMORY: True,
    }
    return {need for need, is_given in given.items() if is_given}


def report_skipped(name: str, provided: set[Need]) -> bool:
    """Whether a fault cannot happen here; says so."""
    lacking = missing(name, provided)
    if lacking:
        print(f"skip  {name}: needs {' and '.join(need.value for need in lacking)}", flush=True)
    return bool(lacking)


def print_outages(outages: dict[str, list[Outage]]) -> None:
    """What clients saw, by kind of fault."""
    clear_progress()
    if not outages:
        return
    print(
        f"\n{'fault':24} {'times':>5} {'median ms':>10} {'longest ms':>11}   (answers of one client in a row)"
    )
    for name, seen in sorted(outages.items()):
        medians = sorted(each.median_ms for each in seen)
        longest = max(each.longest_ms for each in seen)
        print(f"{name:24} {len(seen):5} {medians[len(medians) // 2]:10.0f} {longest:11.0f}")
    print()


def fresh(directory: Path) -> Path:
    """An empty directory."""
    directory.mkdir(parents=True, exist_ok=True)
    return directory


def read_options() -> Options:
    """The command line; wrong use ends with 2."""
    parser = argparse.ArgumentParser(prog="nemesis", description="real processes under faults and load")
    parser.add_argument(
        "--faults", default="", help="names or their beginnings, with commas; all when absent"
    )
    parser.add_argument("--minutes", type=float, help="go on for so long instead of meeting each fault once")
    parser.add_argument("--seconds", type=float, help="the same in seconds")
    parser.add_argument("--seed", type=int, default=None, help="seed of calls and victims; drawn when absent")
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--clients", type=int, default=6)
    parser.add_argument(
        "--object", default="shelf", help="shelf, rust:kv, rust:counter, rust:register, bank:Account"
    )
    parser.add_argument("--persist", choices=("disk", "memory"), default="disk")
    parser.add_argument(
        "--ordering",
        choices=("paxos", "libpaxos", "libpaxos+", "fast_paxos"),
        default="paxos",
        help="how the group orders commands; fast_paxos takes --nodes 4 or more",
    )
    parser.add_argument("--quorate", default=default_quorate(), help="the program under test")
    parser.add_argument(
        "--keep", type=Path, default=ROOT / "out" / "nemesis", help="where histories and logs stay"
    )
    parser.add_argument("--long", action="store_true", help="also the faults that take minutes")
    parser.add_argument("--list", action="store_true", help="name all faults and what they are, and end")
    given = parser.parse_args()
    if given.list:
        for name in CATALOGUE:
            print(f"{name:24} {described(name)}{' (--long)' if name not in usual() else ''}")
        parser.exit()
    names = [name for name in given.faults.split(",") if name]
    try:
        faults = chosen(names) if names else list(CATALOGUE) if given.long else usual()
        named(given.object, ROOT)
    except ValueError as error:
        parser.error(str(error))
    seconds = given.seconds if given.seconds is not None else (given.minutes or 0) * 60
    seed = (
        given.seed
        if given.seed is not None
        else int(os.environ.get("NEMESIS_SEED", time.time_ns() % 1_000_000))
    )
    os.environ["NEMESIS_SEED"] = str(seed)
    return Options(
        faults=faults,
        minutes=seconds / 60 if seconds > 0 else None,
        seed=seed,
        nodes=given.nodes,
        clients=given.clients,
        served=given.object,
        persist=given.persist,
        ordering=given.ordering,
        quorate=given.quorate,
        keep=given.keep,
    )


if __name__ == "__main__":
    sys.exit(main())
