"""What reads of any state say of their age, held against what the lab knows to be acknowledged.

One client writes marks that rise, and notes when each was acknowledged. One client for each node reads them
at level `loose` and gets the state of that node, however old, and its age. A state without a mark was not the
newest any more when that mark was acknowledged: an age that begins later is a lie. All clocks are one.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Protocol

import quorate

KEY = "age"
"""The first word of keys with marks; the load has none like it."""

CALL_TIMEOUT_S = 1.0
PAUSE_S = 0.01
"""Between two calls of a client, so that processors are left to the load."""

CONNECTION_S = 10.0
"""After which a client connects to its node anew: a cut makes it go to another one."""

SLACK_NS = 1_000_000
"""Fractions of seconds that ages lose on their way to a client; what cuts make of them is far more."""

LIES_MAX = 20
"""A replica that tells wrong ages does so all the time."""


class Texts(Protocol):
    """The object of the load, as far as marks go."""

    def put(self, key: str, value: str) -> None:
        """Replace the text."""

    def get(self, key: str) -> str | None:
        """The text, or None."""


@dataclass
class Marks:
    """The marks under one key, written one after the other by one client."""

    key: str
    acknowledged_ns: list[int] = field(default_factory=list)
    """When the mark 1, 2, ... was acknowledged; one that never was is the last under its key."""

    def missed_ns(self, seen: int) -> int | None:
        """When the first mark beyond the one that was seen was acknowledged."""
        return self.acknowledged_ns[seen] if seen < len(self.acknowledged_ns) else None


@dataclass(frozen=True)
class Told:
    """The answer to one read of any state."""

    node: int
    invoke_ns: int
    seen: int
    """The newest mark in it, 0 for none."""
    age_ns: int

    def lie(self, marks: Marks) -> str | None:
        """What is wrong with its age."""
        missed_ns = marks.missed_ns(self.seen)
        # The age ends when the node answers, which is later than this.
        since_ns = self.invoke_ns - self.age_ns - SLACK_NS
        if missed_ns is None or missed_ns >= since_ns:
            return None
        stale_ms, age_ms = (self.invoke_ns - missed_ns) / 1e6, self.age_ns / 1e6
        return (
            f"node {self.node} told mark {self.seen} under {marks.key} as {age_ms:.1f} ms old, "
            f"and the next one was acknowledged {stale_ms:.1f} ms before"
        )


class Ages:
    """The writer and the readers, until the `with` ends."""

    def __init__(self, writes_to: str, reads_from: dict[int, str]) -> None:
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._marks = Marks(f"{KEY}-0")
        self.lies: list[str] = []
        self.answers = 0
        self.oldest_ns = 0
        """The greatest age that was told."""
        self.stalest_ns = 0
        """For how long at most an answer had lacked an acknowledged mark: ages below it would be lies."""
        self._threads = [threading.Thread(target=self._write, args=(writes_to,), daemon=True)]
        for node, endpoint in reads_from.items():
            self._threads.append(threading.Thread(target=self._read, args=(node, endpoint), daemon=True))

    def __enter__(self) -> Ages:
        """Start them."""
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join(timeout=4 * CALL_TIMEOUT_S)

    def describe(self) -> str:
        """What was seen, in a line."""
        oldest, stalest = self.oldest_ns / 1e6, self.stalest_ns / 1e6
        return f"{self.answers} answers, told up to {oldest:.0f} ms, in truth at least {stalest:.0f} ms"

    def judge(self, told: Told, marks: Marks) -> None:
        """Take note of one answer."""
        missed_ns = marks.missed_ns(told.seen)
        stale_ns = 0 if missed_ns is None else told.invoke_ns - missed_ns
        lie = told.lie(marks)
        with self._lock:
            self.answers += 1
            self.oldest_ns = max(self.oldest_ns, told.age_ns)
            self.stalest_ns = max(self.stalest_ns, stale_ns)
            if lie is not None and len(self.lies) < LIES_MAX:
                self.lies.append(lie)

    def _write(self, endpoint: str) -> None:
        def mark(proxy: Texts) -> None:
            marks = self._marks
            try:
                proxy.put(marks.key, str(len(marks.acknowledged_ns) + 1))
                marks.acknowledged_ns.append(time.monotonic_ns())
            except quorate.OutcomeUnknown:
                # It may still arrive, after later ones: those get another key.
                self._marks = Marks(f"{KEY}-{time.monotonic_ns()}")
                raise

        self._repeat(endpoint, mark)

    def _read(self, node: int, endpoint: str) -> None:
        def look(proxy: Texts) -> None:
            marks, invoke_ns = self._marks, time.monotonic_ns()
            seen = proxy.get(marks.key)
            age_ns = round(quorate.freshness(proxy).age * 1e9)
            self.judge(Told(node, invoke_ns, int(seen or 0), age_ns), marks)

        self._repeat(endpoint, look, level="loose")

    def _repeat(
        self, endpoint: str, call: Callable[[Texts], None], level: quorate.Level | None = None
    ) -> None:
        while not self._ended.is_set():
            try:
                with quorate.connect(endpoint, timeout=CALL_TIMEOUT_S) as proxy:
                    if level is None:
                        self._mark_on(proxy, call)
                        continue
                    asked = quorate.reading(proxy, level=level)
                    until = time.monotonic() + CONNECTION_S
                    while time.monotonic() < until and not self._ended.wait(PAUSE_S):
                        call(asked)
            except (quorate.NotExecuted, quorate.OutcomeUnknown):
                self._ended.wait(PAUSE_S)

    def _mark_on(self, proxy: Texts, call: Callable[[Texts], None]) -> None:
        """While there is the session: a new connection may be one to another cluster."""
        while not self._ended.wait(PAUSE_S):
            try:
                call(proxy)
            except quorate.SessionExpired:
                return
            except (quorate.NotExecuted, quorate.OutcomeUnknown):
                continue
