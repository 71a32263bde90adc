"""Faults of the network: silence between nodes, or between nodes and clients, in one direction or both."""

from __future__ import annotations

from fault import Fault, Need, Role, Scene
from member import Member
from network import CLIENTS, Namespaces, cut_both_ways
from waiting import hold

CAUGHT_UP_S = 20.0
"""Two seconds of the lab's load are less than a megabyte: a second at that rate."""


class NetworkFault(Fault):
    """A fault that cuts and is healed by mending every cut."""

    needs = (Need.NAMESPACES,)
    hold_s = 4.0

    def heal(self, scene: Scene) -> None:
        """Mend every cut."""
        scene.group.network.heal()


class Cut(NetworkFault):
    """One node hears nobody and is heard by nobody, clients included: its cable is out."""

    def __init__(self, role: Role) -> None:
        self.name = f"cut-{role.value}"
        self._role = role

    def inject(self, scene: Scene) -> None:
        """Cut it from all."""
        victim = scene.member(self._role)
        cut_both_ways(scene.group.network, [victim.number], [CLIENTS, *scene.others(victim)])


class Split(NetworkFault):
    """The leader is cut from the other nodes, and talks to clients: it must not answer from the past."""

    name = "split-leader"

    def inject(self, scene: Scene) -> None:
        """Cut it from the nodes."""
        leader = scene.member(Role.LEADER)
        cut_both_ways(scene.group.network, [leader.number], scene.others(leader))


class Deaf(NetworkFault):
    """The leader is heard by the nodes and hears none of them."""

    name = "deaf-leader"

    def inject(self, scene: Scene) -> None:
        """Lose what the others send to it."""
        leader = scene.member(Role.LEADER)
        for other in scene.others(leader):
            scene.group.network.cut(other, leader.number)


class Mute(NetworkFault):
    """The leader hears the nodes and is heard by none of them."""

    name = "mute-leader"

    def inject(self, scene: Scene) -> None:
        """Lose what it sends to the others."""
        leader = scene.member(Role.LEADER)
        for other in scene.others(leader):
            scene.group.network.cut(leader.number, other)


class Bridge(NetworkFault):
    """The leader and one follower do not hear each other, both hear the rest: elections must end."""

    name = "bridge"

    def inject(self, scene: Scene) -> None:
        """Cut one pair."""
        leader, follower = scene.member(Role.LEADER), scene.member(Role.FOLLOWER)
        cut_both_ways(scene.group.network, [leader.number], [follower.number])


class SlowLink(Fault):
    """A follower comes back over a link of 8 Mbit/s, and catches up; `catchup.py` measures how fast."""

    name = "slow-link-follower"
    needs = (Need.NAMESPACES, Need.DISK)
    hold_s = 4.0

    def __init__(self) -> None:
        self._victim: Member | None = None

    def prepare(self, scene: Scene) -> None:
        """Let it miss something."""
        self._victim = scene.member(Role.FOLLOWER)
        self._victim.kill()
        hold(2.0)

    def inject(self, scene: Scene) -> None:
        """Start it again over a narrow link."""
        assert self._victim is not None
        assert isinstance(scene.group.network, Namespaces)
        scene.group.network.narrow(self._victim.number, 8.0)
        self._victim.start()

    def problems(self, scene: Scene) -> list[str]:
        """It is whole while the link is narrow, and no link was dropped as too slow."""
        scene.group.wait_whole(CAUGHT_UP_S)
        slow = sum(status.slow_peers for status in scene.group.statuses().values())
        return [f"{slow} links were dropped as too slow"] if slow else []

    def heal(self, scene: Scene) -> None:
        """The link is wide again."""
        assert self._victim is not None
        assert isinstance(scene.group.network, Namespaces)
        scene.group.network.widen(self._victim.number)
