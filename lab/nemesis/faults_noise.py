"""Random bytes at all ports of all nodes, and where a node should be: none dies, grows or believes them."""

from __future__ import annotations

import time

from crowd import AttackProcess
from crowd_sink import SinkProcess
from fault import Fault, Need, Scene
from faults_clients import CrowdFault, version
from member import Member
from waiting import hold

NOISE_LONG_S = 600.0

WARM_UP_S = 5.0
"""Buffers reach their size."""

SAMPLE_EVERY_S = 0.25

GROWN_KIB_MAX = 16 << 10
"""Between the second quarter's peak and the last one's; a snapshot of the lab's object takes less."""

CONNECTIONS_A_SECOND_MIN = 20.0
BYTES_A_SECOND_MIN = 20_000.0
"""At each port: more connections than wait for a node that accepts none come in the shortest run."""

DIALLED_MIN = 4
"""A node is dialled twice a second by each of those with a lower number."""


class Noise(CrowdFault):
    """Random bytes at the port of clients and peers, and at the admin port, of every node."""

    calm_s = 6.0

    def __init__(self, name: str, seconds: float, seed: int = 1) -> None:
        super().__init__(name, "noise", hold_s=WARM_UP_S)
        self.is_long = seconds >= NOISE_LONG_S
        self._seconds = seconds - WARM_UP_S
        self._seed = seed
        self._began_ns = 0
        self._told = ""
        self._ports_of: dict[str, AttackProcess] = {}

    def compare(self, scene: Scene) -> None:
        """The same senders, at a process that only reads: two processors are busy then and now."""
        sink = SinkProcess()
        crowds = self._crowd(scene, dict.fromkeys(self._ports(scene), sink.address))
        hold(self.calm_s)
        for crowd in crowds.values():
            crowd.end()
        sink.end()

    def inject(self, scene: Scene) -> None:
        """Make noise."""
        self._before_kib = {member.number: member.rss_kib() or 0 for member in scene.group}
        self._began_ns = time.monotonic_ns()
        self._ports_of = self._crowd(scene, self._ports(scene))
        self._crowds = list(self._ports_of.values())

    def problems(self, scene: Scene) -> list[str]:
        """Each port heard enough, and no node holds more late than early."""
        samples = watch_kib(scene, self._seconds)
        found = super().problems(scene)
        grown = 0
        for number, kib in samples.items():
            early, late = peaks_early_and_late(kib)
            grown = max(grown, late - early)
            if late > early + GROWN_KIB_MAX:
                found.append(f"{self.name}: node {number} grows, from {early} to {late} KiB")
        seconds = (time.monotonic_ns() - self._began_ns) / 1e9
        made = {port: crowd.count("connections") / seconds for port, crowd in self._ports_of.items()}
        sent = {port: crowd.count("bytes") / seconds for port, crowd in self._ports_of.items()}
        for port, rate in made.items():
            if rate < CONNECTIONS_A_SECOND_MIN or sent[port] < BYTES_A_SECOND_MIN:
                found.append(
                    f"{self.name}: only {rate:.0f} connections/s, {sent[port]:.0f} bytes/s at {port}"
                )
        rates = f"{min(made.values()):.0f} connections/s and {min(sent.values()) / 1000:.0f} kB/s"
        self._told = f"each port heard {rates} or more, memory late less early {grown} KiB or less"
        return found

    def note(self) -> str:
        """What each port heard."""
        return self._told

    @staticmethod
    def _ports(scene: Scene) -> dict[str, str]:
        network = scene.group.network
        ports = {f"node {member.number}": network.listen(member.number) for member in scene.group}
        admin = {f"admin port {member.number}": network.admin(member.number) for member in scene.group}
        return ports | admin

    def _crowd(self, scene: Scene, ports: dict[str, str]) -> dict[str, AttackProcess]:
        cluster = int(scene.group.cluster, 16)
        lowest = min(member.number for member in scene.group)
        # A node is dialled by those with lower numbers.
        numbers = (1, self._seed, cluster, lowest)
        return {port: AttackProcess(address, version(), "noise", *numbers) for port, address in ports.items()}


class Impostor(Fault):
    """Somebody listens at a dead follower's address, and answers the others with what a node could say."""

    name = "crowd-impostor"
    needs = (Need.DISK,)
    hold_s = 6.0

    def __init__(self) -> None:
        self._victim: Member | None = None
        self._impostor: AttackProcess | None = None
        self._links = 0
        self._dialled = 0

    def inject(self, scene: Scene) -> None:
        """Kill the follower with the highest number, and listen there."""
        self._victim = max(scene.group.followers(), key=lambda member: member.number)
        self._victim.kill()
        self._links = self._count_links(scene)
        number = self._victim.number
        network = scene.group.network
        self._impostor = AttackProcess(
            network.listen(number), version(), "impostor", 1, prefix=network.prefix(number)
        )

    def heal(self, scene: Scene) -> None:
        """Stop listening, and start the follower."""
        del scene
        assert self._victim is not None
        if self._impostor is not None:
            self._impostor.end()
        self._victim.start()

    def problems(self, scene: Scene) -> list[str]:
        """The others dialled it, and believed nothing."""
        assert self._impostor is not None
        found = []
        for member in scene.group:
            if member is not self._victim and not member.is_running():
                found.append(f"{self.name}: node {member.number} died")
            if member.count_in_log("panicked"):
                found.append(f"{self.name}: node {member.number} panicked")
        self._dialled = self._impostor.count("connections")
        if self._dialled < DIALLED_MIN:
            found.append(f"{self.name}: dialled {self._dialled} times: nothing was shown")
        if self._count_links(scene) > self._links:
            found.append(f"{self.name}: a link to it stands")
        return found

    def note(self) -> str:
        """How often somebody came."""
        return f"dialled {self._dialled} times"

    def _count_links(self, scene: Scene) -> int:
        assert self._victim is not None
        up = f"peer=n{self._victim.number} "
        lines = (line for member in scene.group for line in member.log.read_text().splitlines())
        return sum("link up" in line and up in line for line in lines)


def watch_kib(scene: Scene, seconds: float) -> dict[int, list[int]]:
    """The memory of every node, sampled for so long."""
    samples: dict[int, list[int]] = {member.number: [] for member in scene.group}
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        hold(SAMPLE_EVERY_S)
        for member in scene.group:
            samples[member.number].append(member.rss_kib() or 0)
    return samples


def peaks_early_and_late(samples: list[int]) -> tuple[int, int]:
    """The highest of the second quarter, and of the last."""
    quarter = max(1, len(samples) // 4)
    return max(samples[quarter : 2 * quarter] or samples), max(samples[-quarter:])


def noise() -> Fault:
    """Random bytes for half a minute."""
    return Noise("noise", 30.0)


def noise_long() -> Fault:
    """Random bytes for ten minutes."""
    return Noise("noise-long", NOISE_LONG_S)
