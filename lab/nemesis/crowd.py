"""Clients that mean harm: they speak the wire as far as they need to take places, memory and turns of a node.

Each attack is a set of open sockets, or of threads that go on until told to stop. No attack waits for a node:
what a node refuses is part of the attack. `AttackProcess` runs one in a process of its own, so that it takes
no turns of the clients that are measured. Used by the faults of `faults_clients`.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import random
import resource
import select
import socket
import struct
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from crowd_noise import node_words, noise
from crowd_wire import (
    FROM_CLIENT,
    HEAD_BYTES,
    TO_CLIENT,
    answers,
    closes,
    fills,
    frame,
    head_alone,
    hello,
    hello_of_node,
    opened,
    opens,
)

VERSION_FILE = "core/wire/src/handshake.rs"

OPENS_PER_FRAME = 64
"""What a node serves of one client before the next one has its turn."""

OPENS_UNDER_WAY = 256
"""Of one connection: never admitted at once, and the crowd takes no processor for what only waits."""

PAUSE_S = 0.002
"""Until it is looked again whether enough is answered."""

CLOSES_PER_FRAME = 500

HOARDED_S = 3.0
"""How long one session's answers lie unread, until the next one asks for some."""

NOISE_PAUSE_S = 0.005
"""Between two connections of one sender of noise."""


class Crowd:
    """Sockets and threads of one attack; ended together."""

    def __init__(self, address: str, version: int) -> None:
        host, port = address.rsplit(":", 1)
        self._target = (host, int(port))
        self._version = version
        self._hello = hello(version)
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._is_over = threading.Event()
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()

    def counts(self) -> dict[str, int]:
        """How many connections were made, what was sent, and how many answers of each kind came."""
        with self._lock:
            return dict(self._counts)

    def _count(self, what: dict[str, int]) -> None:
        with self._lock:
            self._counts.update(what)

    def silent(self, count: int) -> None:
        """Connections on which nothing is ever said."""
        for _ in range(count):
            self._keep()

    def idle(self, count: int) -> None:
        """Clients that say hello, and nothing more."""
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        for _ in range(count):
            self._keep(self._hello)

    def half_frames(self, count: int, size: int) -> None:
        """Clients whose frame of `size` bytes lacks its last one. All connect, then all send at once."""
        whole = frame(FROM_CLIENT, bytes(16)) if size <= 16 else head_alone(size) + bytes(size)
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

        def fresh() -> Iterator[bytes]:
            while True:
                yield opens(OPENS_PER_FRAME)

        self._flood(threads, fresh, OPENS_PER_FRAME, OPENS_UNDER_WAY)

    def closes(self, threads: int) -> None:
        """Closes of sessions that belong to others, as fast as one machine can send them."""
        same = closes(CLOSES_PER_FRAME)
        self._flood(threads, lambda: itertools.repeat(same), CLOSES_PER_FRAME)

    def hoard(self, threads: int, calls: int, size: int) -> None:
        """Sessions that ask for so many large answers each, and neither read nor acknowledge them."""
        for _ in range(threads):
            self._go_on(partial(self._hoard, calls, size))

    def noise(self, threads: int, seed: int, cluster: int, node: int) -> None:
        """Random bytes, alone and behind the greeting of a client or a node, of this cluster or another."""

        def greeting(rng: random.Random) -> bytes:
            named = rng.choice((cluster, rng.getrandbits(64)))
            as_node = hello_of_node(self._version, named, node, rng.randbytes(16))
            return rng.choice((b"", self._hello, as_node))

        for number in range(threads):
            self._go_on(partial(self._make_noise, random.Random(f"{seed}/{number}"), greeting))

    def impostor(self, seed: int) -> None:
        """Listens where a node should, and answers whoever dials it with what a node could say."""
        listener = socket.create_server(self._target)
        listener.settimeout(1.0)
        self._go_on(partial(self._answer_dials, listener, random.Random(seed)))

    def end(self) -> None:
        """Stop all threads and close all sockets."""
        self._is_over.set()
        for one in self._sockets:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        for thread in self._threads:
            thread.join()

    def _flood(
        self,
        threads: int,
        frames: Callable[[], Iterator[bytes]],
        requests: int,
        under_way: float = float("inf"),
    ) -> None:
        def go() -> None:
            while not self._is_over.is_set():
                one = self._keep(self._hello)
                if one is None:
                    self._is_over.wait(0.1)
                    continue
                answered: list[int] = [0]
                self._go_on(partial(self._count_answers, one, answered))
                with contextlib.suppress(OSError):
                    for number, each in enumerate(frames()):
                        while number * requests - answered[0] > under_way and not self._is_over.wait(PAUSE_S):
                            pass
                        if self._is_over.is_set():
                            break
                        one.sendall(each)
                        self._count({"sent": requests})

        for _ in range(threads):
            self._go_on(go)

    def _count_answers(self, one: socket.socket, answered: list[int]) -> None:
        read = one.makefile("rb", buffering=1 << 16).read
        # A connection that ends in the middle of a frame leaves too few bytes.
        with contextlib.suppress(OSError, struct.error, IndexError):
            while head := read(HEAD_BYTES):
                length, kind = struct.unpack_from("<IB", head)
                body = read(length)
                if kind == TO_CLIENT:
                    counts = Counter(answers(body))
                    answered[0] += counts.total() - counts["leader"]
                    self._count(counts)
        # Whoever waits for more answers hears that none come.
        with contextlib.suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
        answered[0] = 1 << 62

    def _make_noise(self, rng: random.Random, greeting: Callable[[random.Random], bytes]) -> None:
        # Making random frames takes the processors that the nodes need; they are what is measured.
        while not self._is_over.wait(NOISE_PAUSE_S):
            made = None
            with contextlib.suppress(OSError):
                made = socket.create_connection(self._target, timeout=1.0)
                self._count({"connections": 1})
                self._say(made, [greeting(rng), *(noise(rng) for _ in range(rng.randrange(1, 8)))])
            if made is not None:
                made.close()

    def _answer_dials(self, listener: socket.socket, rng: random.Random) -> None:
        while not self._is_over.is_set():
            with contextlib.suppress(OSError):
                made, _ = listener.accept()
                with made:
                    made.settimeout(1.0)
                    self._count({"connections": 1, "heard": len(made.recv(4096))})
                    words = [node_words(rng) for _ in range(rng.randrange(1, 4))]
                    self._say(made, [*words, noise(rng)])
                    # What is not read yet is lost when this end closes first.
                    made.shutdown(socket.SHUT_WR)
                    while made.recv(4096):
                        pass

    def _hoard(self, calls: int, size: int) -> None:
        while not self._is_over.is_set():
            one = self._keep(self._hello + opens(1))
            if one is None:
                self._is_over.wait(0.1)
                continue
            one.settimeout(5.0)
            with contextlib.suppress(OSError, struct.error):
                read = one.makefile("rb").read
                session = None
                while session is None:
                    length, kind = struct.unpack_from("<IB", read(HEAD_BYTES))
                    body = read(length)
                    session = opened(body) if kind == TO_CLIENT else None
                one.sendall(fills(session, calls, size))
                self._count({"sent": calls})
                self._is_over.wait(HOARDED_S)

    def _say(self, to: socket.socket, pieces: list[bytes]) -> None:
        for piece in pieces:
            to.sendall(piece)
            self._count({"bytes": len(piece)})

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
        self._count({"connections": 1})
        return made


class AttackProcess:
    """An attack in a process of its own."""

    def __init__(
        self, address: str, version: int, attack: str, *numbers: int, prefix: Sequence[str] = ()
    ) -> None:
        words = [address, str(version), attack, *(str(number) for number in numbers)]
        self._process = subprocess.Popen(
            [*prefix, sys.executable, __file__, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._ask()

    def count(self, what: str) -> int:
        """How many of what `Crowd.counts` tells there were so far."""
        return self._ask().get(what, 0)

    def end(self) -> None:
        """Let all its connections go."""
        self._process.kill()
        self._process.wait(timeout=10.0)

    def _ask(self) -> dict[str, int]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        told: dict[str, int] = json.loads(self._process.stdout.readline())
        return told


def main() -> None:
    """`crowd.py ADDRESS VERSION ATTACK NUMBER...`: attack until the input ends; a line asks for counts."""
    address, version, attack, *numbers = sys.argv[1:]
    crowd = Crowd(address, int(version))
    attacks: dict[str, Callable[..., None]] = {
        "silent": crowd.silent,
        "idle": crowd.idle,
        "half-frames": crowd.half_frames,
        "drips": crowd.drip,
        "opens": crowd.sessions,
        "closes": crowd.closes,
        "noise": crowd.noise,
        "hoard": crowd.hoard,
        "impostor": crowd.impostor,
    }
    attacks[attack](*(int(number) for number in numbers))
    for _ in sys.stdin:
        print(json.dumps(crowd.counts()), flush=True)


if __name__ == "__main__":
    main()
