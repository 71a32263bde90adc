"""Links that take time: a network namespace for each node, and a relay that delivers packets later.

The kernel's own delay, `tc netem`, is a module that many machines lack. TUN devices are not: a packet that a
node sends is read by the relay and written to the device of its target when the delay is over. The clients
are one more place, as far from each node as the nodes are from each other.

Everything is made in namespaces of the script's own (`isolation.enter`), so nothing is left when it ends,
however it ends: the kernel removes them with the last process in them, and nodes and relay end with the
script.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path

import isolation
from relay import READY

CLIENTS = 0
"""The place of the script itself; nodes have the numbers from 1."""

_PORT, _ADMIN_PORT = 7400, 7500
_TUN = Path("/dev/net/tun")
# Of <linux/if_tun.h>: packets of IP without a header before them.
_TUNSETIFF, _IFF_TUN, _IFF_NO_PI = 0x4004_54CA, 0x0001, 0x1000
_ECHO_REQUEST, _ECHO_REPLY = 8, 0
_RELAY_END_S = 10.0
_PATIENCE_S = 5.0


def enter() -> None:
    """Start the script again in namespaces of its own; says in one line why that is not possible."""
    if os.geteuid() != 0 or not os.access(_TUN, os.W_OK):
        raise SystemExit(f"links with a delay need root and {_TUN}: run this as root")
    isolation.enter()
    if not isolation.is_isolated():
        raise SystemExit("links with a delay need unshare, nsenter, ip and network namespaces")


class Links:
    """A network of the lab (see `network.Network`) whose links have a delay and, if wanted, a rate."""

    can_cut = False

    def __init__(self, nodes: int, delay_ms: float, mbit: float | None = None) -> None:
        self.relayed: dict[str, float] = {}
        """What the relay did, once the network is closed."""
        self._nodes = range(1, nodes + 1)
        devices = {place: _device(place) for place in (CLIENTS, *self._nodes)}
        try:
            for node in self._nodes:
                _ip("netns", "add", f"node{node}")
                _ip("link", "set", f"link{node}", "netns", f"node{node}")
            for place in devices:
                _ip(*_where(place), "addr", "add", f"{address(place)}/24", "dev", f"link{place}")
                _ip(*_where(place), "link", "set", f"link{place}", "txqueuelen", "4096", "up")
                _ip(*_where(place), "link", "set", "lo", "up")
            self._relay = _start_relay(devices, delay_ms, mbit)
        finally:
            # The relay has them; a device is gone when nobody has it.
            for descriptor in devices.values():
                os.close(descriptor)

    def listen(self, node: int) -> str:
        """Address of the node for peers and clients."""
        return f"{address(node)}:{_PORT}"

    def admin(self, node: int) -> str:
        """Address of its admin port, reached over its link."""
        return f"{address(node)}:{_ADMIN_PORT}"

    def prefix(self, node: int) -> list[str]:
        """Enters the node's network; the process keeps its number."""
        return ["nsenter", f"--net=/run/netns/node{node}"] if node != CLIENTS else []

    def cut(self, source: int, target: int) -> None:
        """Refused."""
        raise RuntimeError(f"links with a delay cannot be cut between {source} and {target}")

    def heal(self) -> None:
        """Nothing was cut."""

    def received(self, place: int) -> int:
        """Packets that were delivered to a place."""
        told = _ip(*_where(place), "-s", "-j", "link", "show", "dev", f"link{place}")
        packets: int = json.loads(told)[0]["stats64"]["rx"]["packets"]
        return packets

    def close(self) -> None:
        """End the relay, with which the devices go, and remove the namespaces."""
        told, _ = self._relay.communicate(timeout=_RELAY_END_S)
        self.relayed = json.loads(told)
        for node in self._nodes:
            _ip("netns", "del", f"node{node}")


def address(place: int) -> str:
    """The address of a node, or of the clients."""
    return f"10.77.0.{place or 100}"


def ping_ms(target: str, count: int, pause_s: float = 0.0) -> list[float]:
    """How long each of some pings takes; a lost one ends the script."""
    times = []
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP) as pinging:
        pinging.settimeout(_PATIENCE_S)
        pinging.connect((target, 0))
        for number in range(1, count + 1):
            head = struct.pack("!BBHHH", _ECHO_REQUEST, 0, 0, 77, number)
            began = time.perf_counter()
            pinging.send(struct.pack("!BBHHH", _ECHO_REQUEST, 0, _checksum(head), 77, number))
            while True:
                packet = pinging.recv(1500)
                kind, _, _, _, heard = struct.unpack("!BBHHH", packet[20:28])
                if (kind, heard) == (_ECHO_REPLY, number):
                    break
            times.append((time.perf_counter() - began) * 1e3)
            time.sleep(pause_s)
    return times


def _checksum(head: bytes) -> int:
    total: int = sum(struct.unpack(f"!{len(head) // 2}H", head))
    return ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF


def _device(place: int) -> int:
    descriptor = os.open(_TUN, os.O_RDWR | os.O_NONBLOCK)
    request = struct.pack("16sH22x", f"link{place}".encode(), _IFF_TUN | _IFF_NO_PI)
    fcntl.ioctl(descriptor, _TUNSETIFF, request)
    return descriptor


def _start_relay(devices: dict[int, int], delay_ms: float, mbit: float | None) -> subprocess.Popen[str]:
    command = [sys.executable, str(Path(__file__).with_name("relay.py")), "--delay-us", str(delay_ms * 1e3)]
    command += ["--mbit", str(mbit)] if mbit else []
    command += [f"{place}={address(place)}={descriptor}" for place, descriptor in devices.items()]
    pipe = subprocess.PIPE
    relay = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, pass_fds=tuple(devices.values()))
    assert relay.stdout is not None, "it is a pipe"
    if relay.stdout.readline().strip() != READY:
        raise OSError(f"the relay ended with {relay.wait()} before it was ready")
    return relay


def _where(place: int) -> list[str]:
    return ["-n", f"node{place}"] if place != CLIENTS else []


def _ip(*arguments: str) -> str:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise OSError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout
