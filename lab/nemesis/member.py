"""One node's process: started, signalled and ended by its process id, and by nothing else.

It knows the difference between an end that a fault asked for and one that nobody asked for; the latter is a
failed check of the run.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ANSWER_S = 1.0
"""How long a node may take to say how it is before it counts as silent."""

_NO_PROXY = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@dataclass(frozen=True)
class Status:
    """What one node says about itself, as far as the lab asks."""

    node: int
    leader: int | None
    roles: tuple[str, ...]
    ballot: str
    decided: int
    executed: int
    trimmed: int
    digest: str
    diverged: int | None
    frozen: int | None
    is_serving: bool
    elections: int
    bytes_in: int
    """Read from sockets since the start."""
    slow_peers: int
    """Links dropped because the peer was too slow."""
    connections: int
    """Of clients and nodes, at the port that they share."""
    view: int
    """Number of the view in force at this node."""
    members: tuple[int, ...]
    """Of that view."""

    @property
    def leads(self) -> bool:
        """Whether it takes itself for the leader."""
        return "leader" in self.roles

    @staticmethod
    def of(document: dict[str, Any]) -> Status:
        """The status in a node's document."""
        return Status(
            node=document["id"],
            leader=document["leader"],
            roles=tuple(document["roles"]),
            ballot=document["ballot"],
            decided=document["decided"],
            executed=document["executed"],
            trimmed=document["trimmed"],
            digest=document["digest"],
            diverged=document["diverged"],
            frozen=document["frozen"],
            is_serving=document["is_serving"],
            elections=document["elections"],
            bytes_in=document["counts"]["bytes_in"],
            slow_peers=document["counts"]["slow_peers"],
            connections=document["counts"]["connections"],
            view=document["view"]["number"],
            members=tuple(member["node"] for member in document["view"]["members"]),
        )


@dataclass
class Member:
    """A node: where it lives, and its process while it has one."""

    number: int
    directory: Path
    config: Path
    log: Path
    admin: str
    command: list[str]
    environment: dict[str, str]
    process: subprocess.Popen[bytes] | None = None
    is_stopped: bool = False
    may_end: bool = False
    unasked_ends: list[str] = field(default_factory=list)
    exit_code: int | None = None
    """Of the process that ended last."""

    def start(self) -> None:
        """Start the process; its own log lines are appended to the log file."""
        assert not self.is_running(), f"node {self.number} runs already"
        self.may_end = False
        self.is_stopped = False
        self.exit_code = None
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self.environment,
            )

    def is_running(self) -> bool:
        """Whether the process exists; an end that nobody asked for is noted."""
        if self.process is None:
            return False
        code = self.process.poll()
        if code is None:
            return True
        if not self.may_end:
            self.unasked_ends.append(f"node {self.number} ended with {code}: {self.last_words()}")
        self.process = None
        self.exit_code = code
        self.is_stopped = False
        return False

    @property
    def pid(self) -> int:
        """The process id; only while it runs."""
        assert self.process is not None, f"node {self.number} does not run"
        return self.process.pid

    def kill(self) -> None:
        """SIGKILL: no goodbye, nothing flushed."""
        self._end(signal.SIGKILL, 5.0)

    def terminate(self) -> int:
        """SIGTERM: it hands over, drains and ends; returns its exit code."""
        return self._end(signal.SIGTERM, 10.0)

    def _end(self, how: signal.Signals, seconds: float) -> int:
        if not self.is_running():
            return 0
        assert self.process is not None
        self.may_end = True
        self.process.send_signal(how)
        code = self.process.wait(timeout=seconds)
        self.process = None
        self.is_stopped = False
        return code

    def stop(self) -> None:
        """SIGSTOP: it stands still and knows nothing of it."""
        os.kill(self.pid, signal.SIGSTOP)
        self.is_stopped = True

    def resume(self) -> None:
        """SIGCONT."""
        os.kill(self.pid, signal.SIGCONT)
        self.is_stopped = False

    def host_pids(self) -> list[int]:
        """Processes that run user code for this node: its children."""
        children = Path(f"/proc/{self.pid}/task")
        found: list[int] = []
        for task in children.iterdir():
            found.extend(int(pid) for pid in (task / "children").read_text().split())
        return found

    def rss_kib(self) -> int | None:
        """Memory of the node's process in KiB, without its host."""
        if not self.is_running():
            return None
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1])
        return None

    def status(self) -> Status | None:
        """What it says about itself; None when it does not answer."""
        if not self.is_running() or self.is_stopped:
            return None
        return ask(self.admin)

    def last_words(self) -> str:
        """The last line of its log, with the advice behind it, which is indented."""
        lines = self.log.read_text(errors="replace").strip().splitlines()
        said = lines[-2:] if lines and lines[-1].startswith(" ") else lines[-1:]
        return " ".join(line.strip() for line in said) or "(its log is empty)"

    def count_in_log(self, words: str) -> int:
        """How many lines of its log hold these words."""
        return sum(words in line for line in self.log.read_text(errors="replace").splitlines())

    def await_end(self, seconds: float) -> int | None:
        """The exit code of a process that is to end by itself; None when it has not ended in time."""
        if self.process is not None:
            try:
                self.exit_code = self.process.wait(timeout=seconds)
            except subprocess.TimeoutExpired:
                return None
            self.process = None
        return self.exit_code

    def close(self) -> None:
        """End it, whatever state it is in."""
        if self.is_running():
            self.kill()


def ask(admin: str) -> Status | None:
    """What the node with this admin port says about itself; None when nobody answers."""
    try:
        with _NO_PROXY.open(f"http://{admin}/status", timeout=ANSWER_S) as answer:
            return Status.of(json.load(answer))
    except (OSError, urllib.error.URLError, json.JSONDecodeError):
        return None
