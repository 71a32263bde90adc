"""Faults by those who do not belong: silent connections, answers that nobody takes, another cluster."""

from __future__ import annotations

import dataclasses

import quorate

from fault import Fault, Need, Scene
from faults_clients import CrowdFault
from group import Group
from member import Member

ADMIN_SILENT = 200
"""Several times as many connections as the admin port holds."""

HOARDERS, HOARDED, HOARDED_BYTES = 24, 230, 1 << 20
"""Sessions at a time, and their calls, whose answers together are many times what is kept of one session."""

HOARDED_KIB_MAX = 400 << 10
"""256 MiB of kept replies, and half as much again of unread answers and of what is on its way."""


class AdminSilent(CrowdFault):
    """Connections on which nothing is said, at the admin port: it goes on answering."""

    def __init__(self) -> None:
        super().__init__("admin-silent", "silent", ADMIN_SILENT)

    def addresses(self, scene: Scene, victim: Member) -> list[str]:
        """The admin port."""
        return [scene.group.network.admin(victim.number)]

    def problems(self, scene: Scene) -> list[str]:
        """All were made, and the port answers."""
        found = super().problems(scene)
        assert self._victim is not None
        if self._victim.status() is None:
            found.append(f"{self.name}: the admin port of node {self._victim.number} does not answer")
        return found


class Hoard(CrowdFault):
    """Small requests for large answers, 230 a session, which nobody reads or acknowledges."""

    needs = (Need.TEXTS, Need.HOST)
    memory_kib_max = HOARDED_KIB_MAX
    # The lab takes a snapshot every second or two, and each has the kept replies in it.
    p99_times_max = 20.0

    def __init__(self) -> None:
        super().__init__("hoard", "hoard", HOARDERS, HOARDED, HOARDED_BYTES, hold_s=10.0)
        self._filled = 0

    def problems(self, scene: Scene) -> list[str]:
        """The answers were really given."""
        found = super().problems(scene)
        with quorate.connect(scene.group.endpoint, timeout=30.0) as shelf:
            _, self._filled = shelf.counts()
        if self._filled < HOARDED:
            found.append(f"{self.name}: {self._filled} large answers were given: nothing was shown")
        return found

    def note(self) -> str:
        """How much was given, and what it cost."""
        return f"{self._filled} answers of {HOARDED_BYTES >> 20} MiB, {super().note()}"


class OtherCluster(Fault):
    """Another cluster listens at the address of node 1, which is dead: nobody deals with it."""

    name = "other-cluster"
    needs = (Need.DISK, Need.TEXTS, Need.HOST)
    hold_s = 4.0

    def __init__(self) -> None:
        self._other: Group | None = None

    def inject(self, scene: Scene) -> None:
        """Kill it, and start a group of one node there."""
        group = scene.group
        group.members[1].kill()
        directory = group.plan.directory / "other"
        directory.mkdir(exist_ok=True)
        self._other = Group(dataclasses.replace(group.plan, directory=directory, nodes=1), group.network)
        self._other.__enter__()

    def heal(self, scene: Scene) -> None:
        """End it, and start node 1."""
        if self._other is not None:
            self._other.close()
        scene.group.members[1].start()

    def problems(self, scene: Scene) -> list[str]:
        """Nothing was executed there, and its node answers who comes for the first time."""
        del scene
        assert self._other is not None
        with quorate.connect(self._other.endpoint, timeout=10.0) as shelf:
            texts, _ = shelf.counts()
        return [f"{self.name}: {texts} keys were written to the other cluster"] if texts else []
