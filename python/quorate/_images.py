"""Images of objects, as snapshots have them: written in a forked process, small ones between two calls."""

from __future__ import annotations

import contextlib
import gc
import os
import resource
import struct
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from quorate import _environment, _making, _names, _native, _on_disk, _own

LARGE_STATE_BYTES = 256 << 20
"""From this memory on, a snapshot process does not give way to calls: with busy processors it would take
seconds, and the log would grow in them by more than the state."""

SMALL_IMAGE_BYTES = 64 << 10
SMALL_IMAGE_OBJECTS = 16
"""Up to these, objects without code in their states are written by the host process itself."""

SNAPSHOT_NICENESS = 10
"""Niceness of the process that writes a snapshot: calls come first. A confined process may take this one and
no other."""

_MAPPED_AT_START = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
"""Bytes of address space, read before the process is confined."""


def write_in_child(
    objects: dict[int, Any],
    path: str,
    writer: int,
    stream: int,
    parent: int,
    *,
    classes: Mapping[int, type] = types.MappingProxyType({}),
    heads: Mapping[int, bytes] = types.MappingProxyType({}),
) -> None:
    """Runs in the forked process and never returns."""
    code, at = 1, None
    try:
        _native.die_with_parent(parent)
        _give_way()
        # The node must see the stream's end when the host dies, whatever this process does.
        os.close(stream)
        gc.disable()
        with open(path, "wb") as file:
            # What classes do when they are restored must not touch the machine here either.
            _environment.refuse_effects(True)
            file.write(struct.pack("<I", len(objects)))
            for number in sorted(objects):
                at = number
                _check_class(objects[number], classes.get(number))
                image = _native.dump_state(objects[number])
                file.writelines(_parts_of_image(number, heads.get(number, b""), image))
                if _has_room(len(image)):
                    _check_image(objects[number], image)
        code = 0
    except BaseException as error:
        whose = ""
        if at is not None and len(objects.keys() - _own.CLASSES.keys()) > 1:
            whose = f"{_names.name_of(type(objects[at]))}: "
        os.write(writer, f"{whose}{_making.one_line(error)}".encode()[:4096])
    finally:
        # Whatever was raised, and wherever: this process must not go on as a second host.
        os._exit(_on_disk.DAMAGED if _on_disk.is_damaged() else code)


def _parts_of_image(number: int, head: bytes, image: bytes) -> tuple[bytes, bytes, bytes]:
    return struct.pack("<IQ", number, len(head) + len(image)), head, image


def write_small(
    objects: Mapping[int, Any], path: str, classes: Mapping[int, type], heads: Mapping[int, bytes]
) -> bool:
    """Write the image if that is done sooner than a process is forked. What fails is left to the process."""
    if len(objects) > SMALL_IMAGE_OBJECTS:
        return False
    # What is to come for objects may be large, though their states are small.
    room = SMALL_IMAGE_BYTES - sum(map(len, heads.values()))
    parts = [struct.pack("<I", len(objects))]
    try:
        for number in sorted(objects):
            _check_class(objects[number], classes.get(number))
            image = _native.dump_small_state(objects[number], room) if room > 0 else None
            if image is None:
                return False
            room -= len(image)
            parts.extend(_parts_of_image(number, heads.get(number, b""), image))
        _write(path, b"".join(parts))
    except (OSError, ValueError):
        return False
    return True


def _write(path: str, content: bytes) -> None:
    was = _environment.refuse_effects(False)
    try:
        Path(path).write_bytes(content)
    finally:
        _environment.refuse_effects(was)


def _check_class(value: Any, cls: type | None) -> None:
    if cls is not None and not _making.may_stand_for(value, cls):
        told = f"{_names.name_of(cls)} has become a {_names.name_of(type(value))}"
        raise ValueError(
            f"{told}, which no start could know: assign self.__class__ in the module of the class"
        )


def _check_image(value: Any, image: bytes) -> None:
    """What no start could read would otherwise be found when the log that the image replaces is gone."""
    if _native.dump_state(_making.reloaded(image)) != image:
        raise ValueError(f"{_names.name_of(type(value))} changes when it is saved and restored")


def _has_room(image_bytes: int) -> bool:
    """Whether the memory suffices to hold state and image a second time."""
    most, _ = resource.getrlimit(resource.RLIMIT_AS)
    held = _native.largest_size() * 1024 + _on_disk.bytes_there()
    # What is mapped now cannot be asked: a confined process does not see its own /proc.
    return most == resource.RLIM_INFINITY or _MAPPED_AT_START + 2 * held + image_bytes < most


def _give_way() -> None:
    """Let calls have the processors first, unless the state is large."""
    held = _native.largest_size() * 1024 + _on_disk.bytes_there()
    if held < LARGE_STATE_BYTES and os.getpriority(os.PRIO_PROCESS, 0) < SNAPSHOT_NICENESS:
        # A refusal only means that the snapshot competes with calls at equal priority.
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, 0, SNAPSHOT_NICENESS)
