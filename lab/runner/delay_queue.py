"""Packets on their way over links: each is due after the link's delay, and a full link drops what comes.

A link is everything that one sender sends. Its packets leave one after the other at the link's rate, then
take the delay, so packets of one link never overtake each other. Time is an argument, in nanoseconds.
"""

from __future__ import annotations

import heapq
from collections import Counter
from dataclasses import dataclass, field

QUEUE_PACKETS = 4096
"""Packets that a link holds: more than the relay moves in 10 ms, so that such a link fills only at a rate."""


@dataclass(frozen=True, order=True)
class Packet:
    """Bytes on their way, ordered by when they arrive, and then by when they were sent."""

    due_ns: int
    number: int
    source: int = field(compare=False)
    target: int = field(compare=False)
    payload: bytes = field(compare=False)


class DelayQueue:
    """All packets that are under way."""

    def __init__(self, delay_ns: int, mbit: float | None = None, bound: int = QUEUE_PACKETS) -> None:
        self.dropped = 0
        self._delay_ns = delay_ns
        self._ns_per_byte = 8_000 / mbit if mbit else 0.0
        self._bound = bound
        self._heap: list[Packet] = []
        self._held: Counter[int] = Counter()
        """Packets under way by sender: at most `bound` of each."""
        self._free_ns: dict[int, int] = {}
        """When the last packet of a sender has left its card."""
        self._accepted = 0

    def __len__(self) -> int:
        return len(self._heap)

    def offer(self, now_ns: int, source: int, target: int, payload: bytes) -> bool:
        """Send a packet; False when the link is full and drops it."""
        if self._held[source] >= self._bound:
            self.dropped += 1
            return False
        begins_ns = max(now_ns, self._free_ns.get(source, 0))
        leaves_ns = begins_ns + round(len(payload) * self._ns_per_byte)
        self._free_ns[source] = leaves_ns
        self._held[source] += 1
        self._accepted += 1
        packet = Packet(leaves_ns + self._delay_ns, self._accepted, source, target, payload)
        heapq.heappush(self._heap, packet)
        return True

    def next_due_ns(self) -> int | None:
        """When the next packet arrives; None while none is under way."""
        return self._heap[0].due_ns if self._heap else None

    def pop_due(self, now_ns: int) -> Packet | None:
        """Take the next packet that has arrived by now."""
        if not self._heap or self._heap[0].due_ns > now_ns:
            return None
        packet = heapq.heappop(self._heap)
        self._held[packet.source] -= 1
        return packet
