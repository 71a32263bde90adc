"""Random calls on a group of three nodes beside a twin: snapshot, death of the leader, restart."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import quorate
from quorate import _local, _native

from .drive import Differs, Story, end_of, is_alike, local_twin
from .kinds import Value
from .subject import Subject

AGREED_S = 60.0
"""A node that was killed is back and has caught up within this, on a loaded machine."""


def drive_group(subject: Subject, calls: int, seed: int) -> None:
    """Call a third each before the leader is killed, after it, and after a restart."""
    chance = random.Random(f"{subject.path} {seed}")
    twin = local_twin(subject)
    story = Story(subject.path)
    with tempfile.TemporaryDirectory(prefix="foreign-") as directory:
        options = ["--args", json.dumps(subject.args), "--kwargs", json.dumps(dict(subject.kwargs))]
        options += ["--dir", directory, "--port", "0", "--log", "warn"]
        options += [word for package in subject.allow for word in ("--allow", package)]
        with _local.start_group(subject.path, options, Path.cwd()) as ready:
            _call(subject, ready, twin, chance, calls // 3, story)
            _run("snapshot", "--endpoint", ready["endpoint"])
            leader = _status(ready)["leader"]
            pid = next(node["pid"] for node in ready["nodes"] if node["id"] == leader)
            os.kill(pid, signal.SIGKILL)
            _call(subject, ready, twin, chance, calls // 3, story)
            _agree(ready, story)
        with _local.start_group(subject.path, options, Path.cwd()) as ready:
            _call(subject, ready, twin, chance, calls // 3, story)
            _run("snapshot", "--endpoint", ready["endpoint"])
            _agree(ready, story)


def _call(
    subject: Subject,
    ready: dict[str, Value],
    twin: Value,
    chance: random.Random,
    count: int,
    story: Story,
) -> None:
    with quorate.connect(ready["endpoint"], type(twin), timeout=AGREED_S) as proxy:
        for _ in range(count):
            method, args, kwargs = subject.draw(chance)
            story.calls.append(f"{method}{args}{kwargs or ''}")
            told = end_of(proxy, method, args, kwargs)
            given = _native.loads(_native.dumps((args, kwargs)))
            expected = end_of(twin, method, *given)
            if not is_alike(expected, told):
                raise story.differs("the local twin differs", expected, told)


def _agree(ready: dict[str, Value], story: Story) -> None:
    """Wait until all nodes have executed the same, and took the same snapshot."""
    until = time.monotonic() + AGREED_S
    while True:
        nodes = _status(ready)["nodes"]
        told = [(node["executed"], node["digest"], node["snapshot"]) for node in nodes]
        if len(set(told)) == 1 and told[0][2]:
            return
        if time.monotonic() > until:
            raise story.differs("replicas differ", told, "")


def _status(ready: dict[str, Value]) -> Value:
    return json.loads(
        _run("status", "--endpoint", ready["endpoint"].rpartition("/")[0], "-o", "json")
    )


def _run(*words: str) -> str:
    done = subprocess.run([_local.program(), *words], check=False, capture_output=True, text=True)
    if done.returncode:
        text = f"quorate {words[0]}: {done.stderr.strip()}"
        raise Differs(text)
    return done.stdout
