"""Options that are changed on a directory with a group: the host processes of the next start have them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import quorate
from quorate import _local

PLACE = """
class Place:
    def __init__(self):
        self.calls = 0

    def name(self):
        self.calls += 1
        return ["{name}", self.calls]
"""


def start(data: Path, home: Path, *options: str) -> AbstractContextManager[dict[str, Any]]:
    words = ["--nodes", "1", "--port", "0", "--dir", str(data), *options]
    return _local.start_group("place:Place", words, home)


def make_home(parent: Path, name: str) -> Path:
    """A directory whose module says where it is from."""
    home = parent / name
    home.mkdir()
    (home / "place.py").write_text(PLACE.format(name=name))
    return home


def called(ready: dict[str, Any]) -> Any:
    with quorate.connect(ready["endpoint"]) as place:
        return place.name()


def sandbox(ready: dict[str, Any]) -> str:
    with urllib.request.urlopen(f"http://{ready['nodes'][0]['admin']}/status", timeout=20) as answer:
        return str(json.load(answer)["sandbox"])


def address_space_of_hosts(node: int) -> set[str]:
    """The soft limits of address space of a node's children."""
    tasks = Path(f"/proc/{node}/task").glob("*/children")
    children = {child for task in tasks for child in task.read_text().split()}
    lines = [line for child in children for line in Path(f"/proc/{child}/limits").read_text().splitlines()]
    return {line.split()[3] for line in lines if line.startswith("Max address space")}


def test_another_module_directory_is_used_from_the_next_start_on(tmp_path: Path) -> None:
    first, second = make_home(tmp_path, "first"), make_home(tmp_path, "second")
    with start(tmp_path / "data", first) as ready:
        assert called(ready) == ["first", 1]
    with start(tmp_path / "data", second, "--accept-code") as ready:
        assert called(ready) == ["second", 2]


def test_another_interpreter_is_used_from_the_next_start_on(tmp_path: Path) -> None:
    home = make_home(tmp_path, "home")
    with start(tmp_path / "data", home) as ready:
        assert called(ready) == ["home", 1]
    other, started = tmp_path / "python", tmp_path / "started"
    other.write_text(f'#!/bin/sh\necho "$PPID" >> "{started}"\nexec "{sys.executable}" "$@"\n')
    other.chmod(0o755)
    with start(tmp_path / "data", home, "--python", str(other)) as ready:
        assert called(ready) == ["home", 2]
        assert str(ready["nodes"][0]["pid"]) in started.read_text().split(), "the node started its host by it"


def test_another_bound_of_memory_holds_from_the_next_start_on_and_stays(tmp_path: Path) -> None:
    home = make_home(tmp_path, "home")
    with start(tmp_path / "data", home) as ready:
        assert ready["settings"]["host_memory"] == 4 << 30
    for options in (["--host-memory", "1GiB"], []):
        with start(tmp_path / "data", home, *options) as ready:
            assert ready["settings"]["host_memory"] == 1 << 30
            assert str(1 << 30) in address_space_of_hosts(ready["nodes"][0]["pid"])


def test_a_sandbox_that_is_switched_off_is_off_from_the_next_start_on_and_stays(tmp_path: Path) -> None:
    home = make_home(tmp_path, "home")
    with start(tmp_path / "data", home) as ready:
        assert sandbox(ready) != "off"
    for options, is_off in ((["--sandbox", "off"], True), ([], True), (["--sandbox", "on"], False)):
        with start(tmp_path / "data", home, *options) as ready:
            assert (sandbox(ready) == "off") is is_off, options


def test_what_a_call_may_take_is_told_to_people_also_where_nobody_chose_it(tmp_path: Path) -> None:
    home = make_home(tmp_path, "home")
    command = [_local.program(), "up", "place:Place", "--nodes", "1", "--port", "0"]
    environment = {**os.environ, "QUORATE_PYTHON": sys.executable}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=home, env=environment) as up:
        assert up.stdout is not None
        said = ""
        while "stop with Ctrl-C" not in said:
            line = up.stdout.readline()
            assert line, said
            said += line
        up.terminate()
    assert "a call may take 10 s (--call-timeout), its host 4096 MiB of memory (--host-memory)" in said
