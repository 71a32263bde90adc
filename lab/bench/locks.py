"""What waiting costs: acquiring and releasing a lock, hand-overs between clients, waking a caller.

Three nodes and all clients share this machine. Prints a line for each figure. Ends with 1 when two
clients hold the lock at a time.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack

import quorate
from quorate.objects import Lock, Queue

PATIENCE_S = 60.0
WARM = 500
REST_S = 0.002
"""Between two items, so that the taker waits again when the next one comes."""


def median_us(act: Callable[[], object], count: int) -> float:
    """Time a thing that is done so often, in microseconds."""
    took = []
    for _ in range(count):
        began = time.perf_counter()
        act()
        took.append(time.perf_counter() - began)
    return sorted(took)[count // 2] * 1e6


def pair(lock: Lock) -> None:
    """Take the lock and give it back."""
    lock.acquire()
    lock.release()


def hand_overs(endpoint: str, clients: int, rounds: int) -> tuple[float, int]:
    """Let clients ask for one lock all the time: hand-overs a second, and how often two had it."""
    inside, broken = [0], [0]

    def hold(lock: Lock) -> None:
        for _ in range(rounds):
            lock.acquire()
            inside[0] += 1
            broken[0] += inside[0] != 1
            inside[0] -= 1
            lock.release()

    with ExitStack() as stack:
        connect = quorate.connect
        locks = [
            stack.enter_context(connect(endpoint, Lock, timeout=PATIENCE_S)) for _ in range(clients)
        ]
        threads = [threading.Thread(target=hold, args=(lock,)) for lock in locks]
        began = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return clients * rounds / (time.perf_counter() - began), broken[0]


def wake_up_us(items: Queue[int], taker: Queue[int], count: int) -> float:
    """How long after an item was offered its taker has it, in the median."""
    woken: list[float] = []
    ready = threading.Semaphore(0)

    def take() -> None:
        for _ in range(count):
            ready.release()
            taker.get()
            woken.append(time.perf_counter())

    thread = threading.Thread(target=take)
    thread.start()
    offered = []
    for number in range(count):
        ready.acquire()
        # Its call is on the way: an item that comes first would find nobody who waits.
        time.sleep(REST_S)
        offered.append(time.perf_counter())
        items.put(number)
    thread.join()
    took = sorted(at - before for before, at in zip(offered, woken, strict=True))
    return took[count // 2] * 1e6


def main() -> int:
    """Measure, and print."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=2000)
    options.add_argument("--clients", type=int, default=16)
    rounds, clients = (given := options.parse_args()).rounds, given.clients
    group = quorate.local(Lock, timeout=PATIENCE_S)
    with group as lock:
        median_us(lambda: pair(lock), WARM)
        alone = median_us(lambda: pair(lock), rounds)
        print(f"one client, acquire and release: {alone:.0f} us")
        a_second, broken = hand_overs(group.endpoint, clients, max(rounds // clients, 1))
        print(f"{clients} clients, one lock: {a_second:.0f} hand-overs/s")
    items = quorate.local(Queue, timeout=PATIENCE_S)
    with items as queue, quorate.connect(items.endpoint, Queue, timeout=PATIENCE_S) as taker:
        median_us(lambda: queue.put(0), WARM)
        for _ in range(WARM):
            queue.get()
        plain = median_us(lambda: queue.put(0), rounds)
        for _ in range(rounds):
            queue.get()
        woken = wake_up_us(queue, taker, rounds)
        print(f"a plain call: {plain:.0f} us; a caller is awake {woken:.0f} us after it was called")
    return int(broken > 0)


if __name__ == "__main__":
    sys.exit(main())
