"""A process that only reads what a crowd sends: shows what a busy machine alone costs the clients of a group.

Used by the fault `crowd-half-frames-elsewhere`, whose figures stand beside those of the crowd at a node.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import subprocess
import sys

BACKLOG = 1024
READ_BYTES = 1 << 20


class SinkProcess:
    """The sink in a process of its own, on a free port of loopback."""

    def __init__(self) -> None:
        self._process = subprocess.Popen([sys.executable, __file__], stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.address = self._process.stdout.readline().strip()

    def end(self) -> None:
        """End the process, and with it all its connections."""
        self._process.kill()
        self._process.wait(timeout=10.0)


def main() -> None:
    """Read until killed."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=BACKLOG)
    listener.setblocking(False)
    host, port = listener.getsockname()
    print(f"{host}:{port}", flush=True)
    poll = selectors.DefaultSelector()
    poll.register(listener, selectors.EVENT_READ)
    scratch = bytearray(READ_BYTES)
    while True:
        for key, _ in poll.select():
            ready = key.fileobj
            assert isinstance(ready, socket.socket)
            if ready is listener:
                made, _ = listener.accept()
                made.setblocking(False)
                poll.register(made, selectors.EVENT_READ)
            elif not _read(ready, scratch):
                poll.unregister(ready)
                ready.close()


def _read(ready: socket.socket, scratch: bytearray) -> int:
    with contextlib.suppress(OSError):
        return ready.recv_into(scratch)
    return 0


if __name__ == "__main__":
    main()
