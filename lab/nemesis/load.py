"""The load: a few clients on threads, each with its own connection, calling through the Python package.

Clients think a little between calls, so that a history stays small enough to be judged and the group's own
work is not what is measured. They never give up on a group: that is the point of a fault.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from types import TracebackType

import quorate

from recording import Operation, Recording
from workload import Step, Workload

CALL_TIMEOUT_S = 4.0
"""Short enough that long faults leave calls without an answer: those are the interesting ones."""
THINK_S_MAX = 0.012
RETRY_S = 0.05
"""Between two tries to connect to a group that does not answer."""

READ_LEVELS: tuple[quorate.Level, ...] = ("confirmed", "confirmed", "lease", "ordered")
"""All linearizable; `confirmed` is what most users get."""

Ask = Callable[[Step], object]


class Load:
    """Clients that call until the `with` ends."""

    def __init__(
        self, endpoint: str, workload: Workload, recording: Recording, clients: int, seed: int
    ) -> None:
        self._endpoint = endpoint
        self._workload = workload
        self._recording = recording
        self._ended = threading.Event()
        self.surprises: list[str] = []
        self._threads = [
            threading.Thread(target=self._run, args=(client, random.Random(f"{seed}/{client}")), daemon=True)
            for client in range(1, clients + 1)
        ]

    def __enter__(self) -> Load:
        """Start the clients."""
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join(timeout=4 * CALL_TIMEOUT_S)
            if thread.is_alive():
                self.surprises.append(f"{thread.name} did not end: a call outlived its timeout")

    def _run(self, client: int, rng: random.Random) -> None:
        number = 0
        while not self._ended.is_set():
            try:
                with quorate.connect(self._endpoint, timeout=CALL_TIMEOUT_S) as proxy:
                    ask = asker(proxy, rng)
                    has_session = True
                    while has_session and not self._ended.is_set():
                        step = self._workload.step(rng, client, number)
                        done = self._perform(client, step, ask)
                        number += 1
                        # A session that expired is replaced by a new one, as a user would.
                        has_session = "SessionExpired" not in (done.error or "")
                        self._ended.wait(rng.random() * THINK_S_MAX)
            except quorate.Unavailable:
                self._ended.wait(RETRY_S)

    def _perform(self, client: int, step: Step, ask: Ask) -> Operation:
        done = perform(client, self._workload.recorded_as, step, ask)
        self._recording.add(done)
        if done.error is not None and done.error.startswith("unexpected"):
            self.surprises.append(done.describe())
        return done


def asker(proxy: object, rng: random.Random, levels: tuple[quorate.Level, ...] = READ_LEVELS) -> Ask:
    """Makes a step's call through the proxy; reads at a level drawn each time."""
    readers: dict[quorate.Level, object] = {level: quorate.reading(proxy, level=level) for level in levels}

    def ask(step: Step) -> object:
        target = readers[rng.choice(levels)] if step.is_read else proxy
        return getattr(target, step.op)(*step.args)

    return ask


def perform(client: int, recorded_as: str, step: Step, ask: Ask) -> Operation:
    """Make one call and say how it ended; no error escapes but the end of the session."""
    invoke_ns = time.monotonic_ns()
    result, error, return_ns = None, None, None
    try:
        result = ask(step)
        return_ns = time.monotonic_ns()
    except quorate.NotExecuted as refused:
        error = f"refused: {type(refused).__name__}: {refused}"
    except quorate.OutcomeUnknown as unknown:
        error = f"unknown: {type(unknown).__name__}: {unknown}"
    except Exception as unexpected:  # Whatever else arrives is a finding, and must not end the client.
        error = f"unexpected: {type(unexpected).__name__}: {unexpected}"
    return Operation(
        client, recorded_as, step.op, step.args, invoke_ns, return_ns, result, step.keeps_result, error
    )


def read_all(endpoint: str, workload: Workload, recording: Recording, steps: list[Step]) -> list[Operation]:
    """Make the final reads as a client of its own; each is tried again until it is answered."""
    found: list[Operation] = []
    with quorate.connect(endpoint, timeout=30.0) as proxy:
        ask = asker(proxy, random.Random(0))
        for step in steps:
            done = perform(0, workload.recorded_as, step, ask)
            recording.add(done)
            found.append(done)
    return found
