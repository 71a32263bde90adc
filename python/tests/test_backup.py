"""Backups of Python objects, and groups made of survivors: both need the classes and the code."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from patience import until

import quorate
from quorate import _local

LEDGER = """
class Ledger:
    def __init__(self, owner, lines=()):
        self.owner, self.lines = owner, list(lines)

    def add(self, line):
        self.lines.append(line)
        return len(self.lines)

    def read(self):
        return [self.owner, *self.lines]
"""
NOTE = """
class Note:
    def __init__(self, text=""):
        self.text = text

    def read(self):
        return self.text
"""
ARGS = ["--args", '["ann",  ["first"]]']


class Place:
    """A directory with modules, and beside it groups and backups."""

    def __init__(self, path: Path, name: str, **sources: str) -> None:
        self.home, self.data, self.path = path / name, path / f"{name}-data", path
        self.home.mkdir()
        for module, source in sources.items():
            (self.home / f"{module}.py").write_text(source)

    def quorate(self, *words: str) -> subprocess.CompletedProcess[str]:
        line = [_local.program(), *words, "-o", "json"]
        environment = {**os.environ, "QUORATE_PYTHON": os.environ.get("QUORATE_PYTHON", sys.executable)}
        return subprocess.run(
            line, cwd=self.home, env=environment, capture_output=True, text=True, timeout=120, check=False
        )

    def restore(self, file: Path, *words: str) -> subprocess.CompletedProcess[str]:
        return self.quorate("restore", str(file), "--dir", str(self.data), "--port", "0", *words)

    def start(self, nodes: int = 1, *more: str) -> Any:
        words = ["--port", "0", "--nodes", str(nodes), "--dir", str(self.data), *ARGS, *more]
        return _local.start_group("ledger:Ledger", words, self.home)


def back_up(place: Place) -> tuple[Path, dict[str, Any]]:
    """A backup of a group with one created object, which then goes on."""
    file = place.path / "a.backup"
    with place.start() as ready:
        endpoint = ["--endpoint", ready["endpoint"]]
        made = place.quorate("object", "create", "notes/1", "note:Note", "--args", '["remember"]', *endpoint)
        assert made.returncode == 0, made.stderr
        with quorate.connect(ready["endpoint"]) as ledger:
            assert ledger.add("second") == 2
            took = place.quorate("backup", str(file), *endpoint)
            assert took.returncode == 0, took.stderr
            assert ledger.add("never restored") == 3
    return file, json.loads(took.stdout)


def refused(done: subprocess.CompletedProcess[str], code: int, words: str) -> None:
    assert done.returncode == code, done.stderr
    assert words in done.stderr


def test_an_interpreter_without_the_package_is_told_with_what_it_said(tmp_path: Path) -> None:
    file, _ = back_up(Place(tmp_path, "old", ledger=LEDGER, note=NOTE))
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho \"No module named 'quorate'\" >&2\nexit 1\n")
    python.chmod(0o755)
    new = Place(tmp_path, "new", ledger=LEDGER, note=NOTE)
    done = new.restore(file, "--python", str(python))
    refused(done, 1, "the host process ended (exit status: 1); it said last: No module named 'quorate'")
    refused(done, 1, "the interpreter that has the package quorate and the classes")
    assert not new.data.exists()


def test_created_objects_and_arguments_come_back_with_the_digest_of_the_backup(tmp_path: Path) -> None:
    old = Place(tmp_path, "old", ledger=LEDGER, note=NOTE)
    file, backup = back_up(old)
    assert backup["classes"] == ["ledger:Ledger", "note:Note"]
    new = Place(tmp_path, "new", ledger=LEDGER, note=NOTE)
    done = new.restore(file, "--nodes", "3")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["restored_digest"] == backup["digest"]
    assert told["digest"].split(":")[1] == backup["digest"].split(":")[1]
    with new.start(3) as ready:
        status = json.loads(new.quorate("status", "--endpoint", ready["endpoint"]).stdout)
        assert {node["snapshot_digest"] for node in status["nodes"]} == {told["digest"]}
        with quorate.group(ready["endpoint"]) as group:
            assert group.objects() == {"Ledger": "ledger:Ledger", "notes/1": "note:Note"}
            assert group.get("notes/1").read() == "remember"
        with quorate.connect(ready["endpoint"]) as ledger:
            assert ledger.read() == ["ann", "first", "second"]
            assert ledger.add("third") == 3


def test_missing_classes_are_named_and_nothing_is_made(tmp_path: Path) -> None:
    file, _ = back_up(Place(tmp_path, "old", ledger=LEDGER, note=NOTE))
    bare = Place(tmp_path, "bare")
    refused(bare.restore(file), 2, "ledger")
    assert not bare.data.exists()
    half = Place(tmp_path, "half", ledger=LEDGER)
    done = half.restore(file, "--accept-code")
    assert done.returncode == 1, done.stderr
    assert "the backup needs the classes ledger:Ledger, note:Note" in done.stderr
    assert not half.data.exists()


def test_other_code_is_refused_unless_it_is_accepted(tmp_path: Path) -> None:
    file, _ = back_up(Place(tmp_path, "old", ledger=LEDGER, note=NOTE))
    other = Place(tmp_path, "other", ledger=LEDGER.replace("len(self.lines)", "-len(self.lines)"), note=NOTE)
    refused(other.restore(file), 7, "--accept-code")
    assert not other.data.exists()
    done = other.restore(file, "--accept-code")
    assert done.returncode == 0, done.stderr
    with other.start() as ready, quorate.connect(ready["endpoint"]) as ledger:
        assert ledger.add("third") == -3


def test_a_class_that_needs_more_than_the_sandbox_allows_is_restored_with_the_same_options(
    tmp_path: Path,
) -> None:
    reader = LEDGER.replace(
        "self.owner, self.lines", "open('/etc/passwd').close(); self.owner, self.lines", 1
    )
    old, file = Place(tmp_path, "old", ledger=reader), tmp_path / "a.backup"
    with old.start(1, "--sandbox", "off", "--host-memory", "5GiB") as ready:
        took = old.quorate("backup", str(file), "--endpoint", ready["endpoint"])
        assert took.returncode == 0, took.stderr
    new = Place(tmp_path, "new", ledger=reader)
    refused(new.restore(file), 2, "--sandbox")
    assert not new.data.exists()
    done = new.restore(file, "--sandbox", "off", "--host-memory", "5GiB", "--call-timeout", "never")
    assert done.returncode == 0, done.stderr
    with new.start() as ready, quorate.connect(ready["endpoint"]) as ledger:
        assert (ready["settings"]["sandbox"], ready["settings"]["host_memory"]) == ("off", 5 << 30)
        assert ready["settings"]["call_timeout"] is None
        assert ledger.read() == ["ann", "first"]


def test_a_survivors_calls_are_executed_again_with_its_code_and_its_created_objects(tmp_path: Path) -> None:
    old = Place(tmp_path, "old", ledger=LEDGER, note=NOTE)
    with old.start(3) as ready:
        endpoint = ["--endpoint", ready["endpoint"]]
        assert old.quorate("snapshot", *endpoint).returncode == 0
        made = old.quorate("object", "create", "notes/1", "note:Note", "--args", '["remember"]', *endpoint)
        assert made.returncode == 0, made.stderr
        with quorate.connect(ready["endpoint"]) as ledger:
            assert ledger.add("second") == 2
        for node in ready["nodes"]:
            os.kill(node["pid"], signal.SIGKILL)
    for node in (1, 2):
        shutil.rmtree(old.data / f"node-{node}")
    new = Place(tmp_path, "new", ledger=LEDGER, note=NOTE)
    options = ["--dir", str(new.data), "--port", "0", "--nodes", "1"]
    words = ["recover", str(old.data), *options, "--unsafe"]
    source = old.home / "ledger.py"
    source.write_text(LEDGER.replace("len(self.lines)", "-len(self.lines)"))
    refused(old.quorate(*words), 7, "the objects' code is not the one")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new", "old", "old-data"]
    source.write_text(LEDGER)
    done = old.quorate(*words)
    assert done.returncode == 0, done.stderr
    with new.start() as ready, quorate.group(ready["endpoint"]) as group:
        assert group.get("notes/1").read() == "remember"
        assert group.get("Ledger").read() == ["ann", "first", "second"]


OUTSIDE = """
import quorate

def told(path):
    with open(path, "a") as file:
        file.write("told")

class Ledger:
    def __init__(self, owner, lines=()):
        self.owner = owner

    def tell(self, path):
        quorate.effect(told, path, key="once")
"""


def test_what_is_to_be_done_outside_is_done_by_the_new_group_and_not_while_it_is_made(tmp_path: Path) -> None:
    old = Place(tmp_path, "old", ledger=OUTSIDE)
    told = tmp_path / "missing" / "told"
    with old.start() as ready:
        with quorate.connect(ready["endpoint"]) as ledger:
            ledger.tell(str(told))
        os.kill(ready["nodes"][0]["pid"], signal.SIGKILL)
    told.parent.mkdir()
    new = Place(tmp_path, "new", ledger=OUTSIDE)
    words = ["--dir", str(new.data), "--port", "0", "--unsafe"]
    done = old.quorate("recover", str(old.data), *words)
    assert done.returncode == 0, done.stderr
    assert not told.exists()
    with new.start():
        until(told.exists)


def test_a_signal_leaves_nothing_of_a_group_that_is_being_made(tmp_path: Path) -> None:
    old = Place(tmp_path, "old", ledger=LEDGER, note=NOTE)
    file, _ = back_up(old)
    began, slow = tmp_path / "began", tmp_path / "slow"
    slow.write_text(f"#!/bin/sh\ntouch {began}\nexec sleep 100\n")
    slow.chmod(0o700)
    before = {path.name for path in tmp_path.iterdir()}
    new = ["--dir", str(tmp_path / "new-data"), "--port", "0", "--python", str(slow)]
    for words in (["restore", str(file)], ["recover", str(old.data), "--unsafe"]):
        command = subprocess.Popen([_local.program(), *words, *new], cwd=old.home)
        until(began.exists)
        command.send_signal(signal.SIGINT)
        assert command.wait() == -signal.SIGINT
        began.unlink()
        assert {path.name for path in tmp_path.iterdir()} == before


def test_two_of_three_survivors_know_every_call_that_was_answered(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    tried, answered = [0] * 3, [0] * 3

    def count(endpoint: str, client: int) -> None:
        with quorate.connect(endpoint, timeout=1) as counter, contextlib.suppress(quorate.QuorateError):
            while True:
                tried[client] += 1
                counter.add(1)
                answered[client] += 1

    with (
        _local.start_group(
            "rust:counter", ["--port", "0", "--no-restart", "--dir", str(old)], tmp_path
        ) as ready,
        ThreadPoolExecutor() as clients,
    ):
        for client in range(3):
            clients.submit(count, ready["endpoint"], client)
        until(lambda: min(answered) > 50)
        for node in ready["nodes"]:
            os.kill(node["pid"], signal.SIGKILL)
    shutil.rmtree(old / "node-2")
    words = ["recover", str(old), "--dir", str(new), "--port", "0", "--nodes", "1", "--unsafe"]
    done = subprocess.run([_local.program(), *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    options = ["--port", "0", "--nodes", "1", "--dir", str(new)]
    with (
        _local.start_group("rust:counter", options, tmp_path) as ready,
        quorate.connect(ready["endpoint"]) as counter,
    ):
        assert sum(answered) <= counter.get() <= sum(tried)
