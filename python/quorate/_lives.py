"""The other end of `_replica_process`: processes that hold a class, and the lives that they fork."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from typing import Any, BinaryIO, Self, cast

from quorate import _native
from quorate._errors import QuorateError, UnsupportedValue
from quorate._replica_process import REQUEST_BYTES_MAX
from quorate._trial import send

ANSWER_SECONDS = 30.0
"""A call ends within two seconds, or is ended: what takes so long answers no more."""


class LifeEnded(Exception):
    """The process of a life has ended, or answers no more."""


class Life:
    """A process with one instance."""

    def __init__(self, connection: socket.socket) -> None:
        connection.settimeout(ANSWER_SECONDS)
        self._connection = connection
        self._stream = cast(BinaryIO, connection.makefile("rwb"))

    def ask(self, *message: Any) -> Any:
        """Ask for something and wait; raises LifeEnded."""
        try:
            send(self._stream, list(message))
            head = self._stream.read(4)
            if len(head) == 4:
                return _native.loads(self._stream.read(int.from_bytes(head, "little")))
        except (OSError, TimeoutError):
            pass
        raise LifeEnded

    def close(self) -> None:
        """End the process."""
        with contextlib.suppress(OSError):
            self._stream.close()
        self._connection.close()


class Source:
    """A process that has imported a class; as a context manager it ends with its lives."""

    def __init__(self, request: dict[str, Any], hash_seed: int) -> None:
        encoded = _native.dumps(request)
        if len(encoded) > REQUEST_BYTES_MAX:
            raise UnsupportedValue(
                f"the class's arguments have {len(encoded)} bytes, and at most {REQUEST_BYTES_MAX} can be "
                "given: call a method with the rest"
            )
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed), "TZ": "UTC", "LC_ALL": "C.UTF-8"}
        package = os.path.dirname(os.path.dirname(__file__))
        paths = [package, os.environ.get("PYTHONPATH", "")]
        environment["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "quorate._replica_process"], stdin=theirs.fileno(), env=environment
            )
        self._control.send(encoded)

    def __enter__(self) -> Self:
        """Wait until the class is imported; raises QuorateError when it cannot be."""
        self._control.settimeout(ANSWER_SECONDS)
        told = self._control.recv(64 << 10)
        reason = _native.loads(told) if told else "the process that imports it ended"
        if reason is not None:
            self.close()
            raise QuorateError(f"the class cannot be simulated: {reason}")
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the process, and with it its lives."""
        self._control.close()
        self._process.kill()
        self._process.wait()

    def begin(self) -> Life:
        """A new life, in which nothing is made yet."""
        ours, theirs = socket.socketpair()
        with theirs:
            socket.send_fds(self._control, [b"life"], [theirs.fileno()])
        return Life(ours)
