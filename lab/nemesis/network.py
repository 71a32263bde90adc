"""The network between nodes and clients, and how it is cut without a sound.

With namespaces each node has an address on a bridge, and the clients one more. A cut makes the sender
address its frames to a card that does not exist: nothing is refused, nothing is reset, packets just never
arrive, one way or both. Without namespaces everything is 127.0.0.1 and nothing can be cut.
"""

from __future__ import annotations

import itertools
import json
import socket
import subprocess
from collections.abc import Iterable
from typing import Protocol

CLIENTS = 0
"""The place where the load runs; nodes have the numbers from 1."""

_NOWHERE = "02:00:00:00:00:ff"
_PORT = 7400
_ADMIN_PORT = 7500


class Network(Protocol):
    """Where nodes listen, how their processes get there, and what may be cut."""

    can_cut: bool

    def listen(self, node: int) -> str:
        """Address of the node for peers and clients, `host:port`."""

    def admin(self, node: int) -> str:
        """Address of its admin port."""

    def prefix(self, node: int) -> list[str]:
        """What stands before a command so that it runs where the node lives."""

    def cut(self, source: int, target: int) -> None:
        """Lose everything that `source` sends to `target`."""

    def heal(self) -> None:
        """Lose nothing any more."""

    def close(self) -> None:
        """Give everything back."""


class Loopback:
    """Free ports of 127.0.0.1."""

    can_cut = False

    def __init__(self, nodes: int) -> None:
        ports = iter(_free_ports(2 * nodes))
        self._addresses = {
            node: (f"127.0.0.1:{next(ports)}", f"127.0.0.1:{next(ports)}") for node in range(1, nodes + 1)
        }

    def listen(self, node: int) -> str:
        """Address of the node for peers and clients."""
        return self._addresses[node][0]

    def admin(self, node: int) -> str:
        """Address of its admin port."""
        return self._addresses[node][1]

    def prefix(self, _node: int) -> list[str]:
        """Nothing: all live here."""
        return []

    def cut(self, source: int, target: int) -> None:
        """Refused."""
        raise RuntimeError(f"loopback cannot be cut between {source} and {target}")

    def heal(self) -> None:
        """Nothing was cut."""

    def close(self) -> None:
        """Nothing is held."""


class Namespaces:
    """A namespace per node, joined by a bridge on which the clients live."""

    can_cut = True

    def __init__(self, nodes: int) -> None:
        self._nodes = range(1, nodes + 1)
        self._cut: set[tuple[int, int]] = set()
        _ip("link", "add", "lab", "type", "bridge")
        _ip("addr", "add", f"{_address(CLIENTS)}/24", "dev", "lab")
        _ip("link", "set", "lab", "up")
        for node in self._nodes:
            self._add(node)

    def _add(self, node: int) -> None:
        space, outer = f"node{node}", f"wire{node}"
        _ip("netns", "add", space)
        _ip("link", "add", outer, "type", "veth", "peer", "name", "card", "netns", space)
        _ip("link", "set", outer, "master", "lab", "up")
        _ip("-n", space, "addr", "add", f"{_address(node)}/24", "dev", "card")
        _ip("-n", space, "link", "set", "card", "up")
        _ip("-n", space, "link", "set", "lo", "up")

    def listen(self, node: int) -> str:
        """Address of the node for peers and clients."""
        return f"{_address(node)}:{_PORT}"

    def admin(self, node: int) -> str:
        """Address of its admin port, reached from where the clients live."""
        return f"{_address(node)}:{_ADMIN_PORT}"

    def prefix(self, node: int) -> list[str]:
        """Enters the node's network; the process keeps its number."""
        return ["nsenter", f"--net=/run/netns/node{node}"]

    def cut(self, source: int, target: int) -> None:
        """Lose everything that `source` sends to `target`."""
        _neighbour(source, "replace", target, "lladdr", _NOWHERE, "nud", "permanent")
        self._cut.add((source, target))

    def heal(self) -> None:
        """Forget the false neighbours; the true ones are asked for again."""
        for source, target in self._cut:
            _neighbour(source, "del", target)
        self._cut.clear()

    def narrow(self, node: int, mbit: float) -> None:
        """Let so many megabits a second pass to the node, and from it."""
        for where, card in (([], f"wire{node}"), (["-n", f"node{node}"], "card")):
            rate = ["rate", f"{mbit:g}mbit", "burst", "32kb", "latency", "200ms"]
            _run("tc", *where, "qdisc", "replace", "dev", card, "root", "tbf", *rate)

    def widen(self, node: int) -> None:
        """Undo it."""
        for where, card in (([], f"wire{node}"), (["-n", f"node{node}"], "card")):
            _run("tc", *where, "qdisc", "del", "dev", card, "root")

    def received(self, node: int) -> int:
        """Bytes that went to the node's card since it was made."""
        told = json.loads(_run("ip", "-n", f"node{node}", "-s", "-j", "link", "show", "dev", "card"))
        return int(told[0]["stats64"]["rx"]["bytes"])

    def close(self) -> None:
        """Remove every namespace and the bridge."""
        for node in self._nodes:
            # A deleted namespace takes its end of the wire along later; the next network wants the name now.
            _ip("link", "del", f"wire{node}")
            _ip("netns", "del", f"node{node}")
        _ip("link", "del", "lab")


def cut_both_ways(network: Network, side: Iterable[int], other: Iterable[int]) -> None:
    """Silence between every one of `side` and every one of `other`."""
    for one, two in itertools.product(side, other):
        network.cut(one, two)
        network.cut(two, one)


def _address(node: int) -> str:
    return f"10.77.0.{node or 100}"


def _neighbour(source: int, verb: str, target: int, *more: str) -> None:
    where, card = (["-n", f"node{source}"], "card") if source != CLIENTS else ([], "lab")
    _ip(*where, "neigh", verb, _address(target), *more, "dev", card)


def _ip(*arguments: str) -> None:
    _run("ip", *arguments)


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise OSError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [int(each.getsockname()[1]) for each in sockets]
    for each in sockets:
        each.close()
    return ports
