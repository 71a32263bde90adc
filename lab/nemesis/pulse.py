"""Clients that call without pause and note when answers come: what an outage is measured with.

Each asks for one thing only, writes or reads of one level, so that the return of each can be told apart.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import quorate

from waiting import wait_until

READ_LEVELS: tuple[quorate.Level, ...] = ("confirmed", "lease")
PAUSE_S = 0.001
"""Between two reads, so that readers leave the processors to the nodes; what is measured is far longer."""


@dataclass(frozen=True)
class Gap:
    """A stretch without an answer."""

    start_ns: int
    end_ns: int

    @property
    def length_ms(self) -> float:
        """How long it lasted."""
        return (self.end_ns - self.start_ns) / 1e6


@dataclass(frozen=True)
class Calls:
    """What clients of one object call: a write and a read that always succeed."""

    write: Callable[[Any], object]
    read: Callable[[Any], object]


class Pulse(threading.Thread):
    """A client that makes one kind of call, over and over."""

    def __init__(self, endpoint: str, calls: Calls, level: quorate.Level | None) -> None:
        super().__init__(daemon=True)
        self._endpoint = endpoint
        self._calls = calls
        self._level = level
        self._ended = threading.Event()
        self.answers: list[int] = []

    @property
    def asks(self) -> str:
        """What it asks for: `writes`, or the level of its reads."""
        return self._level or "writes"

    def run(self) -> None:
        """Call until ended; refusals and silence are no answers."""
        while not self._ended.is_set():
            try:
                with quorate.connect(self._endpoint, timeout=10.0) as proxy:
                    self._go_on(proxy)
            except (quorate.NotExecuted, quorate.OutcomeUnknown):
                self._ended.wait(0.01)

    def _go_on(self, proxy: object) -> None:
        """Call as long as there is the session; a new connection may be one to another cluster."""
        while not self._ended.is_set():
            try:
                self._call(proxy)
            except quorate.SessionExpired:
                return
            except (quorate.NotExecuted, quorate.OutcomeUnknown):
                self._ended.wait(0.01)
            else:
                self.answers.append(time.monotonic_ns())

    def _call(self, proxy: object) -> None:
        if self._level is None:
            self._calls.write(proxy)
        else:
            self._calls.read(quorate.reading(proxy, level=self._level))
            self._ended.wait(PAUSE_S)

    def end(self) -> None:
        """No more calls."""
        self._ended.set()

    def forget(self) -> None:
        """Drop the answers so far, but the newest: the next event does not need them."""
        del self.answers[:-1]

    def longest_gap(self, start_ns: int, end_ns: int) -> Gap:
        """The longest stretch between two answers that touches the span."""
        return longest_gap(list(self.answers), start_ns, end_ns)


def longest_gap(answers: list[int], start_ns: int, end_ns: int) -> Gap:
    """The longest stretch between two of these moments that touches the span; the span itself without any."""
    before = [each for each in answers if each <= start_ns][-1:]
    later = [each for each in answers if each > start_ns]
    inside = [each for each in later if each < end_ns]
    edges = [*before, *inside, *later[len(inside) : len(inside) + 1]]
    gaps = (Gap(one, two) for one, two in itertools.pairwise(edges))
    return max(gaps, key=lambda gap: gap.length_ms, default=Gap(start_ns, end_ns))


@contextlib.contextmanager
def pulses(
    endpoint: str, calls: Calls, clients: int, levels: tuple[quorate.Level, ...]
) -> Iterator[list[Pulse]]:
    """Running clients: so many that write, and as many that read at each level."""
    asked: list[quorate.Level | None] = [None, *levels]
    running = [Pulse(endpoint, calls, level) for level in asked for _ in range(clients)]
    for each in running:
        each.start()
    try:
        wait_until(lambda: all(len(each.answers) > 100 for each in running), 30.0, "a running load")
        yield running
    finally:
        for each in running:
            each.end()
        for each in running:
            each.join(timeout=15.0)
