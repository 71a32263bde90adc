"""A heavy load from `quorate bench`, as a process of its own.

The scripts that watch memory and elections want a machine under pressure; histories are of no use to them.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any

from group import Group


class BenchLoad:
    """`quorate bench` against a group for some seconds."""

    def __init__(
        self,
        group: Group,
        seconds: float,
        clients: int = 4,
        window: int = 64,
        size: int = 16,
        timeline: Path | None = None,
    ) -> None:
        hosts = group.endpoint.rpartition("/")[0]
        command = [group.plan.quorate, "bench", "--endpoint", hosts, "--object", group.plan.served.cls]
        command += ["--clients", str(clients), "--window", str(window), "--size", str(size)]
        command += ["--seconds", f"{seconds:g}", "--warmup", "1", "-o", "json"]
        if timeline is not None:
            command += ["--timeline", str(timeline)]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True)

    def __enter__(self) -> BenchLoad:
        """Itself, running."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.is_running():
            self._process.kill()
            self._process.wait()

    def is_running(self) -> bool:
        """Whether it still loads the group."""
        return self._process.poll() is None

    def report(self) -> dict[str, Any]:
        """What it measured, once it has ended; raises when it failed."""
        said, complained = self._process.communicate(timeout=60)
        if self._process.returncode != 0:
            raise OSError(f"quorate bench ended with {self._process.returncode}: {complained.strip()}")
        document: dict[str, Any] = json.loads(said)
        return document
