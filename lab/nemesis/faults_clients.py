"""Faults of clients: crowds that take what a node has. Others are served; the node's memory stays bounded."""

from __future__ import annotations

import re
import time
from pathlib import Path

from checker import ROOT
from crowd import VERSION_FILE, AttackProcess
from crowd_sink import SinkProcess
from fault import Fault, Need, Role, Scene
from member import Member
from waiting import NeverHappened, wait_until

MEMORY_KIB = 400 << 10
"""What a crowd may cost a node: 256 MiB of buffers, and as much again as a node has without clients."""


P99_TIMES_MAX = 3.0
"""What a crowd may make of the time that 99 of 100 calls of other clients take."""

MADE_ONCE = ("silent", "idle", "half-frames", "drips")
"""Attacks whose first number says how many connections they make."""

CLOSES_MIN = 4_000_000
CLOSES_S = 600.0

OPENERS = 8
OPENS_TOLD = ("sent", "opened", "refused", "full", "connections")
OPENED_A_SECOND_MIN = 3_200
"""Half of what a node admits: four connections with 1,600 each, or more with less."""

HALF_FRAMES = (300, 1 << 20)
"""Clients, and the bytes of the frame that each does not end."""

HALF_FRAMES_KIB = 128 << 10
"""What they may cost: 32 MiB of frames, what 300 first reads bring, and as much again that was given back."""

FILES = 400
"""Files that a node may open which is to run out of them."""


class CrowdFault(Fault):
    """A crowd at the leader; the group serves meanwhile."""

    hold_s = 6.0
    calm_s = 4.0
    p99_times_max: float | None = P99_TIMES_MAX
    memory_kib_max = MEMORY_KIB

    def __init__(self, name: str, attack: str, *numbers: int, hold_s: float = 6.0) -> None:
        self.name = f"crowd-{name}"
        self.hold_s = hold_s
        self._attack = attack
        self._numbers = numbers
        self._crowds: list[AttackProcess] = []
        self._victim: Member | None = None
        self._before_kib: dict[int, int] = {}
        self.grown_kib: dict[int, int] = {}

    def inject(self, scene: Scene) -> None:
        """Let the crowd come."""
        self._victim = scene.member(Role.LEADER)
        self._before_kib = {member.number: member.rss_kib() or 0 for member in scene.group}
        addresses = self.addresses(scene, self._victim)
        self._crowds = [
            AttackProcess(address, version(), self._attack, *self._numbers) for address in addresses
        ]

    def addresses(self, scene: Scene, victim: Member) -> list[str]:
        """Where the crowd goes."""
        return [scene.group.network.listen(victim.number)]

    def heal(self, scene: Scene) -> None:
        """Let it go."""
        del scene
        for crowd in self._crowds:
            crowd.end()

    def problems(self, scene: Scene) -> list[str]:
        """Every node lives, has not panicked, and has not grown beyond its bounds."""
        found = []
        for member in scene.group:
            name = f"{self.name}: node {member.number}"
            if not member.is_running():
                found.append(f"{name} died")
                continue
            if member.count_in_log("panicked"):
                found.append(f"{name} panicked")
            grown = (member.rss_kib() or 0) - self._before_kib[member.number]
            self.grown_kib[member.number] = grown
            if grown > self.memory_kib_max:
                found.append(f"{name} has {grown} KiB more memory")
        made = sum(crowd.count("connections") for crowd in self._crowds)
        if self._attack in MADE_ONCE and made < self._numbers[0]:
            found.append(f"{self.name}: only {made} of {self._numbers[0]} connections were made")
        return found

    def note(self) -> str:
        """What it cost in memory."""
        return f"{max(self.grown_kib.values(), default=0) >> 10} MiB more memory at most"


class Idle(CrowdFault):
    """9,900 clients that have said hello and say nothing more: the places of one address, but for a few."""

    memory_kib_max = 9_900 * 8 + (16 << 10)

    def __init__(self) -> None:
        super().__init__("idle", "idle", 9_900)

    def problems(self, scene: Scene) -> list[str]:
        """The node has all of them."""
        assert self._victim is not None
        status = wait_until(self._victim.status, 5.0, f"the status of node {self._victim.number}")
        found = super().problems(scene)
        if status.connections < self._numbers[0]:
            found.append(f"{self.name}: node {self._victim.number} has {status.connections} connections")
        return found


class HalfFramesElsewhere(CrowdFault):
    """The crowd of half frames, aimed at a process that only reads: what the busy machine costs calls."""

    is_long = True
    p99_times_max = float("inf")

    def __init__(self) -> None:
        super().__init__("half-frames-elsewhere", "half-frames", *HALF_FRAMES)
        self._sink: SinkProcess | None = None

    def addresses(self, scene: Scene, victim: Member) -> list[str]:
        """The sink's."""
        del scene, victim
        self._sink = SinkProcess()
        return [self._sink.address]

    def heal(self, scene: Scene) -> None:
        """Let the crowd go, and the sink."""
        super().heal(scene)
        if self._sink is not None:
            self._sink.end()


class Opens(CrowdFault):
    """Sessions opened as fast as eight threads can ask for them, on eight connections."""

    def __init__(self) -> None:
        super().__init__("opens", "opens", OPENERS)
        self._began_ns = 0
        self._told = ""

    def inject(self, scene: Scene) -> None:
        """Let them ask."""
        super().inject(scene)
        self._began_ns = time.monotonic_ns()

    def problems(self, scene: Scene) -> list[str]:
        """Opens were answered, sessions really opened, and no connection ended for what it sent."""
        seconds = (time.monotonic_ns() - self._began_ns) / 1e9
        counts = {what: sum(crowd.count(what) for crowd in self._crowds) for what in OPENS_TOLD}
        rates = {what: count / seconds for what, count in counts.items()}
        self._told = ", ".join(
            f"{what} {rate:.0f}/s" for what, rate in rates.items() if what != "connections"
        )
        found = super().problems(scene)
        if counts["connections"] != OPENERS:
            found.append(f"{counts['connections']} connections were made, not {OPENERS}: opens ended them")
        if rates["opened"] < OPENED_A_SECOND_MIN:
            found.append(f"no flood: {self._told}")
        return found

    def note(self) -> str:
        """What was asked and answered, and what it cost."""
        return f"{self._told}, {super().note()}"


class MillionsOfCloses(CrowdFault):
    """So many closes that anything kept of each would show."""

    is_long = True

    def __init__(self) -> None:
        super().__init__("closes-millions", "closes", 32)

    def problems(self, scene: Scene) -> list[str]:
        """All were answered, and no more memory is held than for a few."""
        early_kib = self._victim.rss_kib() or 0 if self._victim else 0

        def answered() -> int:
            return sum(crowd.count("refused") for crowd in self._crowds)

        found = []
        try:
            wait_until(lambda: answered() >= CLOSES_MIN, CLOSES_S, "the last answer")
        except NeverHappened:
            found.append(f"{self.name}: {answered()} of {CLOSES_MIN} closes were answered in {CLOSES_S} s")
        found += super().problems(scene)
        late_kib = self._victim.rss_kib() or 0 if self._victim else 0
        if late_kib > early_kib + (64 << 10):
            found.append(f"{self.name}: memory rises, from {early_kib} to {late_kib} KiB")
        return found


class Descriptors(CrowdFault):
    """A crowd at a leader that may open few files: log and peers keep theirs."""

    needs = (Need.DISK,)
    p99_times_max = None

    def __init__(self) -> None:
        super().__init__("descriptors", "silent", 2 * FILES)
        self._commands: dict[int, list[str]] = {}

    def prepare(self, scene: Scene) -> None:
        """Start all nodes again with few files."""
        for member in scene.group:
            self._commands[member.number] = member.command
            self._restart(scene, member, ["prlimit", f"--nofile={FILES}", *member.command])

    def heal(self, scene: Scene) -> None:
        """Let the crowd go, and start the nodes as they were: those that were started otherwise."""
        super().heal(scene)
        for member in scene.group:
            if member.number in self._commands:
                self._restart(scene, member, self._commands.pop(member.number))

    @staticmethod
    def _restart(scene: Scene, member: Member, command: list[str]) -> None:
        member.terminate()
        member.command = command
        member.start()
        scene.group.wait_whole(30.0)


def version() -> int:
    """The version of the wire that nodes of this repository speak."""
    text = (Path(ROOT) / VERSION_FILE).read_text()
    found = re.search(r"pub const VERSION: u16 = (\d+);", text)
    assert found is not None, f"{VERSION_FILE} names no version"
    return int(found[1])


def silent_crowd() -> Fault:
    """1,100 connections on which nothing is said."""
    return CrowdFault("silent", "silent", 1100)


def half_frames() -> Fault:
    """300 clients whose frames of a mebibyte do not end."""
    fault = CrowdFault("half-frames", "half-frames", *HALF_FRAMES)
    fault.memory_kib_max = HALF_FRAMES_KIB
    return fault


def slow_loris() -> Fault:
    """500 clients that send a byte a second."""
    return CrowdFault("drips", "drips", 500)


def flood_of_closes() -> Fault:
    """Closes of other clients' sessions, as many as eight threads can send."""
    return CrowdFault("closes", "closes", 8)
