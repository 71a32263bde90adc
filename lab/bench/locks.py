"""What waiting costs: acquiring and releasing a lock, hand-overs between clients, waking a caller.

Three nodes in memory and all clients share this machine. Prints a line for each figure, with what
is asked of it. Ends with 1 when a figure is worse, or when two clients held the lock at a time.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import TypeVar

import quorate
from quorate.objects import Lock, Queue

T = TypeVar("T")
PATIENCE_S = 60.0
WARM = 500
REST_S = 0.002
"""Between two items, so that the taker waits again when the next one comes."""

PAIR_US_MAX = 800
HAND_OVERS_MIN = 2000
PAIRS_MIN = 5000
WAKE_UP_MAX = 2.0
"""A wake-up takes at most so many times as long as a plain call."""


def median_us(act: Callable[[], object], count: int, rest_s: float = 0.0) -> float:
    """Time a thing that is done so often, with rests between, in microseconds."""
    took = []
    for _ in range(count):
        if rest_s > 0:
            time.sleep(rest_s)
        began = time.perf_counter()
        act()
        took.append(time.perf_counter() - began)
    return sorted(took)[count // 2] * 1e6


def pair(lock: Lock) -> None:
    """Take the lock and give it back."""
    lock.acquire()
    lock.release()


def together_s(act: Callable[[T], None], work: list[T]) -> float:
    """Do something with each at the same time, on a thread each: how long that took, in seconds."""
    threads = [threading.Thread(target=act, args=(each,)) for each in work]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.perf_counter() - began


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
        return clients * rounds / together_s(hold, locks), broken[0]


def pairs_a_second(endpoint: str, clients: int, rounds: int) -> float:
    """Let each client use two of as many locks as there are clients: two clients want each."""

    def use(own: list[Lock]) -> None:
        for turn in range(rounds):
            pair(own[turn % len(own)])

    with ExitStack() as stack:
        groups = [
            stack.enter_context(quorate.group(endpoint, timeout=PATIENCE_S)) for _ in range(clients)
        ]
        work = [
            [group.get_or_create(Lock, f"lock-{at % clients}") for at in (number, number + 1)]
            for number, group in enumerate(groups)
        ]
        return clients * rounds / together_s(use, work)


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


def told(text: str, is_met: bool) -> bool:
    """Print a figure; says whether it is as good as is asked."""
    print(f"{text}{'' if is_met else ': missed'}", flush=True)
    return is_met


def locks(clients: int, rounds: int) -> bool:
    """Measure locks; says whether all figures are met."""
    group = quorate.local(Lock, timeout=PATIENCE_S)
    with group as lock:
        median_us(lambda: pair(lock), WARM)
        alone = median_us(lambda: pair(lock), rounds)
        are_met = told(
            f"one client, acquire and release: {alone:.0f} us (at most {PAIR_US_MAX})",
            alone <= PAIR_US_MAX,
        )
        each = max(rounds // clients, 1)
        rate, broken = hand_overs(group.endpoint, clients, each)
        are_met &= told(
            f"{clients} clients, one lock: {rate:.0f} hand-overs/s (at least {HAND_OVERS_MIN})",
            rate >= HAND_OVERS_MIN,
        )
        are_met &= broken == 0 or told(f"two clients had the lock at a time, {broken} times", False)
        rate = pairs_a_second(group.endpoint, clients, each)
        return are_met & told(
            f"{clients} clients, {clients} locks: {rate:.0f} pairs/s (at least {PAIRS_MIN})",
            rate >= PAIRS_MIN,
        )


def wake_ups(rounds: int) -> bool:
    """Measure wake-ups beside plain calls; says whether the figure is met."""
    items = quorate.local(Queue, timeout=PATIENCE_S)
    with items as queue, quorate.connect(items.endpoint, Queue, timeout=PATIENCE_S) as taker:
        median_us(lambda: queue.put(0), WARM)
        # Who rests meets processors that sleep: a wake-up is compared with calls at the same pace.
        plain = median_us(lambda: queue.put(0), rounds, REST_S)
        for _ in range(WARM + rounds):
            queue.get()
        woken = wake_up_us(queue, taker, rounds)
        return told(
            f"a plain call after a rest of {REST_S * 1000:.0f} ms: {plain:.0f} us; "
            f"a caller is awake {woken:.0f} us after it was called: "
            f"{woken / plain:.1f} times as long (at most {WAKE_UP_MAX})",
            woken <= WAKE_UP_MAX * plain,
        )


def main() -> int:
    """Measure, and print."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=2000)
    options.add_argument("--clients", type=int, default=16)
    given = options.parse_args()
    return int(not locks(given.clients, given.rounds) & wake_ups(given.rounds))


if __name__ == "__main__":
    sys.exit(main())
