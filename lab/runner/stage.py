"""Where an experiment measures: groups of real processes on this machine, one after the other.

Data directories lie below the results and not in a temporary directory, which may be in memory, where syncs
cost nothing. They are removed when a group has ended; after a failure they stay, with the nodes' logs.
"""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import quorate
from quorate import _local

from bar import Bar
from group import Group, GroupPlan, ObjectPlan
from network import Loopback

T = TypeVar("T")

READY_S_PER_NODE = 15.0
"""A node of the dev build and its host process need a second of CPU each, on a machine that may be busy."""

CALL_S = 60.0
"""Longer than any failover: a call that ends without an answer ends the run."""

CATCH_UP_S = 60.0
PAUSE_S = 0.05


@dataclass(frozen=True)
class Stage:
    """What `measure` gets."""

    directory: Path
    is_short: bool
    bar: Bar

    @contextlib.contextmanager
    def group(
        self,
        served: ObjectPlan,
        nodes: int,
        persist: str,
        ordering: str = "paxos",
        limits: tuple[str, ...] = (),
    ) -> Iterator[Group]:
        """Run a group of nodes for the length of a block, each of them replica and acceptor."""
        shutil.rmtree(self.directory, ignore_errors=True)
        self.directory.mkdir(parents=True)
        plan = GroupPlan(
            directory=self.directory,
            quorate=_local.program(),
            served=served,
            nodes=nodes,
            persist=persist,
            ready_s=READY_S_PER_NODE * nodes,
            ordering=ordering,
            limits=limits,
        )
        is_kept = False
        try:
            with contextlib.closing(Loopback(nodes)) as network, Group(plan, network) as group:
                yield group
        except Exception:
            is_kept = True
            raise
        finally:
            if not is_kept:
                shutil.rmtree(self.directory)


def timed_us(call: Callable[[], object]) -> int:
    """How long a call takes, in microseconds."""
    began = time.perf_counter_ns()
    call()
    return (time.perf_counter_ns() - began) // 1000


def read_each(
    group: Group, cls: type[T], read: Callable[[T], Any], is_settled: Callable[[Any], bool]
) -> dict[int, Any]:
    """What each replica holds, once it has caught up or has had the time for it."""
    found: dict[int, Any] = {}
    for member in group:
        address = group.network.listen(member.number)
        endpoint = f"quorate://{address}/{group.plan.served.name}"
        with quorate.connect(endpoint, cls, timeout=CATCH_UP_S) as proxy:
            # Level `any`: of this replica alone, whatever the others say.
            replica = quorate.weak(proxy)
            until = time.monotonic() + CATCH_UP_S
            while not is_settled(held := read(replica)) and time.monotonic() < until:
                time.sleep(PAUSE_S)
        found[member.number] = held
    return found
