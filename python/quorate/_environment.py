"""The agreed environment, installed in the host process before objects' modules are imported.

Inside a method every replica sees the same: `time.*` and `datetime.now` give the time on which the group
agreed for the batch (it stands still during a call, and rises from batch to batch); `random`, `uuid`,
`secrets` and `os.urandom` draw from a stream that belongs to the call. `time.sleep`, threads, sockets,
child processes and writing files are refused: they would stall the group or differ between replicas. Time
zones come from the package `tzdata`, not from the machine.

This touches the host process only. Importing `quorate` changes nothing in yours.
"""

from __future__ import annotations

import _thread
import datetime
import os
import random
import sys
import threading
import time
import uuid
import zoneinfo
from typing import Any

from quorate import _native

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


def install() -> None:
    """Instrument time, datetime, random, uuid and os in this process."""
    _install_time()
    _install_dates()
    _install_time_zones()
    _install_randomness()
    sys.dont_write_bytecode = True
    sys.addaudithook(_audit)
    _install_threads()


def refuse_effects(is_refusing: bool) -> None:
    """Begin or end refusing effects on the outside."""
    global _refusing
    _refusing = is_refusing


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if not _refusing:
        return
    if event == "open":
        mode = arguments[1]
        if isinstance(mode, str) and any(letter in mode for letter in "wax+"):
            raise PermissionError(
                "objects cannot write files, because every replica would: return the content to the client"
            )
    elif event in _REFUSED_EVENTS:
        raise PermissionError(f"objects cannot {_REFUSED_EVENTS[event]}: every replica would")


def _install_threads() -> None:
    real = _thread.start_new_thread

    def start_new_thread(*arguments: Any) -> int:
        if _refusing:
            raise PermissionError("objects cannot start threads: do the work in the call, or in the client")
        return real(*arguments)

    _thread.start_new_thread = start_new_thread
    threading._start_new_thread = start_new_thread  # type: ignore[attr-defined]


def _install_time() -> None:
    nanoseconds = _native.agreed_time_ns

    def seconds() -> float:
        return nanoseconds() / 1e9

    def sleep(_seconds: float) -> None:
        raise RuntimeError("objects cannot sleep, because the whole group would wait: sleep in the client")

    real_gmtime, real_strftime = time.gmtime, time.strftime

    def gmtime(secs: float | None = None) -> time.struct_time:
        return real_gmtime(seconds() if secs is None else secs)

    def strftime(layout: str, when: Any = None) -> str:
        return real_strftime(layout, gmtime() if when is None else when)

    replacements: dict[str, Any] = {
        "sleep": sleep,
        "gmtime": gmtime,
        # TZ is UTC in the host, so both clocks show the same.
        "localtime": gmtime,
        "strftime": strftime,
        "asctime": lambda when=None: real_strftime("%a %b %e %H:%M:%S %Y", when or gmtime()),
        "ctime": lambda secs=None: real_strftime("%a %b %e %H:%M:%S %Y", gmtime(secs)),
    }
    for clock in ("time", "monotonic", "perf_counter", "process_time", "thread_time"):
        replacements[clock] = seconds
        replacements[f"{clock}_ns"] = nanoseconds
    for name, replacement in replacements.items():
        setattr(time, name, replacement)


def _install_dates() -> None:
    real_date_time, real_date = datetime.datetime, datetime.date

    class _AnyDateTime(type):
        def __instancecheck__(cls, instance: object) -> bool:
            return isinstance(instance, real_date_time)

        def __subclasscheck__(cls, subclass: type) -> bool:
            return issubclass(subclass, real_date_time)

    class _AnyDate(type):
        def __instancecheck__(cls, instance: object) -> bool:
            return isinstance(instance, real_date)

        def __subclasscheck__(cls, subclass: type) -> bool:
            return issubclass(subclass, real_date)

    class AgreedDateTime(datetime.datetime, metaclass=_AnyDateTime):
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> Any:
            return real_date_time.fromtimestamp(_native.agreed_time_ns() / 1e9, tz)

        @classmethod
        def utcnow(cls) -> Any:
            return cls.now()

        @classmethod
        def today(cls) -> Any:
            return cls.now()

    class AgreedDate(datetime.date, metaclass=_AnyDate):
        @classmethod
        def today(cls) -> Any:
            return real_date_time.fromtimestamp(_native.agreed_time_ns() / 1e9).date()

    AgreedDateTime.__name__ = AgreedDateTime.__qualname__ = "datetime"
    AgreedDate.__name__ = AgreedDate.__qualname__ = "date"
    for agreed in (AgreedDateTime, AgreedDate):
        agreed.__module__ = "datetime"
    datetime.datetime = AgreedDateTime  # type: ignore[misc]
    datetime.date = AgreedDate  # type: ignore[misc]


def _install_time_zones() -> None:
    # Machines have time zones of different ages, or none at all: the package's are the same on every replica.
    zoneinfo.reset_tzpath(to=[])


def _install_randomness() -> None:
    drawn = _native.agreed_bytes
    os.urandom = drawn
    # SystemRandom, and with it `secrets`, draws through this name.
    random._urandom = drawn  # type: ignore[attr-defined]
    shared = random.SystemRandom()
    for name in random.__all__:
        method = getattr(shared, name, None)
        if callable(method) and not isinstance(getattr(random, name), type):
            setattr(random, name, method)
    random._inst = shared

    class AgreedRandom(random.Random):
        def __init__(self, x: Any = None) -> None:
            super().__init__(int.from_bytes(drawn(32), "big") if x is None else x)

        def seed(self, a: Any = None, version: int = 2) -> None:
            super().seed(int.from_bytes(drawn(32), "big") if a is None else a, version)

    AgreedRandom.__name__ = AgreedRandom.__qualname__ = "Random"
    AgreedRandom.__module__ = "random"
    random.Random = AgreedRandom  # type: ignore[misc]

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

    uuid.uuid1 = uuid1
