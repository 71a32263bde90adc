"""Tests without processes: a group of the real core in this process, and classes under faults.

::

    import quorate.testing

    with quorate.testing.local(Account, "A-1", balance=100) as account:
        assert account.deposit(10) == 110
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from quorate import _names, _simulate
from quorate._own_objects import ReplicasDiffer
from quorate._rehearsed_group import RehearsedGroup, Settings
from quorate._simulate import Counterexample, Simulated
from quorate._undo import NotUndone

__all__ = [
    "Counterexample",
    "NotUndone",
    "RehearsedGroup",
    "ReplicasDiffer",
    "Simulated",
    "local",
    "simulate",
]

T = TypeVar("T")

NODES_MAX = 9
"""As many as a real group on one machine has."""


def local(
    cls: type[T],
    /,
    *positional: Any,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    nodes: int = 3,
    timeout: float = 10.0,
    seed: int = 0,
    snapshot_every: int = 100,
    **named: Any,
) -> RehearsedGroup[T]:
    """Run a group in this process for the length of a block, which gets its object's proxy.

    The replicas, their agreement and the client are those of real nodes; links, disks and time are simulated,
    and `seed` determines them. So a call takes about a millisecond, and no program is needed. Calls have
    agreed time and randomness. What a class keeps in its module is shared by the instances here, and no call
    is kept from files and networks: `quorate.local` and `simulate` use processes.

    ::

        group = quorate.testing.local(Account, "A-1", balance=100)
        with group as account:
            account.deposit(10)
            group.kill(group.leader)
            assert account.deposit(10) == 120
            group.step_clock(3600)

    `timeout` is in virtual seconds. Raises ReplicasDiffer in a call that ended differently on two nodes. Each
    call that the class undoes (`quorate.undoes`) is made on a copy first, and undone there; where the copy is
    not what it was, the call raises NotUndone.
    """
    cls = _names.class_of(cls)
    if not isinstance(cls, type):
        raise TypeError(f"quorate.testing.local takes a class, not {type(cls).__name__}")
    for name, value in (("nodes", nodes), ("seed", seed), ("snapshot_every", snapshot_every)):
        if isinstance(value, bool) or not isinstance(value, int):
            raise TypeError(f"{name} is a number, not {type(value).__name__}")
    if not 1 <= nodes <= NODES_MAX:
        raise ValueError(f"a group has 1 to {NODES_MAX} nodes, not {nodes}")
    if not 0 <= seed < 1 << 64:
        raise ValueError(f"a seed is at least 0 and below 2**64, not {seed}")
    if snapshot_every < 1:
        raise ValueError(f"a snapshot is due after at least one call, not {snapshot_every}")
    if positional or named:
        if args or kwargs:
            raise TypeError("give the class's arguments either as they are, or by args and kwargs")
        args, kwargs = positional, named
    return RehearsedGroup(cls, (args, kwargs or {}), Settings(nodes, timeout, seed, snapshot_every))


def simulate(
    cls: type[T],
    workload: Callable[..., Any] | None = None,
    /,
    *,
    seeds: int | Iterable[int] = 10,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    nodes: int = 3,
    clients: int = 2,
    calls: int = 60,
    allow: Sequence[str] = (),
    reads_source: bool = True,
) -> Simulated:
    """Run a class on the real core under crashes, cuts, copied calls and restores, once for each seed.

    ::

        def spend(random, account):
            for _ in range(20):
                account.deposit(random.randrange(100))
                account.debit(random.randrange(200))

        quorate.testing.simulate(Account, spend, args=["A-1"], seeds=20)

    Every replica's object lives in a process of its own, and begins in a fresh one after a crash, as a real
    host does. All replicas must execute a call alike, and agree on the state that it leaves. Then the class
    runs alone, in the agreed order, in another process with another hash seed: what the group answered must
    be what it answers, and no answer may be older than one that was known before its call began.

    A workload gets a `random.Random` and a proxy, and is run for each client where the class is alone; the
    calls that it makes there are those of the simulation. One that takes `random` only gives calls:
    `(method, arguments)`. Without a workload, `calls` calls are made up, as `quorate check` does.

    On a terminal a line says how far it is.

    Raises Counterexample with the shortest run that was found: its steps, what came of them, and what to do.
    A class in which no run shows a fault is read as `quorate lint` reads it, unless `reads_source` is False.
    """
    counts = {"nodes": (nodes, 1, NODES_MAX), "clients": (clients, 1, 64), "calls": (calls, 1, 2000)}
    subject = _simulate.subject_of(
        cls,
        workload,
        arguments=(args, kwargs or {}),
        counts=counts,
        allow=allow,
        reads_source=reads_source,
    )
    return _simulate.simulate(subject, _simulate.seeds_of(seeds))
