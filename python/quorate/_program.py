"""The `quorate` program: where it is, and a group that it runs for the length of a block."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from quorate._errors import QuorateError, Unavailable


def program() -> str:
    """The `quorate` program: QUORATE_PROGRAM, else among the scripts of this interpreter, else on PATH."""
    named = os.environ.get("QUORATE_PROGRAM")
    if named:
        return named
    user = sysconfig.get_preferred_scheme("user")
    folders = [
        # Of a virtual environment, before links are followed.
        Path(sys.executable).parent,
        Path(sysconfig.get_path("scripts")),
        # `pip install --user`, and `pip install --target`, which puts scripts beside the packages.
        Path(sysconfig.get_path("scripts", user)),
        Path(__file__).parent.parent / "bin",
    ]
    beside = [str(folder / "quorate") for folder in folders if (folder / "quorate").is_file()]
    found = beside[0] if beside else shutil.which("quorate")
    if not found:
        raise QuorateError(
            "no `quorate` program beside this Python or on PATH: install the package or set QUORATE_PROGRAM"
        )
    return found


@contextlib.contextmanager
def start_group(class_path: str, options: list[str], directory: Path) -> Iterator[dict[str, Any]]:
    """Run `quorate up` for the length of a block; gives what it printed when it was ready."""
    command = [program(), "up", class_path, *options, "--no-check", "-o", "json"]
    with tempfile.TemporaryFile(mode="w+") as complaints:
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=complaints,
            text=True,
            cwd=directory,
            env={**os.environ, "QUORATE_PYTHON": os.environ.get("QUORATE_PYTHON", sys.executable)},
        )
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            if not line:
                process.wait()
                complaints.seek(0)
                raise Unavailable(f"`quorate up` ended before it was ready:\n{_words_of(complaints.read())}")
            yield json.loads(line)
        finally:
            process.terminate()
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _words_of(complaints: str) -> str:
    """What a command that was asked for JSON said, for people."""
    said = []
    for line in complaints.strip().splitlines():
        error = json.loads(line) if line.startswith("{") else {}
        said.append(f"quorate: {error['message']}" if "message" in error else line)
    return "\n".join(said)
