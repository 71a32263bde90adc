"""Groups of three servers of other systems on this machine, and the locks of their Python clients.

Nothing is installed: a system that is not there raises `Absent`, which says what to install.
"""

from __future__ import annotations

import importlib
import logging
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol, Self, TypeVar

START_S = 60.0
POLL_S = 0.05
LEASE_S = 10
NODES = 3
T = TypeVar("T")


class Absent(Exception):
    """The system, or its client, is not installed."""


class Lock(Protocol):
    """What is measured."""

    def acquire(self) -> object:
        """Take it, and wait until it is free."""

    def release(self) -> object:
        """Give it back."""


class Service(ABC):
    """A group of servers that runs between `start` and the end of its block."""

    title = ""
    how = ""
    """What about it another reader has to know."""
    is_contended = True
    """Whether several clients in one process can wait for one lock."""

    def __init__(self, members: int = NODES, folder: str | None = None) -> None:
        self.members = members
        self.folder = folder
        """Where the servers' files are; None for the usual place of temporary ones."""
        self.pids: list[int] = []
        self.block = ExitStack()
        self.home = Path()

    def __enter__(self) -> Self:
        """Start the servers."""
        with ExitStack() as block:
            folder = tempfile.TemporaryDirectory(
                prefix="rival-", dir=self.folder, ignore_cleanup_errors=True
            )
            self.home = Path(block.enter_context(folder))
            self.block = block
            self.start()
            self.block = block.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        """End clients and servers."""
        self.block.close()

    @abstractmethod
    def start(self) -> None:
        """Start the servers, and wait until they serve."""

    @abstractmethod
    def client(self) -> Callable[[str], Lock]:
        """Connect another client: it gives locks by name."""

    def run(self, words: list[str], **environment: str) -> None:
        """Run a server until the block ends; what it says goes to a file."""
        log = self.block.enter_context((self.home / "log").open("ab"))
        server = subprocess.Popen(
            words, stdout=log, stderr=log, cwd=self.home, env={**os.environ, **environment}
        )
        self.pids.append(server.pid)

        def end() -> None:
            server.kill()
            server.wait()

        self.block.callback(end)


def module(name: str, package: str) -> ModuleType:
    """Import a client's module."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise Absent(f"pip install {package} ({error})") from error


def program(name: str, package: str) -> str:
    """Find a server's program."""
    debian = f"/usr/share/{package}/bin"
    found = shutil.which(name) or shutil.which(name, path=debian)
    if found is None:
        raise Absent(f"apt install {package}")
    return found


def free_ports(count: int) -> list[int]:
    """Ports of the loopback that nobody listens on."""
    with ExitStack() as stack:
        listening = [
            stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)
        ]
        return [each.getsockname()[1] for each in listening]


def until_it_does(act: Callable[[], T]) -> T:
    """What an attempt returns once it raises nothing any more."""
    end = time.monotonic() + START_S
    while True:
        try:
            return act()
        except Exception:
            if time.monotonic() > end:
                raise
            time.sleep(POLL_S)


class Etcd(Service):
    """etcd with its own lock service, which waits at the server."""

    title = "etcd"
    how = "its lock service by gRPC"

    def start(self) -> None:
        """Start the members."""
        self.grpc = module("grpc", "grpcio")
        etcd = program("etcd", "etcd-server")
        ports = free_ports(2 * self.members)
        self.ports, peers = ports[: self.members], ports[self.members :]
        cluster = ",".join(f"m{n}=http://127.0.0.1:{port}" for n, port in enumerate(peers))
        for n, (port, peer) in enumerate(zip(self.ports, peers, strict=True)):
            own, other = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{peer}"
            words = [etcd, "--name", f"m{n}", "--data-dir", str(self.home / f"m{n}")]
            words += ["--listen-client-urls", own, "--advertise-client-urls", own]
            words += ["--listen-peer-urls", other, "--initial-advertise-peer-urls", other]
            self.run([*words, "--initial-cluster", cluster])
        until_it_does(lambda: self.client()("warm").acquire())

    def client(self) -> Callable[[str], Lock]:
        """Connect to a member, with a lease of one's own."""
        channel = self.grpc.insecure_channel(f"127.0.0.1:{self.ports[0]}")
        self.block.callback(channel.close)
        # LeaseGrantRequest{TTL = 1}; the load is shorter than the lease.
        granted = channel.unary_unary("/etcdserverpb.Lease/LeaseGrant")(_number(1, 600), timeout=5)
        lease = int(_field(granted, 2))
        return lambda name: _EtcdLock(channel, name, lease)


class _Channel(Protocol):
    def unary_unary(self, method: str) -> Callable[..., Any]: ...


class _EtcdLock:
    def __init__(self, channel: _Channel, name: str, lease: int) -> None:
        # LockRequest{name = 1, lease = 2}, UnlockRequest{key = 1}.
        self._wanted = _bytes(1, name.encode()) + _number(2, lease)
        self._lock = channel.unary_unary("/v3lockpb.Lock/Lock")
        self._unlock = channel.unary_unary("/v3lockpb.Lock/Unlock")
        self._key = b""

    def acquire(self) -> None:
        self._key = bytes(_field(self._lock(self._wanted, timeout=START_S), 2))

    def release(self) -> None:
        self._unlock(_bytes(1, self._key), timeout=START_S)


class ZooKeeper(Service):
    """ZooKeeper with the lock of kazoo."""

    title = "ZooKeeper"
    how = "kazoo's Lock"

    def start(self) -> None:
        """Start the servers."""
        self.kazoo = module("kazoo.client", "kazoo")
        # It tells each attempt before the servers serve.
        logging.getLogger("kazoo").setLevel(logging.CRITICAL)
        server = program("zkServer.sh", "zookeeper")
        ports = free_ports(3 * NODES)
        self.ports = ports[:NODES]
        peers = [
            f"server.{n + 1}=127.0.0.1:{ports[NODES + n]}:{ports[2 * NODES + n]}"
            for n in range(NODES)
        ]
        for n, port in enumerate(self.ports):
            data = self.home / f"data-{n}"
            data.mkdir()
            (data / "myid").write_text(f"{n + 1}\n")
            limits = ["tickTime=1000", "initLimit=10", "syncLimit=5", "maxClientCnxns=0"]
            lines = [*limits, f"dataDir={data}", f"clientPort={port}", "admin.enableServer=false"]
            (self.home / f"{n}.cfg").write_text("\n".join([*lines, *peers, ""]))
            words = [server, "start-foreground", str(self.home / f"{n}.cfg")]
            self.run(words, JMXDISABLE="true", ZOO_LOG_DIR=str(self.home), JVMFLAGS="-Xmx512m")
        until_it_does(lambda: self.client()("warm").acquire())

    def client(self) -> Callable[[str], Lock]:
        """Open a session at a server."""
        client = self.kazoo.KazooClient(hosts=f"127.0.0.1:{self.ports[0]}", timeout=LEASE_S)
        client.start(timeout=5)
        self.block.callback(client.stop)
        return lambda name: client.Lock(f"/locks/{name}")


class PySyncObj(Service):
    """PySyncObj, whose clients are members: this process is one of three, which write no disk."""

    title = "PySyncObj"
    how = "its ReplLockManager in one of three members, without a disk; it has no lock that waits"
    is_contended = False

    def start(self) -> None:
        """Start two members, and be the third one."""
        module("pysyncobj", "pysyncobj")
        addresses = [f"127.0.0.1:{port}" for port in free_ports(NODES)]
        for own in addresses[1:]:
            others = [each for each in addresses if each != own]
            code = "import sys, rivals, signal; m = rivals.member(*sys.argv[1:]); signal.pause()"
            here = os.pathsep.join([str(Path(__file__).parent), *filter(None, sys.path)])
            self.run([sys.executable, "-c", code, own, *others], PYTHONPATH=here)
        node, self.manager = member(*addresses)
        self.block.callback(node.destroy)
        until_it_does(lambda: self.client()("warm").acquire())

    def client(self) -> Callable[[str], Lock]:
        """Return locks of this process; its threads share what they hold."""
        return lambda name: _SyncLock(self.manager, name)


def member(own: str, *others: str) -> tuple[Any, Any]:
    """Become a member of a PySyncObj group."""
    pysyncobj = module("pysyncobj", "pysyncobj")
    batteries = module("pysyncobj.batteries", "pysyncobj")
    manager = batteries.ReplLockManager(autoUnlockTime=75)
    return pysyncobj.SyncObj(own, list(others), consumers=[manager]), manager


class _Manager(Protocol):
    def tryAcquire(self, name: str, *, sync: bool, timeout: float) -> bool: ...

    def release(self, name: str, *, sync: bool, timeout: float) -> None: ...


class _SyncLock:
    def __init__(self, manager: _Manager, name: str) -> None:
        self._manager, self._name = manager, name

    def acquire(self) -> None:
        if not self._manager.tryAcquire(self._name, sync=True, timeout=5):
            raise TimeoutError(self._name)

    def release(self) -> None:
        self._manager.release(self._name, sync=True, timeout=5)


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])


def _number(field: int, number: int) -> bytes:
    return bytes([field << 3]) + _varint(number)


def _bytes(field: int, given: bytes) -> bytes:
    return bytes([field << 3 | 2]) + _varint(len(given)) + given


def _field(message: bytes, wanted: int) -> int | bytes:
    """A field of a protobuf message that has numbers and bytes only."""
    at = 0

    def varint() -> int:
        nonlocal at
        number = shift = 0
        while True:
            byte = message[at]
            at, number, shift = at + 1, number | (byte & 127) << shift, shift + 7
            if byte < 128:
                return number

    while at < len(message):
        key = varint()
        value: int | bytes = (number := varint())
        if key & 7 == 2:
            value, at = message[at : at + number], at + number
        if key >> 3 == wanted:
            return value
    raise LookupError(f"no field {wanted} in {message!r}")
