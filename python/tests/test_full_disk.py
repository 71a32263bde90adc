"""A disk without room is called by its name, and a log that fills its disk makes room again.

The disk is a small tmpfs in a namespace of its own.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import quorate
from quorate import _local

NO_QUORUM = 4
DISK_MIB = 80
"""Far less than a log grows to on a large disk."""

MOUNTED = """
size=$0
while [ "$1" != -- ]; do
    disk="${1%/*}-disk-${1##*/}"
    mkdir -p "$disk" && mount -t tmpfs -o size="$size" small "$disk" || exit
    cp -a "$1/." "$disk" && mount --bind "$disk" "$1" || exit
    shift
done
shift
exec "$@"
"""
"""Moves directories to a disk each, for one command."""

UNSHARED = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", MOUNTED]
BLOCK = 4096
VALUE = "x" * (1 << 20)
VALUES_MAX = 256
"""Far more than the disk takes."""


@dataclass(frozen=True)
class Small:
    ready: dict[str, Any]
    disk: Path
    """The disk as it is seen from outside of its namespace."""
    log: Path

    @property
    def endpoint(self) -> str:
        return str(self.ready["endpoint"])

    def statuses(self) -> list[dict[str, Any]]:
        return [status(node["admin"]) for node in self.ready["nodes"]]


def status(admin: str) -> dict[str, Any]:
    with urllib.request.urlopen(f"http://{admin}/status", timeout=20) as answer:
        told: dict[str, Any] = json.load(answer)
        return told


def can_mount(directory: Path) -> bool:
    with contextlib.suppress(OSError):
        words = [*UNSHARED, f"{DISK_MIB}m", str(directory), "--", "true"]
        return subprocess.run(words, capture_output=True, check=False).returncode == 0
    return False


@contextlib.contextmanager
def group_on_small_disks(home: Path, nodes: int, served: str = "rust:kv") -> Iterator[Small]:
    group = home / "group"
    disks = [group / f"node-{number}" for number in range(1, nodes + 1)]
    if not can_mount(home):
        pytest.skip("no file system can be mounted here: user namespaces are switched off")
    options = ["--nodes", str(nodes), "--port", "0", "--dir", str(group)]
    with _local.start_group(served, options, home):
        pass
    program = home / "quorate"
    mounted = [*UNSHARED, f"{DISK_MIB}m", *map(str, disks), "--", _local.program()]
    words = " ".join(f"'{word}'" for word in mounted)
    program.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
    program.chmod(0o755)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("QUORATE_PROGRAM", str(program))
        with _local.start_group(served, options, home) as ready:
            inside = Path(f"/proc/{ready['nodes'][0]['pid']}/root{disks[0]}")
            yield Small(ready, inside, group / "node-1.log")


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Small]:
    with group_on_small_disks(tmp_path, 1) as small:
        yield small


def fill(disk: Path) -> None:
    """Leaves room for lines of the node's log, and for nothing else."""
    with (disk / "filling").open("wb", buffering=0) as file:
        with contextlib.suppress(OSError):
            while True:
                file.write(b"x" * BLOCK)
        file.truncate(file.tell() // BLOCK * BLOCK - 16 * BLOCK)


def test_a_full_disk_is_called_so_by_calls_commands_and_the_log(small: Small) -> None:
    with quorate.connect(small.endpoint, timeout=5.0) as kv:
        kv.put("key", "small")
        fill(small.disk)
        with pytest.raises(quorate.StorageFull) as refused:
            for number in range(VALUES_MAX):
                kv.put(f"key-{number}", VALUE)
        assert refused.value.executed is False
    command = [_local.program(), "snapshot", "--timeout", "5", "--endpoint", small.endpoint]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == NO_QUORUM, done
    assert "the storage is full" in done.stderr
    assert "no quorum" not in done.stderr
    said = next(line for line in small.log.read_text().splitlines() if "full" in line)
    assert "/group/node-1" in said


@pytest.mark.parametrize("nodes", [1, 3])
def test_a_log_that_fills_its_disk_makes_room_by_snapshots_and_calls_go_on(
    tmp_path: Path, nodes: int
) -> None:
    calls = 2 * DISK_MIB
    with group_on_small_disks(tmp_path, nodes) as small:
        with quorate.connect(small.endpoint, timeout=30.0) as kv:
            for number in range(calls):
                kv.put(f"key-{number % 2}", f"{number} {VALUE}")
            assert kv.get("key-1") == f"{calls - 1} {VALUE}"
        statuses = small.statuses()
    # Each node wrote twice what its disk takes.
    assert all(node["trimmed"] > calls // 2 for node in statuses), statuses
