"""Run the whole lab in namespaces of its own, so that no fault can touch anything else on the machine.

The script starts itself again under `unshare` with its own network, its own mounts and, without root, its own
users. Where the kernel does not permit that, the lab runs on plain loopback and says which faults it skips.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

_MARK = "NEMESIS_ISOLATED"


def is_isolated() -> bool:
    """Whether this process has namespaces of its own."""
    return os.environ.get(_MARK) == "1"


def enter() -> None:
    """Start this script again inside namespaces; return where that is done already or not permitted."""
    if is_isolated():
        _prepare()
        return
    command = _permitted_unshare()
    if command is None:
        return
    os.environ[_MARK] = "1"
    sys.stdout.flush()
    os.execvp(command[0], [*command, sys.executable, *sys.argv])


def _permitted_unshare() -> list[str] | None:
    if shutil.which("unshare") is None or shutil.which("nsenter") is None or shutil.which("ip") is None:
        return None
    own = ["unshare", "--mount", "--net"]
    for command in (own, [*own, "--user", "--map-root-user"]):
        trial = "mount -t tmpfs tmpfs /run && ip link set lo up && ip link add trial type bridge"
        tried = subprocess.run([*command, "sh", "-c", trial], capture_output=True, check=False)
        if tried.returncode == 0:
            return command
    return None


def _prepare() -> None:
    # `ip netns` keeps names below /run; ours must not be seen outside.
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/run"], check=True)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
