"""A lock that guards a file: a writer that stood still for too long cannot spoil it any more.

python examples/locked_file.py [ENDPOINT]  # such as that of `quorate up quorate.objects:Lock`"""

import fcntl
import os
import signal
import sys
import tempfile
from multiprocessing import get_context

import quorate
from quorate.objects import Lock


def append(path: str, token: int, text: str) -> None:
    """Add a line with the token of its writer, unless the file has seen a newer one."""
    with open(path, "a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # until it is closed: nobody writes in between
        file.seek(0)
        newest = max((int(line.split()[0]) for line in file), default=0)
        if token < newest:
            raise quorate.StaleToken(token, newest)
        file.write(f"{token} {text}\n")


def write_twice(endpoint: str, path: str) -> None:
    """A writer that stands still in between, as in a long pause of its machine."""
    with quorate.connect(endpoint, Lock, session_timeout=1) as lock:
        try:
            with quorate.guard(lock) as guard:
                append(path, guard.token, "first writer")
                os.kill(os.getpid(), signal.SIGSTOP)
                append(path, guard.token, "first writer, who believes that it has the lock")
        except quorate.StaleToken as refused:
            print(f"first writer refused: {refused}", flush=True)


def run(endpoint: str) -> None:
    """Let a second writer take the lock while the first one stands still, then wake the first."""
    with tempfile.NamedTemporaryFile("r") as file, quorate.connect(endpoint, Lock) as lock:
        first = get_context("spawn").Process(target=write_twice, args=(endpoint, file.name))
        first.start()
        assert first.pid is not None
        os.waitpid(first.pid, os.WUNTRACED)  # until it stands still
        with quorate.guard(lock) as guard:  # when the session of the first ends, after a second
            append(file.name, guard.token, "second writer")
        os.kill(first.pid, signal.SIGCONT)
        first.join()
        print(file.read(), end="")


if __name__ == "__main__":
    if sys.argv[1:]:
        run(sys.argv[1])
    else:
        with (group := quorate.local(Lock)):
            run(group.endpoint)
