"""A disk without room is called by its name. The disk is a small tmpfs in a namespace of its own."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import quorate
from quorate import _local

NO_QUORUM = 4
DISK = "80m"
MOUNTED = 'mount -t tmpfs -o size="$0" small "$1" && shift && exec "$@"'
UNSHARED = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", MOUNTED]
BLOCK = 4096
VALUE = "x" * (1 << 20)
VALUES_MAX = 256
"""Far more than the disk takes."""


@dataclass(frozen=True)
class Small:
    endpoint: str
    disk: Path
    """The disk as it is seen from outside of its namespace."""
    log: Path


def can_mount(directory: Path) -> bool:
    with contextlib.suppress(OSError):
        words = [*UNSHARED, DISK, str(directory), "true"]
        return subprocess.run(words, capture_output=True, check=False).returncode == 0
    return False


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Small]:
    disk = tmp_path / "disk"
    disk.mkdir()
    if not can_mount(disk):
        pytest.skip("no file system can be mounted here: user namespaces are switched off")
    program = tmp_path / "quorate"
    words = " ".join(f"'{word}'" for word in [*UNSHARED, DISK, str(disk), _local.program()])
    program.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
    program.chmod(0o755)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("QUORATE_PROGRAM", str(program))
        options = ["--nodes", "1", "--port", "0", "--dir", str(disk / "group")]
        with _local.start_group("rust:kv", options, tmp_path) as ready:
            inside = Path(f"/proc/{ready['nodes'][0]['pid']}/root{disk}")
            yield Small(ready["endpoint"], inside, inside / "group" / "node-1.log")


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
    assert "/disk/group/node-1" in said
