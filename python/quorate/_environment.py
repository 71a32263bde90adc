"""The agreed environment, installed in the host process before objects' modules are imported.

Inside a method every replica sees the same: `time.*` and `datetime.now` give the time on which the group
agreed for the batch (it stands still during a call, and rises from batch to batch); `random`, `uuid`,
`secrets` and `os.urandom` draw from a stream that belongs to the call. `time.sleep`, threads, sockets,
child processes and writing files are refused: they would stall the group or differ between replicas. What
Python hashes by its address has an agreed hash (`_hashes`). Time zones come from the package `tzdata`, not
from the machine, and the numbers of process and thread and the machine's name are the same everywhere.

This touches the host process only. Importing `quorate` changes nothing in yours.
"""

from __future__ import annotations

import _random
import _thread
import itertools
import os
import platform
import queue
import random
import socket
import sys
import threading
import time
import uuid
import zoneinfo
from collections.abc import Mapping
from typing import Any

from quorate import _hashes, _native

_refusing = False

_REFUSED_EVENTS = {
    "socket.connect": "open connections",
    "socket.bind": "open connections",
    "subprocess.Popen": "start processes",
    "os.system": "start processes",
    "os.fork": "start processes",
    "os.forkpty": "start processes",
    "os.exec": "start processes",
    "os.posix_spawn": "start processes",
    "os.remove": "change files",
    "os.rename": "change files",
    "os.mkdir": "change files",
    "os.rmdir": "change files",
    "os.truncate": "change files",
    "os.kill": "send signals",
}


_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_PID, _NAME, _NODE = 1, "object", 1 << 40
"""What every replica is told of its process and its machine."""

_RANDOM_FILES = ("/dev/random", "/dev/urandom", b"/dev/random", b"/dev/urandom")

real_pid = os.getpid


def install() -> None:
    """Instrument hashes, time, datetime, random, uuid and os in this process."""
    _hashes.install()
    _install_identity()
    _install_time()
    _install_time_zones()
    _install_randomness()
    sys.dont_write_bytecode = True
    sys.addaudithook(_audit)
    _install_threads()


def refuse_effects(is_refusing: bool) -> bool:
    """Begin or end refusing effects on the outside; says whether they were refused before."""
    global _refusing
    before, _refusing = _refusing, is_refusing
    return before


def fork_with_pipe() -> tuple[int, int, int]:
    """Fork with a pipe: where the parent reads, where the process writes, and its number, 0 in itself."""
    reader, writer = os.pipe()
    try:
        return reader, writer, os.fork()
    except OSError:
        os.close(reader)
        os.close(writer)
        raise


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if not _refusing:
        return
    if event == "open":
        path, mode, flags = arguments
        if path in _RANDOM_FILES:
            raise PermissionError(
                f"objects cannot read {path}, which differs between replicas: use os.urandom"
            )
        # os.open has flags only.
        writes = any(letter in mode for letter in "wax+") if isinstance(mode, str) else flags & _WRITING
        if writes and path != os.devnull:
            raise PermissionError(
                "objects cannot write files, because every replica would: return the content to the client"
            )
    elif event in _REFUSED_EVENTS:
        raise PermissionError(
            f"objects cannot {_REFUSED_EVENTS[event]}: every replica would; have it done once by "
            "quorate.capture or quorate.effect"
        )


def _install_threads() -> None:
    real = _thread.start_new_thread

    def start_new_thread(*arguments: Any) -> int:
        if _refusing:
            raise PermissionError("objects cannot start threads: do the work in the call, or in the client")
        return real(*arguments)

    _thread.start_new_thread = start_new_thread
    threading._start_new_thread = start_new_thread  # type: ignore[attr-defined]
    looks = itertools.count()

    def waiting_clock() -> float:
        # Nobody else runs during a call, and the agreed time stands still in it: a wait with a timeout
        # reckons its end at one look at this clock, and the next look is past that.
        return time.monotonic() + next(looks) * 1e9

    threading._time = waiting_clock  # type: ignore[attr-defined]
    queue.time = waiting_clock  # type: ignore[attr-defined]


def _install_identity() -> None:
    # Some make unique numbers of these.
    os.getpid = lambda: _PID
    os.getppid = lambda: _PID
    real_uname = os.uname

    def uname() -> os.uname_result:
        told = real_uname()
        return os.uname_result((told.sysname, _NAME, told.release, told.version, told.machine))

    os.uname = uname
    platform._uname_cache = None  # type: ignore[attr-defined]
    socket.gethostname = lambda: _NAME
    uuid.getnode = lambda: _NODE
    _install_thread_identity()


def _install_thread_identity() -> None:
    # Calls run in the first thread, which has an agreed number. Others, which imports may start, keep theirs.
    first: Any = threading.main_thread()
    known: Any = threading
    real = {name: getattr(_thread, name) for name in ("get_ident", "get_native_id")}
    own = {name: number() for name, number in real.items()}
    told = {name: lambda name=name: _PID if real[name]() == own[name] else real[name]() for name in real}

    def install(functions: Mapping[str, Any]) -> None:
        before = threading.get_ident()
        for name, function in functions.items():
            setattr(_thread, name, function)
            setattr(threading, name, function)
        known._active[threading.get_ident()] = known._active.pop(before)
        first._ident = threading.get_ident()

    def in_child() -> None:
        own.update((name, number()) for name, number in real.items())
        install(told)

    first._native_id = _PID
    install(told)
    # Python compares the numbers with its own in a child.
    os.register_at_fork(
        before=lambda: install(real), after_in_parent=lambda: install(told), after_in_child=in_child
    )


def _install_time() -> None:
    # The clocks of `time`, `datetime.now` and `date.today`: the C functions behind them are replaced, so
    # `datetime.datetime` is the class that C code knows, and what was imported earlier agrees too.
    _native.install_agreed_clock()
    real_strftime = time.strftime

    def strftime(layout: str, when: Any = None) -> str:
        return real_strftime(layout, time.gmtime() if when is None else when)

    def asctime(when: Any = None) -> str:
        return real_strftime("%a %b %e %H:%M:%S %Y", time.gmtime() if when is None else when)

    def ctime(secs: float | None = None) -> str:
        return asctime(time.gmtime(secs))

    replacements: dict[str, Any] = {
        "strftime": strftime,
        "asctime": asctime,
        "ctime": ctime,
        "pthread_getcpuclockid": lambda _thread: time.CLOCK_PROCESS_CPUTIME_ID,
        "clock_gettime": lambda _clock: time.time(),
        "clock_gettime_ns": lambda _clock: time.time_ns(),
    }
    for name, replacement in replacements.items():
        setattr(time, name, replacement)
    os.times = lambda: os.times_result((time.time(), 0.0, 0.0, 0.0, time.time()))


def _install_time_zones() -> None:
    # Machines have time zones of different ages, or none at all: the package's are the same on every replica.
    zoneinfo.reset_tzpath(to=[])


class _Shared(random.SystemRandom):
    """Behind the functions of `random`: keeps nothing from call to call, which a restart would lose."""

    def gauss(self, mu: float = 0.0, sigma: float = 1.0) -> float:
        self.gauss_next: float | None = None
        try:
            return super().gauss(mu, sigma)
        finally:
            self.gauss_next = None


def _install_randomness() -> None:
    for owner, name, value in randomness():
        setattr(owner, name, value)


def randomness() -> list[tuple[Any, str, Any]]:
    """What draws from the call's stream instead of from the machine: owner, name and replacement."""
    drawn = _native.agreed_bytes
    shared = _Shared()
    real_seed = random.Random.seed

    def seed(self: random.Random, a: Any = None, version: int = 2) -> None:
        real_seed(self, int.from_bytes(drawn(32), "big") if a is None else a, version)

    def uuid1(node: int | None = None, clock_seq: int | None = None) -> uuid.UUID:
        ticks = _native.agreed_time_ns() // 100 + 0x01B21DD213814000
        sequence = shared.getrandbits(14) if clock_seq is None else clock_seq
        host = shared.getrandbits(48) | 1 << 40 if node is None else node
        fields = (
            ticks & 0xFFFFFFFF,
            ticks >> 32 & 0xFFFF,
            ticks >> 48 & 0x0FFF,
            sequence >> 8 & 0x3F,
            sequence & 0xFF,
            host,
        )
        return uuid.UUID(fields=fields, version=1)

    functions = [
        (random, name, getattr(shared, name))
        for name in random.__all__
        if callable(getattr(shared, name, None)) and not isinstance(getattr(random, name), type)
    ]
    return [
        (os, "urandom", drawn),
        (os, "getrandom", lambda size, flags=0: drawn(size)),
        # It draws its seed from the machine when it is made without one.
        (_random, "Random", random.Random),
        # SystemRandom, and with it `secrets`, draws through this name.
        (random, "_urandom", drawn),
        *functions,
        (random, "_inst", shared),
        (random.Random, "seed", seed),
        (uuid, "uuid1", uuid1),
    ]
