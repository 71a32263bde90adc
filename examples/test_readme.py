"""The README's example, run as it stands: files written, commands typed, output compared.

Needs the Python package, and `quorate` where QUORATE_PROGRAM says, or beside this interpreter.
The group gets a port of its own, so that a group of the reader's is not in the way.
"""

from __future__ import annotations

import json
import os
import re
import select
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

README = Path(__file__).resolve().parent.parent / "README.md"
BLOCK = re.compile(r"<!-- runs: (?P<name>\S+) -->\n```\w+\n(?P<text>.*?)```", re.DOTALL)
WRITTEN_ENDPOINT = "quorate://127.0.0.1:7400/Account"
QUORATE = Path(os.environ.get("QUORATE_PROGRAM", Path(sys.executable).parent / "quorate"))
READY_SECONDS_MAX = 60
STOP_SECONDS_MAX = 30


def blocks() -> dict[str, str]:
    """The marked blocks of the README by name."""
    return {found["name"]: found["text"] for found in BLOCK.finditer(README.read_text("utf-8"))}


def commands(console: str) -> list[tuple[list[str], str]]:
    """Each command of a console block as arguments, with the output that is written below it."""
    told: list[tuple[list[str], str]] = []
    for line in console.splitlines():
        if line.startswith("$ "):
            told.append((shlex.split(line[2:], comments=True), ""))
        else:
            arguments, output = told[-1]
            told[-1] = (arguments, output + line + "\n")
    return told


@contextmanager
def running(
    arguments: list[str], folder: Path, program: Path, environment: Mapping[str, str]
) -> Iterator[str]:
    """Starts `quorate up`, yields the endpoint it prints, and stops it as a user would."""
    up = subprocess.Popen(
        [program, *arguments[1:], "--port", "0", "--dir", folder / "data", "-o", "json"],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert up.stdout is not None
        ready, _, _ = select.select([up.stdout], [], [], READY_SECONDS_MAX)
        assert ready, f"`quorate up` printed nothing in {READY_SECONDS_MAX} s"
        yield str(json.loads(up.stdout.readline())["endpoint"])
        assert up.poll() is None, "`quorate up` ended by itself"
    finally:
        up.send_signal(signal.SIGINT)
        up.wait(STOP_SECONDS_MAX)


def follow(folder: Path, program: Path, python: Path, environment: Mapping[str, str]) -> None:
    """Follows the three blocks from top to bottom with this program and this interpreter."""
    block = blocks()
    assert set(block) == {"bank.py", "console", "client.py"}
    assert WRITTEN_ENDPOINT in block["client.py"]
    (up, _), (call, answer) = commands(block["console"])
    assert up[:2] == ["quorate", "up"] and call[:2] == ["quorate", "call"]
    (folder / "bank.py").write_text(block["bank.py"], "utf-8")

    with running(up, folder, program, environment) as endpoint:
        called = subprocess.run(
            [program, *call[1:]],
            env={**environment, "QUORATE_ENDPOINT": endpoint},
            capture_output=True,
            text=True,
            check=True,
        )
        assert called.stdout == answer

        target = endpoint if endpoint.endswith("/Account") else f"{endpoint}/Account"
        client = folder / "client.py"
        client.write_text(block["client.py"].replace(WRITTEN_ENDPOINT, target), "utf-8")
        ran = subprocess.run(
            [python, client],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        promised = re.findall(r"print\(.*\)  # (.*)", block["client.py"])
        assert ran.stdout.splitlines() == promised


def test_the_readme_example_runs_and_prints_what_it_says(tmp_path: Path) -> None:
    """Follows the README with the program and the package of this interpreter."""
    follow(tmp_path, QUORATE, Path(sys.executable), os.environ)
