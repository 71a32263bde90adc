"""Locks of Quorate beside those of etcd, ZooKeeper and PySyncObj, three nodes of each.

One client alone, clients that want one lock, and as many clients as locks, two of which want each.
Clients are threads of one Python process, and share the machine with the nodes. Systems that are
not installed are named and left out. Prints a line for each system.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from contextlib import ExitStack

import quorate
import rivals
from locks import together_s
from quorate.objects import Lock

PATIENCE_S = 60.0
WARM = 200


class Quorate(rivals.Service):
    """Quorate, on disks as the others."""

    title = "Quorate"
    how = "quorate.objects.Lock, on disks"

    def start(self) -> None:
        """Start the nodes."""
        self.nodes = quorate.local(Lock, persist="disk", timeout=PATIENCE_S)
        self.block.enter_context(self.nodes)

    def client(self) -> Callable[[str], rivals.Lock]:
        """Open a session."""
        group = self.block.enter_context(quorate.group(self.nodes.endpoint, timeout=PATIENCE_S))
        return lambda name: group.get_or_create(Lock, name)


def pair(lock: rivals.Lock) -> None:
    """Take the lock and give it back."""
    lock.acquire()
    lock.release()


def alone_us(lock: rivals.Lock, rounds: int) -> float:
    """Time one pair of a client that is alone, in the median."""
    took = []
    for turn in range(WARM + rounds):
        began = time.perf_counter()
        pair(lock)
        if turn >= WARM:
            took.append(time.perf_counter() - began)
    return statistics.median(took) * 1e6


def pairs_a_second(work: list[list[rivals.Lock]], rounds: int) -> float:
    """Let each client take its locks in turn."""

    def use(locks: list[rivals.Lock]) -> None:
        for turn in range(rounds):
            pair(locks[turn % len(locks)])

    return len(work) * rounds / together_s(use, work)


def measure(service: rivals.Service, clients: int, rounds: int) -> None:
    """Print the figures of one system."""
    with ExitStack() as stack:
        try:
            stack.enter_context(service)
        except rivals.Absent as error:
            print(f"{service.title}: left out, not installed: {error}", flush=True)
            return
        alone = alone_us(service.client()("alone"), rounds)
        by_name = [service.client() for _ in range(clients)]
        told = [f"{alone:.0f} us a pair alone"]
        each = max(rounds // 4, 1)
        if service.is_contended:
            contended = [[lock("one")] for lock in by_name]
            told.append(f"{pairs_a_second(contended, each):.0f} hand-overs/s of one lock")
            spread = [
                [lock(f"many-{at % clients}") for at in (number, number + 1)]
                for number, lock in enumerate(by_name)
            ]
        else:
            spread = [[lock(f"many-{number}")] for number, lock in enumerate(by_name)]
        told.append(f"{pairs_a_second(spread, each):.0f} pairs/s on {clients} locks")
        print(f"{service.title} ({service.how}): {', '.join(told)}", flush=True)


def main() -> None:
    """Measure, and print."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=1000)
    options.add_argument("--clients", type=int, default=16)
    given = options.parse_args()
    for service in (Quorate, rivals.Etcd, rivals.ZooKeeper, rivals.PySyncObj):
        measure(service(), given.clients, given.rounds)


if __name__ == "__main__":
    main()
