"""A whole group on this machine, for tests: real processes, gone when the block ends."""

from __future__ import annotations

import contextlib
import inspect
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

from quorate._connect import connect
from quorate._errors import QuorateError, Unavailable

T = TypeVar("T")


@contextlib.contextmanager
def local(
    cls: type[T],
    /,
    *args: Any,
    nodes: int = 3,
    persist: Literal["memory", "disk"] = "memory",
    timeout: float = 10.0,
    allow: Sequence[str] = (),
    **kwargs: Any,
) -> Iterator[T]:
    """Run a group of real nodes for the length of a block, and give its object's proxy.

    ::

        with quorate.local(Account, "A-1", balance=100) as account:
            assert account.deposit(10) == 110

    Instances of other packages may be in the object's state when `allow` names these packages.
    """
    with tempfile.TemporaryDirectory(prefix="quorate-") as directory:
        options = ["--args", json.dumps(args), "--kwargs", json.dumps(kwargs)]
        options += ["--nodes", str(nodes), "--persist", persist, "--port", "0", "--dir", directory]
        # A test is where a method that wrongly claims to change nothing should be found.
        options += ["--check-reads", "all"]
        options += [word for package in allow for word in ("--allow", package)]
        group = start_group(class_path(cls), options, Path(inspect.getfile(cls)).parent)
        with group as ready, connect(ready["endpoint"], cls, timeout=timeout) as proxy:
            yield proxy


def class_path(cls: type) -> str:
    """MODULE:CLASS of a class that other processes can import."""
    if cls.__module__ == "__main__" or "<locals>" in cls.__qualname__:
        raise QuorateError(f"{cls.__qualname__} cannot be imported by the nodes: move it to a module")
    return f"{cls.__module__}:{cls.__qualname__}"


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
