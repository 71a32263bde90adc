"""Clients that mean harm: they speak the wire as far as they need to take places, memory and turns of a node.

Each attack is a set of open sockets, or of threads that go on until told to stop. No attack waits for a node:
what a node refuses is part of the attack. Used by the faults of `faults_clients`.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import threading
from collections.abc import Callable

GROUP = 1
HELLO, FROM_CLIENT = 1, 5
OPEN, CLOSE = 1, 5
VERSION_FILE = "core/wire/src/handshake.rs"


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


def hello(version: int) -> bytes:
    """The greeting of a client."""
    role = struct.pack("<BI", 2, GROUP)
    body = b"\xf1QRT" + struct.pack("<HH", version, version) + b"\0" + role
    return frame(HELLO, body + struct.pack("<H", 5) + b"crowd" + struct.pack("<I", 0))


class Crowd:
    """Sockets and threads of one attack; ended together."""

    def __init__(self, address: str, version: int) -> None:
        host, port = address.rsplit(":", 1)
        self._target = (host, int(port))
        self._hello = hello(version)
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._is_over = threading.Event()

    def silent(self, count: int) -> None:
        """Connections on which nothing is ever said."""
        for _ in range(count):
            self._keep()

    def half_frames(self, count: int, size: int) -> None:
        """Clients whose frame of `size` bytes lacks its last one."""
        whole = frame(FROM_CLIENT, bytes(16)) if size <= 16 else self._large(size)
        for _ in range(count):
            self._keep(self._hello + whole[:-1])

    def drip(self, count: int) -> None:
        """Slow loris: clients that send a byte of a frame each second."""
        dripping = [made for made in (self._keep(self._hello) for _ in range(count)) if made]
        bytes_left = iter(frame(FROM_CLIENT, bytes(4096)))

        def drop() -> None:
            for byte in bytes_left:
                if self._is_over.wait(1.0):
                    return
                for one in dripping:
                    with contextlib.suppress(OSError):
                        one.send(bytes([byte]))

        self._go_on(drop)

    def sessions(self, threads: int) -> None:
        """Opens of sessions as fast as one machine can send them."""
        self._flood(threads, lambda: struct.pack("<B", OPEN) + os.urandom(16))

    def closes(self, threads: int) -> None:
        """Closes of sessions that belong to others, as fast as one machine can send them."""
        self._flood(threads, lambda: struct.pack("<BQ", CLOSE, 1 << 16))

    def end(self) -> None:
        """Stop all threads and close all sockets."""
        self._is_over.set()
        for one in self._sockets:
            one.close()
        for thread in self._threads:
            thread.join()

    def _flood(self, threads: int, message: Callable[[], bytes]) -> None:
        def go() -> None:
            while not self._is_over.is_set():
                one = self._keep(self._hello)
                if one is None:
                    self._is_over.wait(0.1)
                    continue
                with contextlib.suppress(OSError):
                    while not self._is_over.is_set():
                        one.sendall(frame(FROM_CLIENT, b"".join(message() for _ in range(500))))

        for _ in range(threads):
            self._go_on(go)

    def _go_on(self, work: Callable[[], None]) -> None:
        thread = threading.Thread(target=work, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _keep(self, says: bytes = b"") -> socket.socket | None:
        try:
            made = socket.create_connection(self._target, timeout=5.0)
            made.sendall(says)
        except OSError:
            return None
        self._sockets.append(made)
        return made

    @staticmethod
    def _large(size: int) -> bytes:
        head = struct.pack("<IBBHI", size, FROM_CLIENT, 0, 0, GROUP)
        return head + bytes(4 + size)
