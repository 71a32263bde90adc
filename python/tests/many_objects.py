"""A group of three nodes that serves many objects, with the faults of `quorate.local`.

`quorate up` serves one object; this makes the nodes from a configuration, as on several machines.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self

import pytest

from quorate import LocalGroup
from quorate._local_group import Plan
from quorate._program import program

NODES = (1, 2, 3)
CLUSTER = "5d1c60f07f2a4e93"
PORTS = range(20_000, 32_000)
"""Below those that systems hand out by themselves: a node that was killed finds its own free."""

HERE = Path(__file__).parent


class ManyObjects(LocalGroup[Any]):
    """Objects by name, each with its class in a module beside the tests. What they hold is on disk."""

    def __init__(self, classes: Mapping[str, type], timeout: float) -> None:
        self._classes = dict(classes)
        first = next(iter(classes.values()))
        super().__init__(Plan(first, "", ("[]", "{}"), len(NODES), "disk", timeout, ()))

    def start(self) -> Self:
        """Start the nodes; `close` ends them."""
        with contextlib.ExitStack() as block:
            directory = Path(block.enter_context(tempfile.TemporaryDirectory(prefix="quorate-")))
            block.callback(self._end_own)
            listens, admins = _addresses(), _addresses()
            incarnations = [_made(directory, node) for node in NODES]
            members = "".join(
                f'[[members]]\nnode = {node}\nincarnation = "{incarnation}"\naddress = "{listen}"\n'
                for node, incarnation, listen in zip(NODES, incarnations, listens, strict=True)
            )
            for node, listen, admin in zip(NODES, listens, admins, strict=True):
                head = (
                    f'cluster = "{CLUSTER}"\nnode = {node}\ndir = "{directory / f"node-{node}"}"\n'
                    f'listen = "{listen}"\nadmin = "{admin}"\npersist = "disk"\npython = "{sys.executable}"\n'
                )
                text = head + "".join(map(self._object, self._classes)) + members
                (directory / f"node-{node}.toml").write_text(text)
            self._ready = {
                "dir": str(directory),
                "endpoint": f"quorate://{','.join(listens)}",
                "nodes": [{"id": node, "admin": admin} for node, admin in zip(NODES, admins, strict=True)],
            }
            for node in NODES:
                self._run(directory, node)
            self._await(lambda: all(map(self._serves, NODES)), "not all nodes serve")
            self._block = block.pop_all()
        return self

    def endpoint_of(self, name: str) -> str:
        """Where clients of one object connect."""
        return f"{self.endpoint}/{name}"

    def _object(self, name: str) -> str:
        cls = self._classes[name]
        return f'[[objects]]\nname = "{name}"\nclass = "{cls.__module__}:{cls.__name__}"\npath = ["{HERE}"]\n'

    def _run(self, directory: Path, node: int) -> None:
        command = [program(), "node", "run", "--config", str(directory / f"node-{node}.toml")]
        command += ["--supervised-by", str(os.getpid())]
        with (directory / f"node-{node}.log").open("ab") as log:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self._own[node], self._pids[node] = process, process.pid


@contextlib.contextmanager
def killer(group: LocalGroup[Any], every: float) -> Iterator[list[int]]:
    """Kill the leader of a group again and again, and start it again; gives the nodes that were killed."""
    killed: list[int] = []
    failed: list[BaseException] = []
    ends = threading.Event()

    def kill() -> None:
        try:
            while not ends.wait(every):
                victim = group.leader
                group.kill(victim)
                killed.append(victim)
                group.restart(victim)
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=kill, name="killer")
    thread.start()
    try:
        yield killed
    finally:
        ends.set()
        thread.join()
    if failed:
        pytest.fail(f"the group did not go on: {failed[0]!r}")


def _made(directory: Path, node: int) -> str:
    """Make the directory of a node; its incarnation."""
    command = [program(), "node", "init", "--dir", str(directory / f"node-{node}"), "--node", str(node)]
    done = subprocess.run(
        [*command, "--cluster", CLUSTER, "-o", "json"], capture_output=True, text=True, check=True
    )
    return str(json.loads(done.stdout)["incarnation"])


def _addresses() -> list[str]:
    """An address for each node whose port nobody uses."""
    with contextlib.ExitStack() as held:
        found: list[str] = []
        while len(found) < len(NODES):
            bound = held.enter_context(socket.socket())
            with contextlib.suppress(OSError):
                bound.bind(("127.0.0.1", random.choice(PORTS)))
                found.append(f"127.0.0.1:{bound.getsockname()[1]}")
    return found
