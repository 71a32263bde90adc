"""Clients that mean harm: they speak the wire as far as they need to take places, memory and turns of a node.

Each attack is a set of open sockets, or of threads that go on until told to stop. No attack waits for a node:
what a node refuses is part of the attack. `AttackProcess` runs one in a process of its own, so that it takes
no turns of the clients that are measured. Used by the faults of `faults_clients`.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import select
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial

GROUP = 1
HELLO, FROM_CLIENT, TO_CLIENT = 1, 5, 6
OPEN, CLOSE = 1, 5
VERSION_FILE = "core/wire/src/handshake.rs"
HEAD_BYTES = 16
REFUSED_BYTES = 11
"""The answer to the close of a session that belongs to somebody else."""

KINDS = range(16)
"""Of frames, and a little above."""


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
        self.answered_bytes = 0
        self.said = 0

    def silent(self, count: int) -> None:
        """Connections on which nothing is ever said."""
        for _ in range(count):
            self._keep()

    def half_frames(self, count: int, size: int) -> None:
        """Clients whose frame of `size` bytes lacks its last one. All connect, then all send at once."""
        whole = frame(FROM_CLIENT, bytes(16)) if size <= 16 else self._large(size)
        sending = [made for made in (self._keep(self._hello) for _ in range(count)) if made]
        left = {made: memoryview(whole)[:-1] for made in sending}
        for made in sending:
            made.setblocking(False)
        while left:
            _, ready, _ = select.select([], list(left), [], 1.0)
            for made in ready:
                try:
                    left[made] = left[made][made.send(left[made]) :]
                except OSError:
                    # The node has closed it.
                    del left[made]
                    continue
                if not left[made]:
                    del left[made]

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
        opens = [b"".join(struct.pack("<B", OPEN) + os.urandom(16) for _ in range(500)) for _ in range(100)]
        self._flood(threads, [frame(FROM_CLIENT, body) for body in opens])

    def closes(self, threads: int) -> None:
        """Closes of sessions that belong to others, as fast as one machine can send them."""
        self._flood(threads, [frame(FROM_CLIENT, struct.pack("<BQ", CLOSE, 1 << 16) * 500)])

    def noise(self, threads: int, seed: int) -> None:
        """Random bytes: alone, behind a greeting, in whole frames, and as frames with flipped bits."""
        for number in range(threads):
            self._go_on(partial(self._make_noise, random.Random(f"{seed}/{number}")))

    def end(self) -> None:
        """Stop all threads and close all sockets."""
        self._is_over.set()
        for one in self._sockets:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        for thread in self._threads:
            thread.join()

    def _flood(self, threads: int, frames: list[bytes]) -> None:
        def go() -> None:
            while not self._is_over.is_set():
                one = self._keep(self._hello)
                if one is None:
                    self._is_over.wait(0.1)
                    continue
                self._go_on(partial(self._count_answers, one))
                with contextlib.suppress(OSError):
                    for each in itertools.cycle(frames):
                        if self._is_over.is_set():
                            break
                        one.sendall(each)

        for _ in range(threads):
            self._go_on(go)

    def _count_answers(self, one: socket.socket) -> None:
        answers = one.makefile("rb", buffering=1 << 16)
        with contextlib.suppress(OSError, ValueError):
            while head := answers.read(HEAD_BYTES):
                length, kind = struct.unpack_from("<IB", head)
                body = answers.read(length)
                self.answered_bytes += len(body) if kind == TO_CLIENT else 0

    def _make_noise(self, rng: random.Random) -> None:
        while not self._is_over.is_set():
            made = None
            with contextlib.suppress(OSError):
                made = socket.create_connection(self._target, timeout=1.0)
                made.sendall(rng.choice((b"", self._hello)))
                for _ in range(rng.randrange(1, 8)):
                    made.sendall(_noise(rng))
                    self.said += 1
            if made is not None:
                made.close()

    def _go_on(self, work: Callable[[], None]) -> None:
        thread = threading.Thread(target=work, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _keep(self, says: bytes = b"") -> socket.socket | None:
        try:
            made = socket.create_connection(self._target, timeout=5.0)
            made.sendall(says)
            made.settimeout(None)
        except OSError:
            return None
        self._sockets.append(made)
        return made

    @staticmethod
    def _large(size: int) -> bytes:
        head = struct.pack("<IBBHI", size, FROM_CLIENT, 0, 0, GROUP)
        return head + bytes(4 + size)


def _noise(rng: random.Random) -> bytes:
    body = rng.randbytes(rng.randrange(2000))
    drawn = rng.randrange(4)
    if drawn == 0:
        return body
    if drawn == 1:
        return b"GET /" + body + b"\r\n\r\n"
    whole = bytearray(frame(rng.choice(KINDS), body))
    if drawn == 2:
        whole[rng.randrange(len(whole))] ^= 1 << rng.randrange(8)
    return bytes(whole)


class AttackProcess:
    """An attack in a process of its own."""

    def __init__(self, address: str, version: int, attack: str, *numbers: int) -> None:
        words = [address, str(version), attack, *(str(number) for number in numbers)]
        self._process = subprocess.Popen(
            [sys.executable, __file__, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._ask()

    def answered(self) -> int:
        """How many closes were answered so far."""
        return self._ask()[0] // REFUSED_BYTES

    def said(self) -> int:
        """How many pieces of noise were sent."""
        return self._ask()[1]

    def end(self) -> None:
        """Let all its connections go."""
        self._process.kill()
        self._process.wait(timeout=10.0)

    def _ask(self) -> list[int]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return [int(word) for word in self._process.stdout.readline().split()]


def main() -> None:
    """`crowd.py ADDRESS VERSION ATTACK NUMBER...`: attack until the input ends; a line asks for counts."""
    address, version, attack, *numbers = sys.argv[1:]
    crowd = Crowd(address, int(version))
    attacks: dict[str, Callable[..., None]] = {
        "silent": crowd.silent,
        "half-frames": crowd.half_frames,
        "drips": crowd.drip,
        "opens": crowd.sessions,
        "closes": crowd.closes,
        "noise": crowd.noise,
    }
    attacks[attack](*(int(number) for number in numbers))
    for _ in sys.stdin:
        print(crowd.answered_bytes, crowd.said, flush=True)


if __name__ == "__main__":
    main()
