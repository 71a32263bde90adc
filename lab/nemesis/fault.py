"""What every fault is: done to a running group, kept up for a while, and healed.

A fault says of itself whether a majority is left that must serve meanwhile, and what it needs from the
machine. It touches the group through `Group` and nothing else, and waits only with a bound.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

from disks import FlushShim, SmallDisk
from group import Group
from member import Member
from waiting import hold


class Need(Enum):
    """What a fault cannot do without."""

    NAMESPACES = "network namespaces (root, or user namespaces)"
    SMALL_DISK = "a small file system mounted for each node (root, or user namespaces)"
    SHIM = "a C compiler for the flush shim"
    HOST = "a Python object (--object shelf or bank:Account)"
    TEXTS = "an object of texts, to fill disks with (--object shelf or rust:kv)"
    DISK = "--persist disk: what a node remembers when it comes back is on a disk"
    MEMORY = "a group of its own with --persist memory"


class Role(Enum):
    """Which node is hit."""

    LEADER = "leader"
    FOLLOWER = "follower"
    RANDOM = "random"


@dataclass
class Scene:
    """The group under faults, and what the machine provided for it."""

    group: Group
    rng: random.Random
    shim: FlushShim | None = None
    disks: dict[int, SmallDisk] = field(default_factory=dict)

    def member(self, role: Role) -> Member:
        """The node that a role means at this moment."""
        if role is Role.LEADER:
            return self.group.leader()
        if role is Role.FOLLOWER:
            return self.rng.choice(self.group.followers())
        return self.rng.choice([member for member in self.group if member.is_running()])

    def others(self, member: Member) -> list[int]:
        """The numbers of all other nodes."""
        return [other.number for other in self.group if other is not member]


class Fault(ABC):
    """One kind of fault; a fresh one is made each time it happens."""

    name: str
    needs: Sequence[Need] = ()
    hold_s: float = 2.5
    """How long it lasts: longer than a lease and an election together."""
    serves_meanwhile: bool = True
    """Whether a healthy connected majority is left, which must serve before the fault is healed."""

    calm_s: float = 0.0
    """How long calls are watched before it, to compare with."""
    p99_times_max: float | None = None
    """How many times as long 99 of 100 calls may take while it lasts."""

    is_long: bool = False
    """Whether it takes minutes: met only when it is named, or with `--long`."""

    def prepare(self, scene: Scene) -> None:
        """Bring the group to where the fault can happen; no part of the fault."""
        del scene

    def compare(self, scene: Scene) -> None:
        """Let calls run that those under the fault are compared with."""
        del scene
        hold(self.calm_s)

    @abstractmethod
    def inject(self, scene: Scene) -> None:
        """Do it."""

    @abstractmethod
    def heal(self, scene: Scene) -> None:
        """Undo it; the group is whole again a little later."""

    def problems(self, scene: Scene) -> list[str]:
        """What the fault itself should have shown and did not; asked just before it is healed."""
        del scene
        return []

    def note(self) -> str:
        """What was counted, for the line of the verdict; asked after `problems`."""
        return ""
