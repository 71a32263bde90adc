"""An image that counts can be read, and does not depend on where objects lie in memory."""

from __future__ import annotations

import enum
import os
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from quorate import _images, _making, _names, _native

_names.allow_package(__name__)


class Right(enum.Flag):
    READ = 1
    WRITE = 2
    RUN = 4
    ALL = 7


class Mode(enum.IntFlag):
    FAST = 1
    SAFE = 4


@pytest.mark.parametrize(
    "value",
    [
        Right.READ | Right.RUN,
        Right.ALL,
        Right(0),
        ~Right.READ,
        Mode.FAST | Mode.SAFE,
        Mode(64),
        Mode.SAFE | 64,
    ],
    ids=repr,
)
def test_combined_flags_travel_and_are_kept(value: enum.Flag) -> None:
    for copy in (_native.loads(_native.dumps(value)), _native.load_state(_native.dump_state([value]))[0]):
        assert copy is value or (copy == value and type(copy) is type(value))


class Forgetful:
    """Can be saved, but not restored, once it is old."""

    def __init__(self) -> None:
        self.is_old = False

    def __getstate__(self) -> dict[str, Any]:
        return {"is_old": self.is_old}

    def __setstate__(self, state: dict[str, Any]) -> None:
        if state["is_old"]:
            raise KeyError("old")
        self.__dict__.update(state)


class Shifting:
    def __init__(self) -> None:
        self.count = 0

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.count = state["count"] + 1

    def __getstate__(self) -> dict[str, Any]:
        return {"count": self.count}


def write_image(value: Any, path: Path, **more: Any) -> tuple[int, str]:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            _images.write_in_child({1: value}, str(path), writer, os.dup(0), os.getppid(), **more)
        finally:
            os._exit(77)
    os.close(writer)
    _, status = os.waitpid(child, 0)
    with os.fdopen(reader) as pipe:
        return os.waitstatus_to_exitcode(status), pipe.read()


def test_an_image_that_cannot_be_restored_fails_when_it_is_taken(tmp_path: Path) -> None:
    value = Forgetful()
    assert write_image(value, tmp_path / "image") == (0, "")
    value.is_old = True
    code, reason = write_image(value, tmp_path / "image")
    assert code == 1
    assert reason == "KeyError: 'old'"


def test_an_image_that_restores_to_another_state_fails_when_it_is_taken(tmp_path: Path) -> None:
    code, reason = write_image(Shifting(), tmp_path / "image")
    assert code == 1
    assert reason == "ValueError: tests.test_images.Shifting changes when it is saved and restored"


class Nested:
    def __init__(self) -> None:
        self.inside: list[Any] = []
        for _ in range(1_000_001):
            self.inside = [self.inside]


def test_a_state_that_is_nested_too_deeply_is_told_with_its_reason_and_the_way_out(tmp_path: Path) -> None:
    code, reason = write_image(nested := Nested(), tmp_path / "image")
    assert code == 1
    with pytest.raises(_making.Unfit) as refused:
        _making._test_state(nested)
    for text in (reason.removeprefix("UnsupportedValue: "), refused.value.args[1]):
        assert text.startswith("self.inside[0][0]") and len(text) < 1500
        assert (
            "nesting this deep" in text and "keep what is linked one to the next in a list or a dict" in text
        )


class Shy:
    def __init__(self, owner: list[Any]) -> None:
        self.owner = owner

    def __getstate__(self) -> dict[str, Any]:
        if len(self.owner) > 1:
            self.owner.pop()
        return {"owner": self.owner}


class Shrinking:
    def __init__(self) -> None:
        self.items: list[Any] = []
        self.items += [Shy(self.items), 1, 2, 3]


def test_a_state_that_changes_while_it_is_read_is_refused_with_what_changes_it(tmp_path: Path) -> None:
    code, reason = write_image(Shrinking(), tmp_path / "image")
    with pytest.raises(_making.Unfit) as refused:
        _making._test_state(Shrinking())
    assert code == 1
    for text in (reason, refused.value.args[1]):
        assert "__getstate__" in text and "container" in text


def test_a_whole_image_is_in_the_file(tmp_path: Path) -> None:
    assert write_image(Forgetful(), tmp_path / "image") == (0, "")
    count, number, length = struct.unpack_from("<IIQ", (data := (tmp_path / "image").read_bytes()))
    assert (count, number, length) == (1, 1, len(data) - 16)


class Node:
    def __init__(self, name: str) -> None:
        self.name = name
        self.peers: set[Node] = set()


def test_elements_that_reach_all_of_the_state_are_encoded_once() -> None:
    everything = [Node(f"n{number}") for number in range(2000)]
    for node in everything:
        node.peers = set(everything[:50])
    data = _native.dump_state({"nodes": set(everything)})
    assert len(data) < 700_000
    assert len(_native.load_state(data)["nodes"]) == 2000


def test_an_image_is_checked_in_a_confined_process_too(tmp_path: Path) -> None:
    code = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from test_images import Forgetful, write_image\n"
        "from quorate import _confinement\n"
        f"_confinement.confine([{str(Path(__file__).parent)!r}], {str(tmp_path)!r})\n"
        "value = Forgetful()\n"
        f"path = Path({str(tmp_path / 'image')!r})\n"
        "assert write_image(value, path) == (0, ''), write_image(value, path)\n"
        "value.is_old = True\n"
        "assert write_image(value, path)[1] == \"KeyError: 'old'\"\n"
    )
    environment = {**os.environ, "PYTHONPATH": ":".join([str(Path(__file__).parent), *sys.path])}
    ended = subprocess.run(
        [sys.executable, "-c", code], check=False, capture_output=True, text=True, env=environment
    )
    assert ended.returncode == 0, ended.stderr
