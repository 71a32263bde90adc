"""The process between the namespaces: it reads packets from TUN devices and writes each to another, later.

`links.py` starts it with the descriptors of the devices. It ends when its standard input does, so it never
outlives who started it, and then prints what it did as one line of JSON.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import select
import socket
import sys
import time

from delay_queue import QUEUE_PACKETS, DelayQueue

BURST = 64
"""Packets read from one device before the others have their turn."""

PACKET_BYTES = 65_536
READY = "ready"
"""Its first line: what is sent from then on takes no longer than the links say."""

IPV4 = 4


class Relay:
    """Moves packets between devices until it is told to end."""

    def __init__(self, devices: dict[int, int], addresses: dict[bytes, int], queue: DelayQueue) -> None:
        self._devices = devices
        """Descriptors by place."""
        self._addresses = addresses
        """Places by address."""
        self._queue = queue
        self.moved = 0
        self.strays = 0
        """Packets to nobody here, such as the kernel's own of IPv6."""
        self.refused = 0
        """Packets that a device did not take."""
        self.late_ns_max = 0
        self._late_ns_sum = 0

    def run(self, stop: int) -> None:
        """Move packets until `stop` is readable."""
        places = {descriptor: place for place, descriptor in self._devices.items()}
        watched = [*places, stop]
        while True:
            self._deliver()
            due_ns = self._queue.next_due_ns()
            wait_s = None if due_ns is None else max(0, due_ns - time.monotonic_ns()) / 1e9
            readable, _, _ = select.select(watched, [], [], wait_s)
            if stop in readable:
                return
            for descriptor in readable:
                self._take(descriptor, places[descriptor])

    def report(self) -> dict[str, float]:
        """What it has done."""
        return {
            "packets": self.moved,
            "dropped": self._queue.dropped,
            "strays": self.strays,
            "refused": self.refused,
            "late_us_mean": round(self._late_ns_sum / max(self.moved, 1) / 1e3, 1),
            "late_us_max": round(self.late_ns_max / 1e3, 1),
        }

    def _take(self, descriptor: int, place: int) -> None:
        for _ in range(BURST):
            try:
                packet = os.read(descriptor, PACKET_BYTES)
            except BlockingIOError:
                return
            target = self._addresses.get(packet[16:20]) if packet[0] >> 4 == IPV4 else None
            if target is None:
                self.strays += 1
            else:
                self._queue.offer(time.monotonic_ns(), place, target, packet)

    def _deliver(self) -> None:
        while (packet := self._queue.pop_due(now_ns := time.monotonic_ns())) is not None:
            late_ns = now_ns - packet.due_ns
            self._late_ns_sum += late_ns
            self.late_ns_max = max(self.late_ns_max, late_ns)
            try:
                os.write(self._devices[packet.target], packet.payload)
            except OSError:
                # The device is down or full: a network loses such a packet, and says how many.
                self.refused += 1
            self.moved += 1


def be_prompt() -> None:
    """Run before all others, as a network does: a link must not be slow because its machine is busy."""
    gc.disable()
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    except PermissionError:
        print("relay: no real-time priority; a busy machine makes links slower", file=sys.stderr)


def main() -> int:
    """Relay as the command line says."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--delay-us", type=float, required=True, help="one way")
    options.add_argument("--mbit", type=float, help="rate of each sender; unlimited without it")
    options.add_argument("--queue", type=int, default=QUEUE_PACKETS, help="packets that a link holds")
    options.add_argument("devices", nargs="+", metavar="PLACE=ADDRESS=DESCRIPTOR")
    given = options.parse_args()
    named = [device.split("=") for device in given.devices]
    devices = {int(place): int(descriptor) for place, _, descriptor in named}
    addresses = {socket.inet_aton(address): int(place) for place, address, _ in named}
    relay = Relay(devices, addresses, DelayQueue(round(given.delay_us * 1e3), given.mbit, given.queue))
    be_prompt()
    print(READY, flush=True)
    relay.run(sys.stdin.fileno())
    try:
        print(json.dumps(relay.report()), flush=True)
    except BrokenPipeError:
        # Who started it was killed: nobody wants to know.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


if __name__ == "__main__":
    sys.exit(main())
