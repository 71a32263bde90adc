"""Modules that end the process that imports them.

A command would end with such a module, and say nothing. So it has another process import the module
first. A host that imports a module for an object that is created would end on every node: there the module
gets an exception instead.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import select
import signal
import sys
import threading
from collections.abc import Iterator
from typing import NoReturn

from quorate import _environment, _native

_IMPORTED = b"imported"

_TOLD_MAX = 4096

IMPORT_SECONDS_MAX = 60.0
"""A node waits as long for a host that imports its modules: no group starts with one that takes longer."""

_WAY_OUT = 'or keep it below `if __name__ == "__main__":`'


def end_of_import(module: str) -> str | None:
    """How and where a process ends that imports the module, or that it never does; None where it goes on.

    >>> end_of_import("collections") is None
    True
    """
    # A fork of several threads may wait for a lock that one of the others had.
    if module in sys.modules or threading.active_count() > 1:
        return None
    sys.stdout.flush()
    sys.stderr.flush()
    ours, theirs = os.pipe()
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        _native.die_with_parent(parent)
        _import(module, theirs)
    os.close(theirs)
    has_ended = _ends_within(child, IMPORT_SECONDS_MAX)
    if not has_ended:
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    # What the module has started may have the other end still.
    os.set_blocking(ours, False)
    try:
        told = os.read(ours, _TOLD_MAX)
    except BlockingIOError:
        told = b""
    os.close(ours)
    if told == _IMPORTED:
        return None
    if not has_ended:
        message = f"importing {module!r} did not end within {IMPORT_SECONDS_MAX:g} s"
        return f"{message}: remove what does not end, {_WAY_OUT}"
    code = os.waitstatus_to_exitcode(status)
    how = f"with exit code {code}" if code >= 0 else f"by signal {-code}"
    place = f", at {told.decode(errors='replace')}" if told else ""
    return f"importing {module!r} ended the process {how}{place}: remove what ends it, {_WAY_OUT}"


def _ends_within(child: int, seconds: float) -> bool:
    """Whether a child process ends in that time."""
    end = os.pidfd_open(child)
    try:
        poll = select.poll()
        poll.register(end, select.POLLIN)
        return bool(poll.poll(seconds * 1000))
    finally:
        os.close(end)


class Ended(BaseException):
    """What a module gets that ends its process while a host imports it."""

    def __init__(self, how: str, place: str) -> None:
        super().__init__(f"it ends its process {how}, at {place}: remove what ends it, {_WAY_OUT}")


@contextlib.contextmanager
def kept_from_ending() -> Iterator[None]:
    """Have `os._exit` and `os.abort` raise `Ended` in this thread of this process."""
    process, thread = _environment.real_pid(), threading.get_ident()
    leave, abort = os._exit, os.abort
    is_importing = True

    def refuse(how: str) -> None:
        if is_importing and (process, thread) == (_environment.real_pid(), threading.get_ident()):
            caller = sys._getframe(2)
            # Directories differ between the nodes, and what is told must not.
            raise Ended(how, f"{os.path.basename(caller.f_code.co_filename)}:{caller.f_lineno}")

    # What imports them by name calls these ever after.
    def told_leave(status: int) -> NoReturn:
        refuse(f"with exit code {status}")
        leave(status)

    def told_abort() -> NoReturn:
        refuse("by os.abort")
        abort()

    os._exit, os.abort = told_leave, told_abort
    try:
        yield
    finally:
        is_importing = False
        os._exit, os.abort = leave, abort


def _import(module: str, theirs: int) -> NoReturn:
    """In another process: import the module, and tell where that ended the process, or that it did not."""
    own, leave = os.getpid(), os._exit

    def tell_and_leave(status: int) -> NoReturn:
        if os.getpid() == own:
            caller = sys._getframe(1)
            os.write(theirs, f"{caller.f_code.co_filename}:{caller.f_lineno}".encode()[:_TOLD_MAX])
        leave(status)

    null = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(null, stream)
    os._exit = tell_and_leave
    # What it raises is raised again where the command imports the module, which says so.
    with contextlib.suppress(BaseException):
        importlib.import_module(module)
    os.write(theirs, _IMPORTED)
    leave(0)
