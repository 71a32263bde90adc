"""The handle of a group of real nodes on this machine: faults on demand, snapshots, and a comparison.

Made by `quorate.local`. Every node is a process: to kill it is SIGKILL, to cut it off is SIGSTOP. A node that
is cut off so stands still, and the others do not hear it; when it is healed it goes on where it was. The
machine has one clock, so clocks cannot be set here: `quorate.testing.local` has clocks of its own.
"""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import json
import os
import select
import signal
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from quorate._connect import connect
from quorate._errors import QuorateError, Unavailable
from quorate._program import program, start_group

T = TypeVar("T")

READY_SECONDS = 30.0
"""For a node that was started again, on a loaded machine."""

ANSWER_SECONDS = 1.0
"""For the status of one node: one that is cut off does not answer."""

END_SECONDS = 10.0
"""For a process that was asked to end."""

LOOK_EVERY = 0.01

_HEAD_BYTES = 80
_MAGIC = b"QUORSNP3"

_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
    """What a group is made from."""

    cls: type
    path: str
    arguments: tuple[str, str]
    nodes: int
    persist: str
    timeout: float
    allow: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Comparison:
    """What the replicas hold at one slot: a digest of the object's state for each, None for one without it.

    >>> Comparison(7, {1: "ab", 2: "ab", 3: None}).is_equal
    True
    >>> Comparison(7, {1: "ab", 2: "cd", 3: "ab"}).differing
    (2,)
    """

    slot: int
    digests: dict[int, str | None]

    @property
    def is_equal(self) -> bool:
        """Whether all replicas that hold the slot have the same state."""
        return len({digest for digest in self.digests.values() if digest is not None}) <= 1

    @property
    def differing(self) -> tuple[int, ...]:
        """The nodes whose state is not that of most."""
        held = [digest for digest in self.digests.values() if digest is not None]
        most = max(held, key=held.count, default=None)
        return tuple(node for node, digest in self.digests.items() if digest is not None and digest != most)


class LocalGroup(Generic[T]):
    """A group of real nodes on this machine; as a context manager it gives the object's proxy.

    ::

        group = quorate.local(Account, "A-1", balance=100)
        with group as account:
            group.cut(group.leader)
            assert account.deposit(10) == 110
            group.heal()
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._block = contextlib.ExitStack()
        self._ready: dict[str, Any] | None = None
        self._proxy: T | None = None
        self._pids: dict[int, int] = {}
        self._own: dict[int, subprocess.Popen[bytes]] = {}
        self._cut: set[int] = set()
        self._forgotten: set[int] = set()

    # ---- the block ----

    def start(self) -> Self:
        """Start the nodes and connect; `close` ends them. `with` does both."""
        if self._ready is not None:
            raise QuorateError("the group runs already")
        plan = self._plan
        with contextlib.ExitStack() as block:
            directory = block.enter_context(tempfile.TemporaryDirectory(prefix="quorate-"))
            args, kwargs = plan.arguments
            options = ["--args", args, "--kwargs", kwargs, "--nodes", str(plan.nodes)]
            options += ["--persist", plan.persist, "--port", "0", "--dir", directory, "--no-restart"]
            # A test is where a method that wrongly claims to change nothing should be found.
            options += ["--check-reads", "all"]
            options += [word for package in plan.allow for word in ("--allow", package)]
            ready = block.enter_context(start_group(plan.path, options, folder_of(plan.cls)))
            block.callback(self._end_own)
            connection: Any = connect(ready["endpoint"], plan.cls, timeout=plan.timeout)
            self._proxy = block.enter_context(connection)
            self._block = block.pop_all()
        self._ready = ready
        self._pids = {node["id"]: node["pid"] for node in ready["nodes"]}
        self._cut.clear()
        self._forgotten.clear()
        return self

    def close(self) -> None:
        """End the session and all nodes, and remove their data."""
        self._ready = self._proxy = None
        self._block.close()

    def __enter__(self) -> T:
        """The proxy."""
        return self.start().proxy

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # ---- what there is ----

    @property
    def proxy(self) -> T:
        """The object's stand-in."""
        if self._proxy is None:
            raise QuorateError("the group does not run: use it as a context manager")
        return self._proxy

    @property
    def endpoint(self) -> str:
        """Where other clients connect."""
        return str(self._running()["endpoint"])

    @property
    def nodes(self) -> tuple[int, ...]:
        """The numbers of all nodes."""
        return tuple(node["id"] for node in self._running()["nodes"])

    @property
    def stopped(self) -> tuple[int, ...]:
        """The nodes whose process has ended."""
        return tuple(node for node in self.nodes if node not in self._pids)

    @property
    def leader(self) -> int:
        """Who leads; waits until a majority of the nodes that answer agree on it."""
        return int(self._await(self._agreed_leader, "no leader was elected"))

    def status(self, node: int) -> dict[str, Any] | None:
        """What a node says of itself, as in `quorate status -o json`; None when it does not answer."""
        self._check(node)
        if node not in self._pids or node in self._cut:
            return None
        admin = next(each["admin"] for each in self._running()["nodes"] if each["id"] == node)
        try:
            with _DIRECT.open(f"http://{admin}/status", timeout=ANSWER_SECONDS) as answer:
                told: dict[str, Any] = json.load(answer)
        except (OSError, urllib.error.URLError, json.JSONDecodeError):
            return None
        return told

    # ---- faults ----

    def kill(self, node: int) -> None:
        """End a node's process with SIGKILL; nothing is flushed. It stays down until `restart`."""
        pid = self._pid(node)
        if self._plan.persist == "memory":
            self._keep_a_majority(node)
        self._forgotten.add(node)
        own = self._own.pop(node, None)
        if own is not None:
            own.kill()
            own.wait()
        else:
            _end(pid)
        del self._pids[node]
        self._cut.discard(node)

    def _keep_a_majority(self, node: int) -> None:
        """Wait for nodes that do not vote again yet; refuse where the memory of a majority would be lost."""
        back = {each for each in self._forgotten if each in self._pids and each not in self._cut}

        def is_kept() -> bool:
            self._forgotten -= {each for each in back & self._forgotten if self._votes(each)}
            return len(self._forgotten | {node}) * 2 <= len(self.nodes)

        if len((self._forgotten - back) | {node}) * 2 > len(self.nodes):
            raise QuorateError(
                f"to kill node {node} too would lose the state for good, because the group keeps it in the "
                'memory of a majority: restart the others first, or start it with persist="disk"'
            )
        self._await(is_kept, f"nodes {sorted(self._forgotten)} do not vote again")

    def _votes(self, node: int) -> bool:
        told = self.status(node)
        return told is not None and "acceptor" in told["roles"]

    def restart(self, node: int) -> None:
        """Start a node again that was killed, on its data; returns when it serves.

        With `persist="memory"` it has forgotten its votes: it executes and answers, and votes again a moment
        later, once the others have agreed to that.
        """
        self._check(node)
        if node in self._pids:
            raise QuorateError(f"node {node} runs: kill it first")
        directory = Path(self._running()["dir"])
        command = [program(), "node", "run", "--config", str(directory / f"node-{node}.toml")]
        if threading.current_thread() is threading.main_thread():
            # The system ends it with the thread that starts it.
            command += ["--supervised-by", str(os.getpid())]
        with (directory / f"node-{node}.log").open("ab") as log:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self._own[node], self._pids[node] = process, process.pid
        self._await(lambda: self._serves(node), f"node {node} does not serve again", process)

    def cut(self, node: int) -> None:
        """Cut a node off from clients and nodes until `heal`: SIGSTOP stops it, so it stands still."""
        pid = self._pid(node)
        if node in self._cut:
            raise QuorateError(f"node {node} is cut off already")
        os.kill(pid, signal.SIGSTOP)
        self._cut.add(node)

    def heal(self, node: int | None = None) -> None:
        """Let a node go on that was cut off; all of them without a number."""
        if node is not None:
            self._check(node)
        for each in sorted(self._cut if node is None else self._cut & {node}):
            os.kill(self._pids[each], signal.SIGCONT)
            self._cut.discard(each)

    # ---- snapshots ----

    def snapshot(self) -> int:
        """Take a snapshot on every replica at one agreed slot, which is returned when a majority holds it."""
        command = [program(), "snapshot", "--endpoint", self.endpoint, "-o", "json"]
        command += ["--timeout", str(self._plan.timeout)]
        told = subprocess.run(command, capture_output=True, text=True, check=False)
        if told.returncode != 0:
            raise Unavailable(f"no snapshot was taken: {told.stderr.strip()}")
        return int(json.loads(told.stdout)["slot"])

    def compare(self) -> Comparison:
        """Compare the replicas: take a snapshot, and the digest of the object's state in each replica's.

        Waits for the replicas that run and are not cut off; the others have no digest.
        """
        slot = self.snapshot()
        deadline = time.monotonic() + self._plan.timeout
        while True:
            digests = {node: self._digest(node, slot) for node in self.nodes}
            awaited = [node for node in self._pids if node not in self._cut and digests[node] is None]
            if not awaited or time.monotonic() > deadline:
                return Comparison(slot, digests)
            time.sleep(LOOK_EVERY)

    def _digest(self, node: int, slot: int) -> str | None:
        """The digest in the head of a node's snapshot file of the slot, see docs/storage.md."""
        folder = Path(self._running()["dir"]) / f"node-{node}"
        for file in folder.rglob(f"snap-*-{slot:016x}"):
            with contextlib.suppress(FileNotFoundError), file.open("rb") as opened:
                head = opened.read(_HEAD_BYTES)
                if len(head) == _HEAD_BYTES and head[4:12] == _MAGIC:
                    return head[48:80].hex()
        return None

    # ---- inside ----

    def _running(self) -> dict[str, Any]:
        if self._ready is None:
            raise QuorateError("the group does not run: use it as a context manager")
        return self._ready

    def _check(self, node: int) -> None:
        if isinstance(node, bool) or not isinstance(node, int):
            raise TypeError(f"a node is a number, not {type(node).__name__}")
        if node not in self.nodes:
            raise ValueError(f"there is no node {node}: the nodes are {', '.join(map(str, self.nodes))}")

    def _pid(self, node: int) -> int:
        self._check(node)
        if node not in self._pids:
            raise QuorateError(f"node {node} does not run: start it with restart({node})")
        return self._pids[node]

    def _statuses(self) -> Iterator[dict[str, Any]]:
        for node in self.nodes:
            status = self.status(node)
            if status is not None:
                yield status

    def _agreed_leader(self) -> int | None:
        told = [status["leader"] for status in self._statuses()]
        for node in self._pids:
            if node not in self._cut and told.count(node) * 2 > len(self.nodes):
                return node
        return None

    def _serves(self, node: int) -> bool:
        status = self.status(node)
        return status is not None and status["is_serving"] and status["is_host_up"]

    def _await(self, look: Any, failure: str, process: subprocess.Popen[bytes] | None = None) -> Any:
        deadline = time.monotonic() + READY_SECONDS
        while not (found := look()):
            if process is not None and process.poll() is not None:
                raise Unavailable(
                    f"{failure}: its process ended with {process.returncode}{self._last_words()}"
                )
            if time.monotonic() > deadline:
                raise Unavailable(f"{failure} within {READY_SECONDS:g} seconds{self._last_words()}")
            time.sleep(LOOK_EVERY)
        return found

    def _last_words(self) -> str:
        logs = sorted(Path(self._running()["dir"]).glob("node-*.log"))
        said = [(log.stem, log.read_text(errors="replace").strip().splitlines()) for log in logs]
        return "".join(f"\n{name}: {lines[-1]}" for name, lines in said if lines)

    def _end_own(self) -> None:
        """Before `quorate up` ends: what stands still could not hear that it should end."""
        for node in self._cut:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pids[node], signal.SIGCONT)
        for process in self._own.values():
            process.terminate()
        for process in self._own.values():
            try:
                process.wait(timeout=END_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._own.clear()
        self._cut.clear()
        self._pids.clear()


def _end(pid: int) -> None:
    """SIGKILL for a process of `quorate up`, and wait until it has ended."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        select.select([descriptor], [], [], END_SECONDS)
    finally:
        os.close(descriptor)


def folder_of(cls: type) -> Path:
    """Where nodes find the class's top package."""
    try:
        file = Path(inspect.getfile(cls)).absolute()
    except (TypeError, OSError) as error:
        raise QuorateError(f"{cls.__qualname__} has no source that nodes could import") from error
    folder = file.parent
    steps = cls.__module__.count(".") + (file.name == "__init__.py")
    for _ in range(steps):
        folder = folder.parent
    return folder


LocalGroup.__module__ = Comparison.__module__ = "quorate"
