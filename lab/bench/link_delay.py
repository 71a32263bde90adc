"""How exact the lab's links with a delay are, and how many packets a second they stand.

Pings over a link of 10 ms without other traffic, and beside packets at rising rates. Prints a row
for each rate, and ends with 1 when the median round trip without traffic is off by more than 1 ms.
"""

from __future__ import annotations

import argparse
import socket
import statistics
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "lab" / "runner"), str(ROOT / "lab" / "nemesis")]

from links import Links, address, enter, ping_ms  # noqa: E402

OFF_MS_MAX = 1.0
PAYLOAD = bytes(100)
BURSTS_A_SECOND = 200
RATES = (0, 2_000, 5_000, 10_000, 20_000, 40_000)
DISCARD_PORT = 9


def flood(target: str, rate: int, seconds: float) -> int:
    """Send at a rate for so long; how many packets that were."""
    sent, began = 0, time.perf_counter()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sending:
        while (now := time.perf_counter()) < began + seconds:
            while sent < (now - began) * rate:
                sending.sendto(PAYLOAD, (target, DISCARD_PORT))
                sent += 1
            time.sleep(1 / BURSTS_A_SECOND)
    return sent


def main() -> int:
    """Measure, print, judge."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--delay-ms", type=float, default=10.0)
    options.add_argument("--seconds", type=float, default=2.0, help="for each rate")
    given = options.parse_args()
    enter()
    is_exact = True
    links = Links(2, given.delay_ms)
    print(f"{'packets/s':>9} {'arrived':>8} {'ping p1 ms':>10} {'p50':>7} {'p99':>7}", flush=True)
    for rate in RATES:
        before, sent = links.received(1), [0]
        flooding = threading.Thread(
            target=lambda: sent.append(flood(address(1), rate, given.seconds))  # noqa: B023
        )
        flooding.start()
        times = ping_ms(address(2), int(given.seconds / (2.2e-3 * given.delay_ms)))
        flooding.join()
        # What is under way arrives before the answer to a later ping.
        ping_ms(address(1), 2)
        arrived = (links.received(1) - before - 2) / max(sent[-1], 1)
        middle = statistics.median(times)
        cuts = statistics.quantiles(times, n=100)
        share = f"{arrived:8.1%}" if rate else f"{'':8}"
        print(f"{rate:9d} {share} {cuts[0]:10.2f} {middle:7.2f} {cuts[-1]:7.2f}", flush=True)
        is_exact &= rate > 0 or abs(middle - 2 * given.delay_ms) <= OFF_MS_MAX
    links.close()
    print(f"the relay: {links.relayed}")
    return int(not is_exact)


if __name__ == "__main__":
    sys.exit(main())
