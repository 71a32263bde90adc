"""Faults of the network: silence between nodes, or between nodes and clients, in one direction or both."""

from __future__ import annotations

from fault import Fault, Need, Role, Scene
from network import CLIENTS, cut_both_ways


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
