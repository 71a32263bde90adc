"""A process that gets a share of a processor only: a machine that is slower than the others.

The kernel's quota of a control group holds it back, of either version. It takes root.
"""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType

CONTROL = Path("/sys/fs/cgroup")
PERIOD_US = 10_000
"""Short, so that a slow machine is slow at every moment and does not run and stop by turns."""

SMALLEST_US = 1_000
"""The kernel takes no smaller quota."""


class NoQuotas(OSError):
    """This machine has no quotas of processors, or not for this user."""


class Throttle:
    """A process that gets a share of one processor until the `with` ends; children that it starts too."""

    def __init__(self, pid: int, share: float) -> None:
        quota = round(share * PERIOD_US)
        if quota < SMALLEST_US:
            raise ValueError(f"a share of {share:g} is below {SMALLEST_US / PERIOD_US:g}")
        self.pid = pid
        self.quota = quota
        # The first version mounts each controller by itself.
        is_first = (CONTROL / "cpu").is_dir()
        self.home = (CONTROL / "cpu" if is_first else CONTROL) / f"quorate-{os.getpid()}-{pid}"
        self.is_first = is_first

    def __enter__(self) -> Throttle:
        """Begin to hold it back."""
        try:
            self.home.mkdir()
            if self.is_first:
                (self.home / "cpu.cfs_period_us").write_text(str(PERIOD_US))
                (self.home / "cpu.cfs_quota_us").write_text(str(self.quota))
            else:
                (self.home / "cpu.max").write_text(f"{self.quota} {PERIOD_US}")
            (self.home / "cgroup.procs").write_text(str(self.pid))
        except OSError as error:
            self._remove()
            raise NoQuotas(f"no quota of a processor for a process: {error}; it takes root") from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._remove()

    def _remove(self) -> None:
        if not self.home.is_dir():
            return
        processes = self.home / "cgroup.procs"
        for pid in processes.read_text().split() if processes.exists() else []:
            (self.home.parent / "cgroup.procs").write_text(pid)
        self.home.rmdir()
