"""What an operator does to replace a machine: invites, lets a new node join, and has an old one leave.

Only commands that people type are used, with the addresses of the members at that moment. A command that says
that it may be repeated is repeated, which is noted. Nothing here is judged.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from group import Group
from member import Member
from waiting import NeverHappened, wait_until

JOIN_S = 90.0
LEAVE_S = 60.0
"""A change waits for the leader and for a snapshot of the view before, on a loaded machine for long."""

TRIES_MAX = 5
NO_QUORUM, TIMED_OUT = 4, 5
"""Exit codes of commands that may be repeated."""

JOINED = "has joined in view"
REFUSED_START = 7
"""Exit code of a node that starts and is no member any more."""


class Joining(Member):
    """A node that `quorate node join` runs: the command's process is the parent of the node's."""

    def kill(self) -> None:
        """SIGKILL to the node itself; the command would ask it to end in good order."""
        # The command ends by itself once its node is gone.
        self.may_end = True
        for pid in self.host_pids():
            os.kill(pid, signal.SIGKILL)
        super().kill()


@dataclass
class Operator:
    """Changes the members of one group, one at a time."""

    group: Group
    repeats: list[str] = field(default_factory=list)
    """Commands that were repeated, and why."""

    def join(self, number: int, meanwhile: Callable[[], None]) -> None:
        """Let a new node join; `meanwhile` happens while its command runs."""
        token = self._told("node", "invite")["token"]
        member = self._new(number, token)
        member.start()
        # From here on it is ended with the group.
        self.group.joining = member
        meanwhile()
        for _ in range(TRIES_MAX):
            code = self._await_joined(member)
            if code is None:
                self.group.admit(member)
                member.command = [*self.group.network.prefix(number), *self._later_start(number)]
                return
            if code not in (NO_QUORUM, TIMED_OUT):
                break
            self.repeats.append(f"join of node {number} ended with {code}: {member.last_words()}")
            member.start()
        raise NeverHappened(f"node {number} did not join: {member.last_words()}")

    def remove(self, number: int, meanwhile: Callable[[], None]) -> Member:
        """Have a member leave; returns it once the view without it is in force."""
        member = self.group.members[number]
        member.may_end = True
        for attempt in range(TRIES_MAX):
            words = ["view", "remove", str(number), "--timeout", str(LEAVE_S)]
            command = subprocess.Popen(
                self._command(*words), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
            if attempt == 0:
                meanwhile()
            _, said = command.communicate(timeout=2 * LEAVE_S)
            # A repeated command finds that the first one has come true.
            is_gone = attempt > 0 and number not in self.members()
            if command.returncode == 0 or is_gone:
                del self.group.members[number]
                return member
            if command.returncode not in (NO_QUORUM, TIMED_OUT):
                break
            self.repeats.append(f"remove {number} ended with {command.returncode}: {said.strip()}")
        raise NeverHappened(f"view remove {number}: {said.strip()}")

    def members(self) -> dict[int, list[str]]:
        """The members as `quorate view show` tells them, and their roles."""
        return {member["node"]: member["roles"] for member in self._told("view", "show")["members"]}

    def _await_joined(self, member: Member) -> int | None:
        """None once it has joined, else the exit code of the command."""

        def answer() -> tuple[int | None] | None:
            if member.count_in_log(JOINED):
                return (None,)
            assert member.process is not None
            code = member.process.poll()
            if code is None:
                return None
            member.process = None
            return (code,)

        return wait_until(answer, 2 * JOIN_S, f"an end of the join of node {member.number}")[0]

    def _new(self, number: int, token: str) -> Member:
        group, network = self.group, self.group.network
        directory = group.directory_of(number)
        directory.parent.mkdir(parents=True)
        words = ["--token", token, "--dir", str(directory), "--node", str(number), "--insecure"]
        words += ["--listen", network.listen(number), "--admin", network.admin(number)]
        words += ["--python", sys.executable, "--timeout", str(JOIN_S)]
        for path in group.plan.served.path:
            words += ["--path", str(path)]
        # The command dies with the lab, and the node with the command.
        bound = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []
        log = group.plan.directory / f"node{number}.log"
        return Joining(
            number=number,
            directory=directory,
            config=directory / "node.toml",
            log=log,
            admin=network.admin(number),
            command=[*network.prefix(number), *bound, *self._command("node", "join", *words, form="table")],
            environment=dict(os.environ),
        )

    def _later_start(self, number: int) -> list[str]:
        config = self.group.directory_of(number) / "node.toml"
        command = [self.group.plan.quorate, "node", "run", "--config", str(config)]
        return [*command, "--supervised-by", str(os.getpid())]

    def _told(self, *words: str) -> dict[str, Any]:
        for _ in range(TRIES_MAX):
            done = subprocess.run(self._command(*words), capture_output=True, text=True, check=False)
            if done.returncode == 0:
                document: dict[str, Any] = json.loads(done.stdout)
                return document
            if done.returncode not in (NO_QUORUM, TIMED_OUT):
                break
            self.repeats.append(f"{' '.join(words)} ended with {done.returncode}: {done.stderr.strip()}")
        raise NeverHappened(f"{' '.join(words)}: {done.stderr.strip()}")

    def _command(self, *words: str, form: str = "json") -> list[str]:
        return [self.group.plan.quorate, *words, "-o", form, "--endpoint", self.group.endpoint]
