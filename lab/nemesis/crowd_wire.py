"""The wire as far as a crowd speaks it: frames, greetings, requests that cost something, answers.

`docs/wire.md` has the layouts. Used by the attacks of `crowd` and `crowd_noise`; opens no socket.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator

GROUP = 1
HELLO, WELCOME, REJECT, FROM_CLIENT, TO_CLIENT = 1, 2, 3, 5, 6
REACH, SIGHTING, CHALLENGE, PROOF = 11, 12, 13, 14
OPEN, CALL, CLOSE = 1, 2, 5
HEAD_BYTES = 16

EXPIRY_NS = 5_000_000_000
"""Of a session that asks for no other time."""

NAMES = {1: "opened", 2: "replied", 4: "refused", 5: "kept alive", 7: "leader", 8: "full"}
"""Answers by their tags: those that an attack here can get."""

_OPENED_BYTES, _KEPT_ALIVE_BYTES, _FULL_BYTES = 33, 9, 25
_ASKED_BYTES = {1: 16, 2: 16, 3: 8, 4: 8}
"""What names the refused request, by what it names."""


def crc32c(data: bytes) -> int:
    """The checksum of a frame."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


def _entry(number: int) -> int:
    for _ in range(8):
        number = (number >> 1) ^ (0x82F63B78 if number & 1 else 0)
    return number


_TABLE = [_entry(number) for number in range(256)]


def frame(kind: int, body: bytes) -> bytes:
    """One frame of the wire."""
    head = struct.pack("<IBBHI", len(body), kind, 0, 0, GROUP)
    return head + struct.pack("<I", crc32c(head + body)) + body


def head_alone(size: int) -> bytes:
    """The head of a client's frame of `size` bytes; its checksum fits no body."""
    return struct.pack("<IBBHII", size, FROM_CLIENT, 0, 0, GROUP, 0)


def hello(version: int) -> bytes:
    """The greeting of a client that takes any cluster."""
    return _greeting(version, b"\0", struct.pack("<BI", 2, GROUP), b"")


def hello_of_node(version: int, cluster: int, node: int, nonce: bytes) -> bytes:
    """The greeting of somebody who says to be a node."""
    role = struct.pack("<BHQQII", 1, node, 0, 1, 1, GROUP)
    return _greeting(version, struct.pack("<BQ", 1, cluster), role, nonce)


def _greeting(version: int, cluster: bytes, role: bytes, extra: bytes) -> bytes:
    body = b"\xf1QRT" + struct.pack("<HH", version, version) + cluster + role
    software = struct.pack("<H", 5) + b"crowd"
    return frame(HELLO, body + software + struct.pack("<I", len(extra)) + extra)


def opens(count: int) -> bytes:
    """A frame that opens so many sessions, each with a fresh secret and the usual terms."""
    terms = struct.pack("<QB", EXPIRY_NS, 0)
    return frame(
        FROM_CLIENT, b"".join(struct.pack("<B", OPEN) + os.urandom(16) + terms for _ in range(count))
    )


def closes(count: int) -> bytes:
    """A frame that closes a session of somebody else so many times."""
    return frame(FROM_CLIENT, struct.pack("<BQ", CLOSE, 1 << 16) * count)


def fills(session: int, count: int, size: int) -> bytes:
    """A frame that calls `fill` of the first object so many times, and acknowledges no answer."""
    payload = b"\x83\x64fill\x81\x1a" + struct.pack(">I", size) + b"\xa0"
    head = struct.pack("<BQ", CALL, session)
    tail = struct.pack("<QII", 0, 0, len(payload)) + payload
    return frame(FROM_CLIENT, b"".join(head + struct.pack("<Q", at + 1) + tail for at in range(count)))


def answers(body: bytes) -> Iterator[str]:
    """The names of the answers in a frame to a client; ValueError for what no attack here asks for."""
    return (name for name, _ in _each(body))


def opened(body: bytes) -> int | None:
    """The session that a frame to a client says is opened."""
    found = (struct.unpack_from("<Q", body, at + 17)[0] for name, at in _each(body) if name == "opened")
    return next(found, None)


def _each(body: bytes) -> Iterator[tuple[str, int]]:
    at = 0
    while at < len(body):
        name = NAMES.get(body[at])
        if name is None:
            raise ValueError(f"an answer with the tag {body[at]}")
        yield name, at
        at += _size_of(name, body, at)


def _size_of(name: str, body: bytes, at: int) -> int:
    if name == "refused":
        return 3 + _ASKED_BYTES[body[at + 1]]
    if name == "leader":
        return 4 if body[at + 1] else 2
    if name == "replied":
        is_skipped = body[at + 17] == 3
        return 18 if is_skipped else 22 + int(struct.unpack_from("<I", body, at + 18)[0])
    return {"opened": _OPENED_BYTES, "kept alive": _KEPT_ALIVE_BYTES, "full": _FULL_BYTES}[name]
