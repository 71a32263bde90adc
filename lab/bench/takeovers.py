"""How long a lock is nobody's after its holder was killed: first with calm nodes, then under kills.

Three nodes with logs on disk and all clients share this machine. In the second part the leader is
killed all the time. Prints how long the next in line waited, from the moment of the kill on. Ends
with 1 when that was ever longer than the holder's session may live, and 300 ms, or no leader died.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import quorate
from quorate import LocalGroup
from quorate.objects import Lock

PATIENCE_S = 60.0
SESSION_S = 5.0
MARGIN_S = 0.3
HOLDER = """
import sys
import quorate
from quorate.objects import Lock
with quorate.connect(sys.argv[1], Lock, timeout=60.0, session_timeout=float(sys.argv[2])) as lock:
    lock.acquire()
    print("held", flush=True)
    sys.stdin.read()
"""


@contextmanager
def leaders_killed(group: LocalGroup[Lock], every_s: float) -> Iterator[list[float]]:
    """Kill whoever leads, and start it again, for as long as the block runs: when it was done."""
    killed: list[float] = []
    over = threading.Event()

    def kill() -> None:
        while not over.wait(every_s):
            leader = group.leader
            group.kill(leader)
            killed.append(time.monotonic())
            group.restart(leader)

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        yield killed
    finally:
        over.set()
        thread.join()


def taken_over_s(endpoint: str, waiter: Lock) -> float:
    """Kill a holder while another client waits: after how long that one holds."""
    command = [sys.executable, "-c", HOLDER, endpoint, str(SESSION_S)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as holder:
        assert holder.stdout is not None
        if holder.stdout.readline() != "held\n":
            message = "the holder ended before it held the lock"
            raise RuntimeError(message)
        held: list[float] = []

        def wait() -> None:
            waiter.acquire()
            held.append(time.monotonic())

        thread = threading.Thread(target=wait)
        thread.start()
        # It stands in line for longer than a keepalive takes.
        time.sleep(SESSION_S / 3)
        killed = time.monotonic()
        holder.kill()
        thread.join()
    waiter.release()
    return held[0] - killed


def told(name: str, waits: list[float], within_s: float) -> bool:
    """Print a line, and say whether all were in time."""
    waits.sort()
    middle, longest = waits[len(waits) // 2], waits[-1]
    print(
        f"{name}: {len(waits)} holders killed, the next one holds after {middle:.2f} s in the "
        f"median, {longest:.2f} s at most (may take {within_s:.2f} s)"
    )
    return longest <= within_s


def main() -> int:
    """Measure, and print."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=10)
    options.add_argument("--every", type=float, default=3.0, help="seconds between two kills")
    given = options.parse_args()
    within_s = SESSION_S + MARGIN_S
    group = quorate.local(Lock, persist="disk", timeout=PATIENCE_S)
    with group, quorate.connect(group.endpoint, Lock, timeout=PATIENCE_S) as waiter:
        endpoint = group.endpoint
        calm = [taken_over_s(endpoint, waiter) for _ in range(given.rounds)]
        in_time = told("calm nodes", calm, within_s)
        with leaders_killed(group, given.every) as killed:
            stormy = [taken_over_s(endpoint, waiter) for _ in range(given.rounds)]
        name = f"{len(killed)} leaders killed, one every {given.every:g} s"
        in_time &= told(name, stormy, within_s) and len(killed) > 0
    return int(not in_time)


if __name__ == "__main__":
    sys.exit(main())
