"""Faults of clients: crowds that take what a node has. Others are served; the node's memory stays bounded."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from checker import ROOT
from crowd import VERSION_FILE, Crowd
from fault import Fault, Role, Scene
from member import Member

MEMORY_KIB = 400 << 10
"""What a crowd may cost a node: 256 MiB of buffers, and as much again as a node has without clients."""


class CrowdFault(Fault):
    """A crowd at the leader; the group serves meanwhile."""

    hold_s = 6.0

    def __init__(self, name: str, attack: Callable[[Crowd], None]) -> None:
        self.name = name
        self._attack = attack
        self._crowd: Crowd | None = None
        self._victim: Member | None = None
        self._before_kib = 0

    def inject(self, scene: Scene) -> None:
        """Let the crowd come."""
        self._victim = scene.member(Role.LEADER)
        self._before_kib = self._victim.rss_kib() or 0
        self._crowd = Crowd(scene.group.network.listen(self._victim.number), version())
        self._attack(self._crowd)

    def heal(self, scene: Scene) -> None:
        """Let it go."""
        del scene
        if self._crowd is not None:
            self._crowd.end()

    def problems(self, scene: Scene) -> list[str]:
        """The node lives, and has not grown beyond its bounds."""
        del scene
        assert self._victim is not None
        if not self._victim.is_running():
            return [f"{self.name}: node {self._victim.number} died"]
        grown = (self._victim.rss_kib() or 0) - self._before_kib
        return [f"{self.name}: {grown} KiB more memory"] if grown > MEMORY_KIB else []


def version() -> int:
    """The version of the wire that nodes of this repository speak."""
    text = (Path(ROOT) / VERSION_FILE).read_text()
    found = re.search(r"pub const VERSION: u16 = (\d+);", text)
    assert found is not None, f"{VERSION_FILE} names no version"
    return int(found[1])


def silent_crowd() -> Fault:
    """1,100 connections on which nothing is said."""
    return CrowdFault("crowd-silent", lambda crowd: crowd.silent(1100))


def half_frames() -> Fault:
    """300 clients whose frames of a mebibyte do not end."""
    return CrowdFault("crowd-half-frames", lambda crowd: crowd.half_frames(300, 1 << 20))


def slow_loris() -> Fault:
    """500 clients that send a byte a second."""
    return CrowdFault("crowd-drips", lambda crowd: crowd.drip(500))


def flood_of_opens() -> Fault:
    """Sessions opened as fast as four threads can ask for them."""
    return CrowdFault("crowd-opens", lambda crowd: crowd.sessions(4))


def flood_of_closes() -> Fault:
    """Closes of other clients' sessions, millions of them."""
    return CrowdFault("crowd-closes", lambda crowd: crowd.closes(4))
