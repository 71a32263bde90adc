"""A group keeps the code that its calls were executed with: other code is refused, with what changed."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import urllib.request
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

import quorate
from quorate import _local

TALLY = """
class Tally:
    def __init__(self):
        self.count = 0

    def add(self):
        self.count += 1
        return self.count
"""
HELPER = TALLY.replace("self.count += 1", "import step\n        self.count += step.STEP")


class Place:
    """A directory with a module, and beside it the directory of a group."""

    CLASS = "tally:Tally"

    def __init__(self, path: Path, source: str = TALLY) -> None:
        self.home, self.data = path / "home", path / "data"
        self.home.mkdir()
        self.write(source)

    def write(self, source: str, module: str = "tally") -> None:
        (self.home / f"{module}.py").write_text(source)

    def start(self, *options: str) -> AbstractContextManager[dict[str, Any]]:
        words = ["--persist", "disk", "--port", "0", "--dir", str(self.data), *options]
        return _local.start_group(self.CLASS, words, self.home)

    def refused(self, *options: str) -> str:
        with pytest.raises(quorate.Unavailable) as refused, self.start(*options):
            raise AssertionError("it started")
        return str(refused.value)

    def add(self, *options: str) -> int:
        with self.start(*options) as ready:
            return added(ready)


def added(ready: dict[str, Any]) -> int:
    with quorate.connect(ready["endpoint"]) as tally:
        return int(tally.add())


def status(ready: dict[str, Any], node: int = 0) -> dict[str, Any]:
    with urllib.request.urlopen(f"http://{ready['nodes'][node]['admin']}/status", timeout=20) as answer:
        return dict(json.load(answer))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_changed_code_is_refused_with_what_changed_and_acknowledged_calls_stay(place: Place) -> None:
    assert [place.add(), place.add(), place.add()] == [1, 2, 3]
    place.write(TALLY.replace("+= 1", "+= 10"))
    refused = place.refused()
    assert "\n-        self.count += 1\n+        self.count += 10\n" in refused
    assert "tally.py" in refused
    assert "--accept-code" in refused
    place.write(TALLY)
    assert place.add() == 4


def test_a_node_whose_note_of_the_code_is_damaged_is_left_out(place: Place) -> None:
    assert place.add() == 1
    (place.data / "node-3" / "code-1").write_text("{")
    assert place.add() == 2
    (place.data / "node-2" / "code-1").write_text("{")
    assert "code-1" in place.refused()


def test_accepted_code_goes_on_from_a_snapshot_and_executes_no_call_again(place: Place) -> None:
    assert [place.add(), place.add(), place.add()] == [1, 2, 3]
    place.write(TALLY.replace("+= 1", "+= 10"))
    assert place.add("--accept-code") == 13
    assert place.add() == 23, "it is the group's code now"


def test_a_refused_start_ends_with_the_exit_code_of_a_conflict(place: Place) -> None:
    place.add("--nodes", "1")
    place.write(TALLY + "# another line\n")
    command = [_local.program(), "node", "run", "--config", str(place.data / "node-1.toml")]
    for options in ([], ["-o", "json"]):
        ended = subprocess.run([*command, *options], capture_output=True, text=True, timeout=60, check=False)
        assert ended.returncode == 7, ended.stderr
        assert "# another line" in ended.stderr
    advice = json.loads(ended.stderr.splitlines()[-1])["advice"]
    assert advice == "put the old code back, or start all nodes with --accept-code"


def test_code_is_not_accepted_while_the_log_has_calls_after_the_snapshot(place: Place) -> None:
    with place.start("--nodes", "1") as ready:
        assert added(ready) == 1
        # No snapshot is taken when the supervisor is killed.
        node = ready["nodes"][0]["pid"]
        end = os.pidfd_open(node)
        os.kill(parent_of(node), signal.SIGKILL)
        assert select.select([end], [], [], 20)[0], "the node ends with its supervisor"
        os.close(end)
    place.write(TALLY.replace("+= 1", "+= 10"))
    refused = place.refused("--nodes", "1", "--accept-code")
    assert "run `quorate snapshot`" in refused
    place.write(TALLY)
    assert place.add("--nodes", "1") == 2
    place.write(TALLY.replace("+= 1", "+= 10"))
    assert place.add("--nodes", "1", "--accept-code") == 12


def parent_of(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


def test_a_module_that_only_a_method_imports_belongs_to_the_code(tmp_path: Path) -> None:
    place = Place(tmp_path, HELPER)
    place.write("STEP = 1\n", "step")
    assert place.add("--nodes", "1") == 1
    place.write("STEP = 10\n", "step")
    assert "\n-STEP = 1\n+STEP = 10\n" in place.refused("--nodes", "1")


def test_a_host_that_starts_again_with_other_code_executes_nothing(place: Place) -> None:
    with place.start("--nodes", "1") as ready:
        assert added(ready) == 1
        place.write(TALLY.replace("+= 1", "+= 10"))
        os.kill(host_of(ready["nodes"][0]["pid"]), signal.SIGKILL)
        with quorate.connect(ready["endpoint"], timeout=3) as tally, pytest.raises(quorate.QuorateError):
            tally.add()
        log = (place.data / "node-1.log").read_text()
        assert "code has changed on the disk since this node started" in log
        place.write(TALLY)
        with quorate.connect(ready["endpoint"], timeout=30) as tally:
            first = tally.add()
            assert first in (2, 3), "the call before may have been ordered; the old code executed it"
            assert tally.add() == first + 1


def host_of(node: int) -> int:
    tasks = Path(f"/proc/{node}/task").glob("*/children")
    (child,) = {child for task in tasks for child in task.read_text().split()}
    return int(child)


def test_replicas_of_one_group_tell_the_same_code(place: Place) -> None:
    with place.start() as ready:
        codes = {status(ready, node)["code"] for node in range(3)}
        assert len(codes) == 1
        assert len(codes.pop() or "") == 16
