"""The other end of `_replica_process`: processes that hold a class, and the lives that they fork."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from typing import Any, BinaryIO, Self, cast

from quorate import _native
from quorate._errors import QuorateError, UnsupportedValue
from quorate._replica_process import REQUEST_BYTES_MAX
from quorate._trial import send
from quorate._trials import ENDLESS, Answers, NoAnswer

ANSWER_SECONDS = 30.0
"""For what is no call, such as a constructor."""

CALL_SECONDS_MAX = 5.0
"""For a call and the image of what it left: the alarm inside ends a loop in Python after two seconds."""


class LifeEnded(Exception):
    """The process of a life has ended, or it did not go on and was ended."""

    def __init__(self, *, is_stuck: bool) -> None:
        super().__init__()
        self.is_stuck = is_stuck

    def reason(self, method: str, ends: str) -> str:
        """What the method did; `ends` says in words whose process it ended.

        >>> LifeEnded(is_stuck=False).reason("quit", "ends the process that executes it")
        '`quit` ends the process that executes it'
        """
        return f"`{method}` {ENDLESS if self.is_stuck else ends}"

    @property
    def fix(self) -> str:
        """What to do."""
        return "bound its loops" if self.is_stuck else "raise an exception instead"


class Life:
    """A process with one instance."""

    def __init__(self, connection: socket.socket) -> None:
        connection.settimeout(ANSWER_SECONDS)
        self._connection = connection
        self._stream = cast(BinaryIO, connection.makefile("wb"))
        self._answers = Answers(
            connection.fileno(), call_seconds=CALL_SECONDS_MAX, step_seconds=ANSWER_SECONDS
        )

    @property
    def method(self) -> str:
        """The method that it called last of those that it made up."""
        return self._answers.method

    def ask(self, *message: Any) -> Any:
        """Ask for something and wait; raises LifeEnded."""
        self._answers.is_calling = message[0] in ("call", "read")
        try:
            send(self._stream, list(message))
            return self._answers.next()
        except NoAnswer as why:
            if why.is_stuck:
                self._kill()
            raise LifeEnded(is_stuck=why.is_stuck) from None
        except OSError:
            raise LifeEnded(is_stuck=False) from None

    def _kill(self) -> None:
        """A process that does not go on would not see that its connection is closed."""
        pid = self._answers.said.get("pid")
        with contextlib.suppress(ProcessLookupError):
            if pid is not None:
                os.kill(pid, signal.SIGKILL)

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
