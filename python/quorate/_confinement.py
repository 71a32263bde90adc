"""What the host process may read and write once it is confined, and how that is told.

Reading: the objects' modules, the interpreter with its packages, and what libraries look at when they start.
Writing: the scratch directory of the host. Everything else is refused by the kernel, to ctypes as well.
"""

from __future__ import annotations

import os
import sys

from quorate import _native

_SYSTEM = (
    "/usr",
    "/lib",
    "/lib64",
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/dev/null",
    "/dev/zero",
    "/dev/random",
    "/dev/urandom",
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/sys/devices/system/cpu",
)


def confine(paths: list[str], scratch: str) -> str:
    """Confine this process for good; says `full`, or what is missing."""
    missing = _native.confine(_readable(paths), [scratch, "/dev/null"])
    return "partial: " + "; ".join(missing) if missing else "full"


def _readable(paths: list[str]) -> list[str]:
    libraries = os.environ.get("LD_LIBRARY_PATH", "").split(":")
    interpreter = [sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix]
    wanted = [*paths, *sys.path, *interpreter, *libraries, *_SYSTEM]
    return sorted({os.path.realpath(place) for place in wanted if place})
