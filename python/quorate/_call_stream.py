"""The newest calls of one object that is followed, each at its place."""

from __future__ import annotations

from collections import deque
from typing import Any

from quorate import _calling
from quorate._errors import CallsLost, Refused

CALLS_MAX = 1024
"""Calls of one object that are kept."""

CALLS_BYTES_MAX = 1 << 20
"""Bytes of them."""

CALL_BYTES = 64
"""What a call takes beside its arguments."""

WAITING_MIN = 64
"""Followers that are kept before those are looked for that wait no more."""

SLOT_BITS = 32
"""A place is a slot, and below it a number that rises within the slot."""

_INDEX_BITS = 16
"""The same of a caller's token."""


class CallStream:
    """Calls in the order in which they took effect, and who waits for more."""

    asked_ns = 0
    """When somebody was last found to have asked; 0 before the first look. A state may be kept without it."""

    def __init__(self, token: int) -> None:
        slot, index = token >> _INDEX_BITS, token & ((1 << _INDEX_BITS) - 1)
        self.since = self.last = (slot << SLOT_BITS) + index
        """Behind `since` all calls are kept."""
        self.bytes = 0
        self.kept: deque[tuple[int, int, bytes]] = deque()
        self.waiting: list[tuple[_calling.Caller, int]] = []
        self.room = WAITING_MIN
        self.is_asked = True
        """Whether somebody has asked since the last look."""
        self.is_telling = False
        """Whether those who wait are to be told already."""

    def add(self, slot: int, time_ns: int, call: bytes) -> None:
        """Keep one more, and no more than so many."""
        self.last = max(self.last + 1, slot << SLOT_BITS)
        self.kept.append((self.last, time_ns, call))
        self.bytes += CALL_BYTES + len(call)
        while len(self.kept) > CALLS_MAX or self.bytes > CALLS_BYTES_MAX:
            self.since, _, gone = self.kept.popleft()
            self.bytes -= CALL_BYTES + len(gone)

    def place_behind(self, token: int, slot: int | None) -> int:
        """The place behind all that was called so far, or behind a slot."""
        if slot is None:
            return self.last
        if slot > token >> _INDEX_BITS:
            raise Refused(f"slot {slot} is not decided yet: follow from now on, without `after`")
        place = ((slot + 1) << SLOT_BITS) - 1
        self._check(place)
        return place

    def told_since(self, seen: int) -> list[Any] | None:
        """The calls behind a place; None when there are none."""
        self._check(seen)
        if self.last <= seen:
            return None
        return [list(each) for each in self.kept if each[0] > seen]

    def leave_out_gone(self) -> None:
        """Forget those who wait no more, when many have come since the last time."""
        if len(self.waiting) >= self.room:
            self.waiting = [each for each in self.waiting if each[0].is_waiting]
            self.room = max(WAITING_MIN, 2 * len(self.waiting))

    def _check(self, place: int) -> None:
        if place < self.since:
            raise CallsLost(
                f"the object's calls are kept from slot {self.since >> SLOT_BITS} on, and those behind slot "
                f"{place >> SLOT_BITS} were asked for: take its state, and follow from there"
            )
