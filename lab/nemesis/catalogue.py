"""All kinds of faults by name, and which of them this machine and this group permit."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType

from fault import Fault, Need, Role
from faults_clients import (
    Descriptors,
    HalfFramesElsewhere,
    Idle,
    MillionsOfCloses,
    Opens,
    flood_of_closes,
    half_frames,
    silent_crowd,
    slow_loris,
)
from faults_disk import Damage, DiskFull, DiskFullKill, FlushFails, FlushSlow
from faults_host import EndlessCall, HostHangs, HostKilled, HostsKilled
from faults_network import Bridge, Cut, Deaf, Mute, SlowLink, Split
from faults_noise import Impostor, noise, noise_long
from faults_process import Forget, Kill, KillAll, Lag, Stop, Terminate
from faults_strangers import AdminSilent, Hoard, OtherCluster

Make = Callable[[], Fault]

_MAKERS: tuple[Make, ...] = (
    lambda: Kill(Role.LEADER),
    lambda: Kill(Role.FOLLOWER),
    lambda: Kill(Role.RANDOM),
    lambda: Stop(Role.LEADER),
    lambda: Stop(Role.FOLLOWER),
    Terminate,
    Lag,
    Damage,
    KillAll,
    lambda: Cut(Role.LEADER),
    lambda: Cut(Role.FOLLOWER),
    Split,
    Deaf,
    Mute,
    Bridge,
    lambda: HostKilled(Role.LEADER),
    HostsKilled,
    lambda: HostHangs(Role.LEADER),
    lambda: FlushFails(Role.FOLLOWER),
    lambda: FlushFails(Role.LEADER),
    FlushSlow,
    lambda: DiskFull(Role.FOLLOWER),
    lambda: DiskFull(Role.LEADER),
    DiskFullKill,
    Forget,
    silent_crowd,
    Idle,
    half_frames,
    slow_loris,
    Opens,
    flood_of_closes,
    noise,
    Impostor,
    OtherCluster,
    AdminSilent,
    Hoard,
    Descriptors,
    SlowLink,
    EndlessCall,
    MillionsOfCloses,
    HalfFramesElsewhere,
    noise_long,
)

CATALOGUE: dict[str, Make] = {make().name: make for make in _MAKERS}

_OWN_DISK_NEEDS = {Need.SMALL_DISK, Need.SHIM}


def chosen(names: list[str]) -> list[str]:
    """The faults of a list as the command line has it: names, or beginnings of names."""
    found: list[str] = []
    for name in names:
        begun = [known for known in CATALOGUE if known.startswith(f"{name}-")]
        matching = [name] if name in CATALOGUE else begun
        if not matching:
            raise ValueError(f"no fault {name}: choose from {', '.join(CATALOGUE)}")
        found.extend(matching)
    return found


def usual() -> list[str]:
    """All but those that take minutes."""
    return [name for name, make in CATALOGUE.items() if not make().is_long]


def described(name: str) -> str:
    """What the fault is, in a line."""
    make = CATALOGUE[name]
    said = (make.__doc__ if isinstance(make, FunctionType) else None) or type(make()).__doc__ or ""
    return said.strip().splitlines()[0]


def missing(name: str, provided: set[Need]) -> list[Need]:
    """What a fault needs and is not provided."""
    return [need for need in CATALOGUE[name]().needs if need not in provided]


def wants_own_disks(name: str) -> bool:
    """Whether a fault is for a group on the lab's own disks, where a flush costs nothing."""
    return any(need in _OWN_DISK_NEEDS for need in CATALOGUE[name]().needs)


def title_of(name: str, persist: str) -> str:
    """The group that meets a fault: `own-disks`, or what it keeps its state in."""
    if wants_own_disks(name):
        return "own-disks"
    return "memory" if Need.MEMORY in CATALOGUE[name]().needs else persist
