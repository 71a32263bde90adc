"""A host process at the other end of a stream, told step by step what to execute, as a node does it."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from patience import PATIENCE_S

from quorate import _host, _native

HELLO, EXECUTE, SNAPSHOT, RESTORE, EXECUTE_AHEAD, UNDO = 1, 2, 4, 5, 6, 7
READY, EXECUTED, IMAGED, RESTORED = 0x81, 0x83, 0x85, 0x87
EXECUTED_UNDOABLE, UNDONE, UNDO_FAILED = 0x8D, 0x8E, 0x8F
TOLD_BESIDE = (0x8B, 0x8C)
CALL, TICK, LEFT_OUT_TICK = 0, 3, 4
RETURNED, PARKED = 0, 2
HEAD_BYTES, ANSWER_BYTES = 12, 18
"""Before the entries of a slot, and before the length of an answer."""

START_NS = 1_800_000_000_000_000_000
STEP_NS = 20_000_000
"""Agreed time between two steps."""


class Frames:
    """One host with one object, whose number is 1."""

    def __init__(self, path: str, unreliable: tuple[tuple[int, str], ...] = (), checks: str = "all") -> None:
        self._slot, self._wall_ns = 0, START_NS
        self._stream, theirs = socket.socketpair()
        self._stream.settimeout(PATIENCE_S)
        activity = os.memfd_create("activity")
        os.truncate(activity, 32)
        own = {"PYTHONHASHSEED": "0", "QUORATE_HOST_PARENT": str(os.getpid()), "TZ": "UTC"}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "quorate._host"],
            stdin=theirs.fileno(),
            stdout=activity,
            env={**os.environ, **own},
            cwd=Path(__file__).parent,
        )
        theirs.close()
        os.close(activity)
        hello = {
            "version": _host.VERSION,
            "seed": 7,
            "snapshots": True,
            "refuses": True,
            "paths": [str(Path(__file__).parent)],
            "allow": [],
            "sandbox": False,
            "scratch": "",
            "quiet": 0,
            "checks": checks,
            "liars": [],
            "unreliable": [list(each) for each in unreliable],
            "objects": [[1, "object", path, [[], {}], 0]],
        }
        self._send(HELLO, _native.dumps(hello))
        told = _native.loads(self._receive(READY))
        assert told[0] == "ready", told

    def call(self, method: str, *args: Any, number: int = 1, session: int = 1) -> Any:
        """What a call returns; None where it waits."""
        payload = _native.dump_call(method, args, {})
        slot = self._slot + 1
        body = self._step(CALL, struct.pack("<QQII", session, slot, number, len(payload)) + payload)
        if body[HEAD_BYTES] == PARKED:
            return None
        kind, length = struct.unpack_from("<BI", body, HEAD_BYTES)
        value = _native.loads(body[HEAD_BYTES + 5 : HEAD_BYTES + 5 + length])
        assert kind == RETURNED, value
        return value

    def ahead(self, method: str, *args: Any, number: int = 1, session: int = 1) -> bool:
        """Make a call in a slot that is not decided, nor any before it; whether the host can undo it."""
        self._send_ahead(method, args, number, session)
        kind, _ = self._either(EXECUTED, EXECUTED_UNDOABLE)
        return kind == EXECUTED_UNDOABLE

    def ahead_fails(self, method: str, *args: Any) -> str:
        """Make one before which the host ends; why it does."""
        self._send_ahead(method, args, 1, 1)
        return self._either(UNDO_FAILED)[1][8:].decode()

    def _send_ahead(self, method: str, args: tuple[Any, ...], number: int, session: int) -> None:
        payload = _native.dump_call(method, args, {})
        self._slot += 1
        self._wall_ns += STEP_NS
        head = struct.pack("<QQQQIIB", 0, self._slot, self._wall_ns, self._slot * 7919, 1, 0, CALL)
        call = struct.pack("<QQII", session, self._slot, number, len(payload)) + payload
        self._send(EXECUTE_AHEAD, head + call)

    def undo(self, slots: int) -> str:
        """Undo the last slots; why the host cannot, or nothing."""
        self._slot -= slots
        self._wall_ns -= slots * STEP_NS
        self._send(UNDO, struct.pack("<Q", self._slot))
        kind, body = self._either(UNDONE, UNDO_FAILED)
        return "" if kind == UNDONE else body[8:].decode()

    def image(self) -> bytes:
        """The images of the objects as they are."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "image")
            self._send(SNAPSHOT, struct.pack("<Q", self._slot) + str(path).encode())
            self._receive(IMAGED)
            return path.read_bytes()

    def tick(self, after_s: float = 0.0) -> list[Any]:
        """What is due happens, when some time has passed. Returns what those are answered who waited."""
        self._wall_ns += int(after_s * 1e9)
        body = self._step(TICK, b"")
        told, at = [], HEAD_BYTES + 1
        while at < len(body):
            (length,) = struct.unpack_from("<I", body, at + ANSWER_BYTES)
            at += ANSWER_BYTES + 4
            told.append(_native.loads(body[at : at + length]))
            at += length
        return told

    def leave_out_tick(self) -> None:
        """Hosts have died in it."""
        self._step(LEFT_OUT_TICK, b"")

    def _step(self, kind: int, step: bytes) -> bytes:
        self._slot += 1
        self._wall_ns += STEP_NS
        head = struct.pack("<QQQIIB", self._slot, self._wall_ns, self._slot * 7919, 1, 0, kind)
        self._send(EXECUTE, head + step)
        return self._receive(EXECUTED)

    def restart(self) -> None:
        """Its objects are made anew from their images."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "image")
            self._send(SNAPSHOT, struct.pack("<Q", self._slot) + str(path).encode())
            self._receive(IMAGED)
            self._send(RESTORE, struct.pack("<Q", self._slot) + path.read_bytes())
            self._receive(RESTORED)

    def end(self) -> None:
        """Close the stream, and wait for the process."""
        self._stream.close()
        self._process.kill()
        self._process.wait()

    def _send(self, kind: int, body: bytes) -> None:
        self._stream.sendall(struct.pack("<IB", len(body) + 1, kind) + body)

    def _receive(self, wanted: int) -> bytes:
        return self._either(wanted)[1]

    def _either(self, *wanted: int) -> tuple[int, bytes]:
        while True:
            length, kind = struct.unpack("<IB", self._exactly(5))
            body = self._exactly(length - 1)
            if kind in wanted:
                return kind, body
            assert kind in TOLD_BESIDE, body

    def _exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            part = self._stream.recv(count - len(data))
            assert part, "the host has ended"
            data += part
        return data
