"""Host processes as a node runs them, without the node: docs/host-protocol.md tells how."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from quorate import _host, _native

from .kinds import Value
from .subject import Subject

_HELLO, _EXECUTE, _SNAPSHOT, _RESTORE = 1, 2, 4, 5
_READY, _EXECUTED, _IMAGED, _RESTORED, _DUE = 0x81, 0x83, 0x85, 0x87, 0x8B
ANSWER_S = 20.0
"""A host that does not answer within this is taken for stuck."""
_START_NS = 1_700_000_000_000_000_000


HASH_SEED = 1


class Unfit(Exception):
    """The host refuses the object; the text is what `quorate up` says."""


class HostFailed(Exception):
    """An image could not be made or read, or the host ended."""


@dataclass(frozen=True)
class Outcome:
    """How a call ended: the bytes of what it returned or raised."""

    is_returned: bool
    data: bytes

    def __str__(self) -> str:
        return f"{'returned' if self.is_returned else 'raised'} {_native.loads(self.data)}"


class Host:
    """One host process with one object.

    Time and entropy of a call are made of the call's number, so that two hosts agree on them.
    """

    def __init__(self, subject: Subject) -> None:
        self._slot = 0
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed by end()
        ours, theirs = socket.socketpair()
        self._stream = ours
        ours.settimeout(ANSWER_S)
        activity = os.memfd_create("activity")
        os.truncate(activity, 32)
        own = {
            "PYTHONHASHSEED": str(HASH_SEED),
            "QUORATE_HOST_PARENT": str(os.getpid()),
            "TZ": "UTC",
            "LC_ALL": "C.UTF-8",
        }
        self._process = subprocess.Popen(
            [sys.executable, "-m", "quorate._host"],
            stdin=theirs,
            stdout=activity,
            stderr=self._log,
            env={**os.environ, **own},
        )
        theirs.close()
        os.close(activity)
        hello = {
            "version": _host.VERSION,
            "seed": 7,
            "snapshots": True,
            "refuses": True,
            "paths": [],
            "allow": list(subject.allow),
            "sandbox": False,
            "scratch": "",
            "quiet": 0,
            "checks": "all",
            "liars": [],
            "unreliable": [],
            "objects": [[1, "object", subject.path, [list(subject.args), dict(subject.kwargs)], 0]],
        }
        self._send(_HELLO, _native.dumps(hello))
        answer = _native.loads(self._receive(_READY))
        if answer[0] != "ready":
            self.end()
            raise Unfit(answer[3])

    def call(self, slot: int, method: str, args: tuple[Value, ...], kwargs: Value) -> Outcome:
        """Call the object."""
        payload = _native.dump_call(method, args, kwargs)
        wall = _START_NS + slot * 1_000_000
        head = struct.pack(
            "<QQQIIBQQII", slot, wall, slot * 7919, 1, 0, 0, 1, slot, 1, len(payload)
        )
        self._send(_EXECUTE, head + payload)
        body = self._receive(_EXECUTED)
        _, _, raised, length = struct.unpack_from("<QIBI", body)
        data = body[17 : 17 + length]
        return Outcome(is_returned=not raised, data=data)

    def image(self) -> bytes:
        """The state as a snapshot has it."""
        with tempfile.TemporaryDirectory(prefix="foreign-") as directory:
            path = Path(directory) / "image"
            self._slot += 1
            self._send(_SNAPSHOT, struct.pack("<Q", self._slot) + str(path).encode())
            self._receive(_IMAGED)
            return path.read_bytes()[16:]

    def restore(self, image: bytes) -> None:
        """Replace the object by one made from an image."""
        self._slot += 1
        self._send(_RESTORE, struct.pack("<QIIQ", self._slot, 1, 1, len(image)) + image)
        self._receive(_RESTORED)

    def end(self) -> None:
        """Close the stream, and wait for the process."""
        self._stream.close()
        self._process.kill()
        self._process.wait()
        self._log.close()

    def _send(self, kind: int, body: bytes) -> None:
        self._stream.sendall(struct.pack("<IB", len(body) + 1, kind) + body)

    def _receive(self, wanted: int) -> bytes:
        length, kind = struct.unpack("<IB", self._exactly(5))
        body = self._exactly(length - 1)
        if kind == _DUE:
            return self._receive(wanted)
        if kind != wanted:
            raise HostFailed(body[8:].decode(errors="replace"))
        return body

    def _exactly(self, count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            try:
                part = self._stream.recv(count - len(data))
            except TimeoutError as late:
                raise HostFailed("the host does not answer") from late
            if not part:
                self._process.wait()
                self._log.seek(0)
                raise HostFailed(
                    f"the host ended: {self._log.read().decode(errors='replace')[-3000:]}"
                )
            data += part
        return bytes(data)
