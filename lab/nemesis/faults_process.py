"""Faults of processes: killed, stopped, ended politely, all at once."""

from __future__ import annotations

import time

from fault import Fault, Need, Role, Scene
from member import Member
from waiting import wait_until

LEFT_BEHIND_S = 20.0
"""Several snapshots' time at the pace of the lab's load."""

FETCHED_BYTES = 4 << 20
"""A node that has just started and read so much is fetching a snapshot."""

INSTALLED = "installed a peer's snapshot"
"""What a node logs when it has installed one."""

VOTES_AGAIN_S = 10.0
"""A start, the snapshot, and one change of the view, which is asked for again each second."""


class Kill(Fault):
    """SIGKILL to one node, started again afterwards."""

    needs = (Need.DISK,)

    def __init__(self, role: Role, hold_s: float = 2.5) -> None:
        self.name = f"kill-{role.value}"
        self.hold_s = hold_s
        self._role = role
        self._victim: Member | None = None

    def inject(self, scene: Scene) -> None:
        """Kill."""
        self._victim = scene.member(self._role)
        self._victim.kill()

    def heal(self, scene: Scene) -> None:
        """Start the node on its own directory."""
        del scene
        assert self._victim is not None
        self._victim.start()


class KillDuringInstall(Kill):
    """SIGKILL to the leader while a follower installs the snapshot that it needs to come back.

    The state must be large: a small one is installed before anybody can be killed.
    """

    def __init__(self) -> None:
        super().__init__(Role.LEADER, hold_s=2.0)
        self.name = "kill-leader-during-install"
        self._was_early = False

    def prepare(self, scene: Scene) -> None:
        """Leave a follower behind the trimmed log, start it, and wait until it fetches a snapshot."""
        late = scene.member(Role.FOLLOWER)
        status = wait_until(late.status, 5.0, f"the status of node {late.number}")
        late.kill()
        scene.group.take_snapshot()
        trimmed = f"a log trimmed above slot {status.decided}"
        wait_until(lambda: scene.group.trimmed() > status.decided, LEFT_BEHIND_S, trimmed)
        self._victim = scene.member(Role.LEADER)
        installs = late.count_in_log(INSTALLED)
        late.start()

        def fetches() -> bool:
            status = late.status()
            return status is not None and status.bytes_in >= FETCHED_BYTES

        wait_until(fetches, LEFT_BEHIND_S, f"a fetching node {late.number}")
        self._was_early = late.count_in_log(INSTALLED) > installs

    def inject(self, scene: Scene) -> None:
        """Kill the leader as it was."""
        del scene
        assert self._victim is not None
        self._victim.kill()

    def problems(self, scene: Scene) -> list[str]:
        """The leader was killed before the snapshot was installed."""
        del scene
        return ["the snapshot was installed too early: the state is too small"] if self._was_early else []


class Lag(Fault):
    """One follower is dead until the others have trimmed what it misses: it needs a snapshot of theirs."""

    name = "lag-follower"
    needs = (Need.DISK,)
    hold_s = 1.0

    def __init__(self) -> None:
        self._victim: Member | None = None

    def inject(self, scene: Scene) -> None:
        """Kill it, and wait until its place in the log is gone."""
        self._victim = scene.member(Role.FOLLOWER)
        status = wait_until(self._victim.status, 5.0, f"the status of node {self._victim.number}")
        self._victim.kill()
        trimmed = f"a log trimmed above slot {status.decided}"
        wait_until(lambda: scene.group.trimmed() > status.decided, LEFT_BEHIND_S, trimmed)

    def heal(self, scene: Scene) -> None:
        """Start it again."""
        del scene
        assert self._victim is not None
        self._victim.start()


class Forget(Fault):
    """A follower without a disk is killed and comes back without its votes: it votes in a newer view."""

    name = "forget-follower"
    needs = (Need.MEMORY,)

    def __init__(self) -> None:
        self._victim: Member | None = None
        self._view = 0
        self._took_s = 0.0

    def inject(self, scene: Scene) -> None:
        """Kill it and start it at once."""
        self._victim = scene.member(Role.FOLLOWER)
        status = wait_until(self._victim.status, 5.0, f"the status of node {self._victim.number}")
        self._view = status.view
        self._victim.kill()
        killed_ns = time.monotonic_ns()
        self._victim.start()
        number = self._victim.number
        wait_until(self._votes, VOTES_AGAIN_S, f"a vote of node {number}, which forgot its own,")
        self._took_s = (time.monotonic_ns() - killed_ns) / 1e9

    def heal(self, scene: Scene) -> None:
        """It came back by itself."""

    def problems(self, scene: Scene) -> list[str]:
        """It votes, and in no view in which an earlier life of it may have voted."""
        del scene
        assert self._victim is not None
        status = wait_until(self._victim.status, 5.0, f"the status of node {self._victim.number}")
        if status.view <= self._view:
            return [f"a node that forgot its votes votes on in view {status.view}"]
        return [] if self._votes() else [f"it is {' and '.join(status.roles)} again"]

    def note(self) -> str:
        """How long it took."""
        return f"voted again after {self._took_s:.1f} s"

    def _votes(self) -> bool:
        assert self._victim is not None
        status = self._victim.status()
        return status is not None and "acceptor" in status.roles and "observer" not in status.roles


class KillAll(Fault):
    """SIGKILL to every node at once: what was acknowledged must come back from the disks."""

    name = "kill-all"
    needs = (Need.DISK,)
    hold_s = 0.5
    serves_meanwhile = False

    def inject(self, scene: Scene) -> None:
        """Kill all."""
        for member in scene.group:
            member.kill()

    def heal(self, scene: Scene) -> None:
        """Start all."""
        for member in scene.group:
            member.start()


class Stop(Fault):
    """SIGSTOP to one node, longer than any lease, then SIGCONT: it wakes and knows of no time passed."""

    def __init__(self, role: Role, hold_s: float = 3.0) -> None:
        self.name = f"stop-{role.value}"
        self.hold_s = hold_s
        self._role = role
        self._victim: Member | None = None

    def inject(self, scene: Scene) -> None:
        """Stop."""
        self._victim = scene.member(self._role)
        self._victim.stop()

    def heal(self, scene: Scene) -> None:
        """Let it go on."""
        del scene
        assert self._victim is not None
        self._victim.resume()


class Terminate(Fault):
    """SIGTERM to the leader: it hands its leadership over, drains, and ends with 0."""

    name = "terminate-leader"
    needs = (Need.DISK,)
    hold_s = 1.0

    def __init__(self) -> None:
        self._victim: Member | None = None
        self._code = 0

    def inject(self, scene: Scene) -> None:
        """Ask it to end, and wait until it has."""
        self._victim = scene.member(Role.LEADER)
        self._code = self._victim.terminate()

    def heal(self, scene: Scene) -> None:
        """Start it again."""
        del scene
        assert self._victim is not None
        self._victim.start()

    def problems(self, scene: Scene) -> list[str]:
        """A polite end has the exit code 0."""
        del scene
        return [] if self._code == 0 else [f"SIGTERM ended the leader with {self._code}, not 0"]
