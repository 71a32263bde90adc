"""Classes of a user that are made of objects of the library, or extend them."""

from __future__ import annotations

from typing import Any

from quorate.objects import (
    Barrier,
    BoundedSemaphore,
    Condition,
    Counter,
    Election,
    JobManager,
    Lock,
    Membership,
    Queue,
    RedBlackTree,
    RWLock,
    Stack,
)
from quorate.objects._line import Line


class Desk:
    """Papers on a stack, and what was read of them."""

    def __init__(self) -> None:
        self.papers: Stack[str] = Stack()
        self.read: RedBlackTree[str, int] = RedBlackTree()
        self.words: Counter[str] = Counter()

    def put(self, paper: str) -> int:
        """Lay a paper on top."""
        self.papers.push(paper)
        return len(self.papers)

    def take(self) -> str:
        """Read the paper on top."""
        paper = self.papers.pop()
        self.words.update(paper.split())
        self.read[paper] = len(self.read)
        return paper

    def common(self) -> list[tuple[str, int]]:
        """Return the words that were read most."""
        return self.words.most_common(2)

    def all_read(self) -> list[tuple[str, int]]:
        """Return what was read."""
        return self.read.items()


class Watched:
    """Says how many wait."""

    def waiting(self) -> int:
        """Count the callers that wait in all lines of the object."""
        return sum(line.size() for line in vars(self).values() if isinstance(line, Line))

    def linger(self) -> None:
        """Wait for nothing: a client that is closed while a call of it waits ends its session at once."""
        line: Line[None] = vars(self).setdefault("lingering", Line())
        parked: None = line.wait(None, None)
        return parked


class WatchedLock(Watched, Lock):
    """A lock."""


class WatchedSemaphore(Watched, BoundedSemaphore):
    """Permits."""


class WatchedCondition(Watched, Condition):
    """A condition."""


class WatchedQueue(Watched, Queue[Any]):
    """A queue."""


class WatchedBarrier(Watched, Barrier):
    """A barrier."""


class WatchedElection(Watched, Election[str]):
    """An election."""


class WatchedJobs(Watched, JobManager[str]):
    """Jobs."""


class WatchedMembership(Watched, Membership[str]):
    """Members."""


class Cabin:
    """Objects that wait, as parts of another one."""

    def __init__(self) -> None:
        self.seats = Barrier(3)
        self.door = Condition()
        self.papers = RWLock()

    def sit_down(self, timeout: float | None) -> int:
        """Wait until all seats are taken."""
        return self.seats.wait(timeout)

    def take_door(self, timeout: float | None) -> int:
        """Take the lock of the door."""
        return self.door.acquire(timeout=timeout)

    def leave_door(self, timeout: float | None) -> int:
        """Wait for a notification."""
        return self.door.wait(timeout)

    def read(self, timeout: float | None) -> int:
        """Read with others."""
        return self.papers.acquire_read(timeout=timeout)

    def write(self, timeout: float | None) -> int:
        """Write alone."""
        return self.papers.acquire_write(timeout=timeout)
