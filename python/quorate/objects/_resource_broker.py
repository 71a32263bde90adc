"""A resource broker."""

from __future__ import annotations

from collections.abc import Mapping

import quorate
from quorate.objects._line import calling
from quorate.objects._rendezvous import Rendezvous


class ResourceBroker(Rendezvous[dict[str, int]]):
    """Amounts of named resources, of which a caller gets all that it asks for, or waits.

    Who came first to wait for a resource is first to get it, while those behind get what nobody in front of
    them waits for. As everything is given at once, no two callers wait for each other. What a session has
    is free when it ends.

    >>> broker = ResourceBroker({"gpu": 4, "port": 1})
    >>> lease = broker.acquire({"gpu": 3, "port": 1})
    >>> broker.available(), broker.acquire({"gpu": 2}, blocking=False)
    ({'gpu': 1, 'port': 0}, 0)
    >>> broker.release(lease), broker.available()
    (None, {'gpu': 4, 'port': 1})
    """

    def __init__(self, resources: Mapping[str, int]) -> None:
        super().__init__()
        self._free = dict(resources)
        self._total = dict(resources)
        self._leases: dict[int, tuple[int, dict[str, int]]] = {}

    def acquire(self, wanted: Mapping[str, int], blocking: bool = True, timeout: float | None = None) -> int:
        """Get amounts of resources; the number of the lease, a fencing token, or 0 as of `Lock.acquire`.

        Raises KeyError for a resource that is not there, and ValueError for more than there ever is.
        """
        for name, amount in wanted.items():
            if not 0 < amount <= self._total[name]:
                raise ValueError(f"of {name} there are {self._total[name]}, not {amount}")
        return self._ask(dict(wanted), blocking, timeout, 0)

    def release(self, lease: int) -> None:
        """Give back what a lease holds. Raises RuntimeError if this session does not have it."""
        if lease not in self._leases or self._leases[lease][0] != calling().session:
            raise RuntimeError(f"this session does not have lease {lease}")
        self._give_back(lease)
        self._serve()

    def add(self, name: str, amount: int) -> None:
        """Add to a resource, or a new one. Raises ValueError unless the amount is above 0."""
        if amount <= 0:
            raise ValueError(f"an amount is above 0, not {amount}")
        self._free[name] = self._free.get(name, 0) + amount
        self._total[name] = self._total.get(name, 0) + amount
        self._serve()

    def available(self) -> dict[str, int]:
        """What is free of each resource."""
        return dict(self._free)

    def _holds_up(self, wanted: dict[str, int]) -> bool:
        return True

    def _is_next(self, wanted: dict[str, int]) -> bool:
        return all(wanted.keys().isdisjoint(other) for _, other in self._line.waiting())

    def _serve(self) -> None:
        """Answer all that can have what they want and are the first to want it."""
        claimed: set[str] = set()
        for caller, wanted in self._line.waiting():
            if claimed.isdisjoint(wanted):
                lease = self._grant(caller, wanted)
                if lease is not None:
                    caller.wake(lease)
                    continue
            claimed.update(wanted)
        self._line.clear_gone()

    def _grant(self, caller: quorate.Caller, wanted: dict[str, int]) -> int | None:
        if any(self._free[name] < amount for name, amount in wanted.items()):
            return None
        for name, amount in wanted.items():
            self._free[name] -= amount
        lease = self._token(caller)
        self._leases[lease] = caller.session, wanted
        what = ", ".join(f"{name}={amount}" for name, amount in wanted.items())
        self._held[lease] = self._holder(caller, what=what)
        return lease

    def _give_back(self, lease: int) -> None:
        del self._held[lease]
        for name, amount in self._leases.pop(lease)[1].items():
            self._free[name] += amount

    def _drop(self, session: int) -> None:
        for lease in [number for number, (owner, _) in self._leases.items() if owner == session]:
            self._give_back(lease)
