"""Faults of disks: full, failing to flush, slow to flush."""

from __future__ import annotations

import threading
from pathlib import Path

import quorate

from fault import Fault, Need, Role, Scene
from member import Member
from waiting import NeverHappened, wait_until

PUMP_BYTES = 64 << 10
PUMP_CALLS = 1024
"""Together 64 MiB: more than a node has room for in the segments that it made before its disk was full."""

STARTED_S = 15.0
"""Reading a log of a few segments, and the host's start."""

BLOCK_BYTES = 4096
SECTOR_BYTES = 512
"""How the log is laid out, by docs/storage.md."""


class DiskFull(Fault):
    """One node's disk has no byte left while calls keep coming; later there is room again."""

    needs = (Need.SMALL_DISK, Need.DISK, Need.TEXTS)
    hold_s = 4.0

    def __init__(self, role: Role) -> None:
        self.name = f"disk-full-{role.value}"
        self._role = role
        self._victim: Member | None = None
        self._pump: Pump | None = None

    def inject(self, scene: Scene) -> None:
        """Fill the disk, and write what cannot fit."""
        self._victim = scene.member(self._role)
        scene.disks[self._victim.number].fill()
        self._pump = Pump(scene.group.endpoint)
        self._pump.start()

    def heal(self, scene: Scene) -> None:
        """Make room; a node that chose to stop is started again."""
        assert self._victim is not None
        scene.disks[self._victim.number].free()
        if not self._victim.is_running():
            self._victim.start()

    def problems(self, scene: Scene) -> list[str]:
        """The disk was really full, and the node did not end for that."""
        assert self._victim is not None
        assert self._pump is not None
        self._pump.end()
        # Trimming may have given a little back, which the log takes again.
        found = [] if self._victim.is_running() else [f"a full disk ended node {self._victim.number}"]
        if scene.disks[self._victim.number].free_kib() > 40 << 10:
            found.append("the disk was not full any more: nothing was shown")
        return found


class DiskFullKill(DiskFull):
    """A follower is killed while its disk has no byte left, and starts there."""

    def __init__(self) -> None:
        super().__init__(Role.FOLLOWER)
        self.name = "disk-full-kill-follower"

    def problems(self, scene: Scene) -> list[str]:
        """It starts on the full disk, and says how it is."""
        assert self._victim is not None
        victim = self._victim
        scene.disks[victim.number].fill()
        victim.kill()
        # What the log of its last life left, too.
        scene.disks[victim.number].fill()
        left = scene.disks[victim.number].free_kib()
        victim.start()
        found = [] if left == 0 else [f"{left} KiB were left: nothing was shown"]
        try:
            wait_until(victim.status, STARTED_S, f"a start of node {victim.number} on a full disk")
        except NeverHappened as error:
            found.append(f"{error}: {victim.last_words()}")
        return found + super().problems(scene)


class Pump(threading.Thread):
    """Writes large values until it is ended; what becomes of them does not matter."""

    def __init__(self, endpoint: str) -> None:
        super().__init__(daemon=True)
        self._endpoint = endpoint
        self._ended = threading.Event()

    def run(self) -> None:
        """Overwrite a few keys; a full group refuses that, which is an answer."""
        text = "x" * PUMP_BYTES
        try:
            with quorate.connect(self._endpoint, timeout=2.0) as proxy:
                for number in range(PUMP_CALLS):
                    if self._ended.is_set():
                        return
                    try:
                        proxy.put(f"pump-{number % 4}", text)
                    except (quorate.NotExecuted, quorate.OutcomeUnknown):
                        self._ended.wait(0.05)
        except quorate.QuorateError:
            return

    def end(self) -> None:
        """No more."""
        self._ended.set()
        self.join(timeout=10.0)


class FlushFails(Fault):
    """Every flush of one node fails with EIO: it must stop at once, and acknowledge nothing."""

    needs = (Need.SHIM, Need.DISK)

    def __init__(self, role: Role) -> None:
        self.name = f"flush-error-{role.value}"
        self._role = role
        self._victim: Member | None = None

    def inject(self, scene: Scene) -> None:
        """Let flushes fail."""
        assert scene.shim is not None
        self._victim = scene.member(self._role)
        self._victim.may_end = True
        scene.shim.fail(self._victim.number)

    def heal(self, scene: Scene) -> None:
        """Let flushes work, and start the node again."""
        assert scene.shim is not None
        assert self._victim is not None
        scene.shim.heal(self._victim.number)
        if self._victim.is_running():
            self._victim.kill()
        self._victim.start()

    def problems(self, scene: Scene) -> list[str]:
        """The node ended by itself."""
        del scene
        assert self._victim is not None
        victim = self._victim
        try:
            wait_until(lambda: not victim.is_running(), 5.0, "the end of the node")
        except NeverHappened:
            return [f"node {victim.number} goes on after a failed flush"]
        return (
            [] if "error" in victim.last_words().lower() else [f"it ended saying only: {victim.last_words()}"]
        )


class Damage(Fault):
    """One byte in the middle of a dead follower's newest segment changes, whole records behind it.

    The node may repair it from the others or refuse to run and say why; it may not cut its log there, and not
    serve as if nothing were amiss. That is what the history and the digests show afterwards.
    """

    name = "damage-follower"
    needs = (Need.DISK,)

    def __init__(self) -> None:
        self._victim: Member | None = None
        self._undo: tuple[Path, int, bytes] | None = None

    def inject(self, scene: Scene) -> None:
        """Kill it, change the byte, start it."""
        self._victim = scene.member(Role.FOLLOWER)
        self._victim.kill()
        segment = max((self._victim.directory / "log").glob("log-0*"))
        content = segment.read_bytes()
        # Records stand at the start of a block; those older than the newest snapshot are of no use.
        blocks = [at for at in range(0, len(content), BLOCK_BYTES) if any(content[at : at + SECTOR_BYTES])]
        start = blocks[-1 - len(blocks) // 50]
        at = scene.rng.choice([start + here for here in range(SECTOR_BYTES) if content[start + here]])
        self._undo = (segment, at, content[at : at + 1])
        _change(segment, at, bytes([content[at] ^ 0x10]))
        self._victim.start()
        self._victim.may_end = True

    def heal(self, scene: Scene) -> None:
        """A node that refused to run gets its byte back."""
        del scene
        assert self._victim is not None
        assert self._undo is not None
        if not self._victim.is_running():
            _change(*self._undo)
            self._victim.start()

    def problems(self, scene: Scene) -> list[str]:
        """A node that ended said that its log is damaged."""
        del scene
        assert self._victim is not None
        if self._victim.is_running() or "damage" in self._victim.last_words():
            return []
        return [f"it ended saying only: {self._victim.last_words()}"]


def _change(file: Path, at: int, to: bytes) -> None:
    with file.open("r+b") as opened:
        opened.seek(at)
        opened.write(to)


class FlushSlow(Fault):
    """Flushes of one follower take a hundred times as long: a majority is fast, and must stay so."""

    name = "flush-slow-follower"
    needs = (Need.SHIM, Need.DISK)

    def __init__(self) -> None:
        self._victim: Member | None = None

    def inject(self, scene: Scene) -> None:
        """Slow it down."""
        assert scene.shim is not None
        self._victim = scene.member(Role.FOLLOWER)
        scene.shim.slow(self._victim.number, 100)

    def heal(self, scene: Scene) -> None:
        """Full speed."""
        assert scene.shim is not None
        assert self._victim is not None
        scene.shim.heal(self._victim.number)
