"""A node's disk in the lab: a separate small file system, and a shim in front of `fsync`.

The small file system can be filled to the last byte without touching the machine's own disk; the shim makes
flushes fail or crawl. Both belong to one node each and are gone when the lab ends.
"""

from __future__ import annotations

import errno
import os
import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent

SMALL_MIB = 112
"""Room for a few segments and snapshots of a node, and filled within a second."""

_PIECE = bytes(1 << 16)


class FlushShim:
    """The preloaded library, and the file per node that gives it orders."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._library = directory / "shim.so"
        build = ["cc", "-shared", "-fPIC", "-O1", "-o", str(self._library), str(HERE / "shim.c"), "-ldl"]
        done = subprocess.run(build, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise OSError(f"cannot build the shim: {done.stderr.strip()}")

    def environment(self) -> dict[str, str]:
        """Variables for every node."""
        return {"LD_PRELOAD": str(self._library), "NEMESIS_DISK": f"{self._directory}/flush{{node}}"}

    def fail(self, node: int) -> None:
        """From here on every flush of the node fails."""
        self._order(node, "E")

    def slow(self, node: int, milliseconds: int) -> None:
        """From here on every flush of the node takes longer."""
        self._order(node, f"S{milliseconds}")

    def heal(self, node: int) -> None:
        """Flushes work again."""
        self._path(node).unlink(missing_ok=True)

    def _order(self, node: int, text: str) -> None:
        # Renamed into place, so that no flush reads half an order.
        draft = self._path(node).with_suffix(".draft")
        draft.write_text(text)
        draft.rename(self._path(node))

    def _path(self, node: int) -> Path:
        return self._directory / f"flush{node}"


class SmallDisk:
    """A file system of `SMALL_MIB` mounted where a node keeps its directory."""

    def __init__(self, where: Path) -> None:
        self._where = where
        where.mkdir(parents=True, exist_ok=True)
        options = ["-t", "tmpfs", "-o", f"size={SMALL_MIB}m", "tmpfs"]
        subprocess.run(["mount", *options, str(where)], check=True, capture_output=True)

    def fill(self) -> None:
        """Take every free byte."""
        with (self._where / "ballast").open("ab", buffering=0) as ballast:
            piece = _PIECE
            while piece:
                try:
                    ballast.write(piece)
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise
                    piece = piece[: len(piece) // 2]

    def free(self) -> None:
        """Give back what was taken."""
        (self._where / "ballast").unlink(missing_ok=True)

    def free_kib(self) -> int:
        """What is left."""
        room = os.statvfs(self._where)
        return room.f_bavail * room.f_frsize // 1024

    def close(self) -> None:
        """Unmount; processes that still look at it keep it alive until they end."""
        subprocess.run(["umount", "--lazy", str(self._where)], check=False, capture_output=True)
