"""A job manager."""

from __future__ import annotations

import heapq
from typing import Any, Generic, TypeVar

import quorate
from quorate.objects._line import Line, calling, patience
from quorate.objects._rendezvous import Rendezvous

J = TypeVar("J")


class JobManager(Rendezvous[None], Generic[J]):
    """Hands jobs to workers, each to one at a time, and takes back those of workers that are gone.

    Jobs are begun in the order of their numbers. When the session of a worker ends, its jobs are handed out
    again: a job may be worked on twice, but only one result counts. Results stay until they are forgotten.

    >>> jobs = JobManager[str]()
    >>> jobs.submit("wash"), jobs.take(), jobs.finish(1, "clean"), jobs.result(1)
    (1, (1, 'wash'), None, 'clean')
    """

    def __init__(self) -> None:
        super().__init__()
        self._last = 0
        self._jobs: dict[int, J] = {}
        self._ready: list[int] = []
        self._results: dict[int, Any] = {}
        self._waiting: dict[int, Line[None]] = {}

    def submit(self, job: J) -> int:
        """Add a job; its number."""
        self._last += 1
        self._jobs[self._last] = job
        self._ready.append(self._last)
        self._serve()
        return self._last

    def take(self, blocking: bool = True, timeout: float | None = None) -> tuple[int, J] | None:
        """The next job and its number; None where there is none, or not within `timeout` seconds."""
        return self._ask(None, blocking, timeout, None)

    def finish(self, number: int, result: Any = None) -> None:
        """Say what came of a job. Raises RuntimeError if this session does not work on it."""
        self._check_mine(number)
        del self._held[number], self._jobs[number]
        self._results[number] = result
        line = self._waiting.pop(number, None)
        if line is not None:
            line.wake_all(result)

    def give_back(self, number: int) -> None:
        """Leave a job to others. Raises RuntimeError if this session does not work on it."""
        self._check_mine(number)
        self._free(number)
        self._serve()

    def result(self, number: int, timeout: float | None = None) -> Any:
        """What came of a job, when it is finished.

        Raises KeyError if there is no such job, and `quorate.ParkTimeout` after `timeout` seconds.
        """
        if number in self._results:
            return self._results[number]
        if number not in self._jobs:
            raise KeyError(number)
        seconds = patience(True, timeout)
        return self._waiting.setdefault(number, Line()).wait(None, seconds)

    def forget(self, number: int) -> None:
        """Drop a result. Raises KeyError if there is none."""
        del self._results[number]

    def counts(self) -> dict[str, int]:
        """How many jobs are ready, worked on and finished."""
        return {"ready": len(self._ready), "worked on": len(self._held), "finished": len(self._results)}

    def _check_mine(self, number: int) -> None:
        if number not in self._held or self._held[number].session != calling().session:
            raise RuntimeError(f"this session does not work on job {number}")

    def _free(self, number: int) -> None:
        del self._held[number]
        heapq.heappush(self._ready, number)

    def _grant(self, caller: quorate.Caller, wanted: None) -> tuple[int, J] | None:
        if not self._ready:
            return None
        number = heapq.heappop(self._ready)
        self._held[number] = self._holder(caller, what=f"job {number}")
        return number, self._jobs[number]

    def _drop(self, session: int) -> None:
        for number in [number for number, held in self._held.items() if held.session == session]:
            self._free(number)
