"""Faults of the processes that run user code: killed, or standing still."""

from __future__ import annotations

import contextlib
import os
import signal
import threading

import quorate

from fault import Fault, Need, Role, Scene
from member import Member
from waiting import wait_until

SKIPPED_S = 60.0
"""A call that ends hosts is skipped by then: each dies three times, after `group.CALL_TIMEOUT_S` each."""


def _hosts(member: Member) -> list[int]:
    return wait_until(member.host_pids, 10.0, f"a host of node {member.number}")


class HostKilled(Fault):
    """SIGKILL to the host of one node: the node stays up and brings the objects back."""

    needs = (Need.HOST,)
    hold_s = 1.5

    def __init__(self, role: Role) -> None:
        self.name = f"host-kill-{role.value}"
        self._role = role

    def inject(self, scene: Scene) -> None:
        """Kill it."""
        for pid in _hosts(scene.member(self._role)):
            os.kill(pid, signal.SIGKILL)

    def heal(self, scene: Scene) -> None:
        """The node does that itself."""


class HostsKilled(Fault):
    """SIGKILL to every host at once: objects come back from snapshot and log, everywhere."""

    name = "host-kill-all"
    needs = (Need.HOST,)
    hold_s = 1.5
    serves_meanwhile = False

    def inject(self, scene: Scene) -> None:
        """Kill them."""
        for member in scene.group:
            for pid in _hosts(member):
                os.kill(pid, signal.SIGKILL)

    def heal(self, scene: Scene) -> None:
        """The nodes do that themselves."""


class HostHangs(Fault):
    """The host of one node stands still: agreement goes on, that node's objects lag."""

    needs = (Need.HOST,)
    # A client of that node waits as if for a slow method; nobody can tell the two apart.
    serves_meanwhile = False

    def __init__(self, role: Role) -> None:
        self.name = f"host-hang-{role.value}"
        self._role = role
        self._stopped: list[int] = []

    def inject(self, scene: Scene) -> None:
        """Stop it."""
        self._stopped = _hosts(scene.member(self._role))
        for pid in self._stopped:
            os.kill(pid, signal.SIGSTOP)

    def heal(self, scene: Scene) -> None:
        """Let it go on; the node may have replaced it meanwhile."""
        del scene
        for pid in self._stopped:
            try:
                os.kill(pid, signal.SIGCONT)
            except ProcessLookupError:
                continue


class EndlessCall(Fault):
    """A method that never returns: hosts are killed at it, and the group skips the call."""

    name = "endless-call"
    needs = (Need.TEXTS, Need.HOST)
    # Every call waits behind it until it is skipped.
    serves_meanwhile = False
    hold_s = 1.0

    def __init__(self) -> None:
        self._caller: threading.Thread | None = None
        self._ended: list[str] = []

    def inject(self, scene: Scene) -> None:
        """Call it."""

        def call() -> None:
            told = (quorate.NotExecuted, quorate.OutcomeUnknown)
            with (
                contextlib.suppress(*told),
                quorate.connect(scene.group.endpoint, timeout=SKIPPED_S) as shelf,
            ):
                shelf.brood()
                self._ended.append("an endless call returned")

        self._caller = threading.Thread(target=call, daemon=True)
        self._caller.start()

    def heal(self, scene: Scene) -> None:
        """The group skips it by itself."""
        assert self._caller is not None
        self._caller.join(timeout=SKIPPED_S)

    def problems(self, scene: Scene) -> list[str]:
        """Nobody got an answer."""
        del scene
        return self._ended
