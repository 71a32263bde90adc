"""Objects of the library that CPython's tests use one after the other, each time as new."""

from __future__ import annotations

from typing import Any

from objects_subjects import Watched

from quorate import objects
from quorate.objects._line import Line


class AsNew(Watched):
    """Can be made as new, by arguments of its class."""

    def renew(self, args: list[Any], kwargs: dict[str, Any]) -> None:
        """Take the place of an object that was never used; nobody goes on waiting."""
        new = type(self)(*args, **kwargs)
        for line in vars(self).values():
            if isinstance(line, Line):
                line.fail_all(RuntimeError("the object was renewed"))
        vars(self).clear()
        vars(self).update(vars(new))


class Lock(AsNew, objects.Lock):
    """A lock."""


class RLock(AsNew, objects.RLock):
    """A lock that its owner can acquire again, which tells of its owner what CPython's does."""

    def is_owned(self, *, owner: Any = None) -> bool:
        """Whether this owner holds the lock."""
        return self._held_by(owner) is not None

    def recursion_count(self, *, owner: Any = None) -> int:
        """How often this owner has acquired the lock."""
        held = self._held_by(owner)
        return 0 if held is None else held.count


class Condition(AsNew, objects.Condition):
    """A condition."""


class Event(AsNew, objects.Event):
    """An event."""


class Semaphore(AsNew, objects.Semaphore):
    """Permits."""


class BoundedSemaphore(AsNew, objects.BoundedSemaphore):
    """Permits that never grow."""


class Barrier(AsNew, objects.Barrier):
    """A barrier, of one party until it is renewed."""

    def __init__(self, parties: int = 1, *, timeout: float | None = None) -> None:
        super().__init__(parties, timeout=timeout)


class Queue(AsNew, objects.Queue[Any]):
    """A queue whose size can be changed."""

    def set_maxsize(self, maxsize: int) -> None:
        """Change the size."""
        self.maxsize = maxsize


class LifoQueue(AsNew, objects.LifoQueue[Any]):
    """A queue."""

    set_maxsize = Queue.set_maxsize


class PriorityQueue(AsNew, objects.PriorityQueue[Any]):
    """A queue."""

    set_maxsize = Queue.set_maxsize


CLASSES: tuple[type[AsNew], ...] = (
    Lock,
    RLock,
    Condition,
    Event,
    Semaphore,
    BoundedSemaphore,
    Barrier,
    Queue,
    LifoQueue,
    PriorityQueue,
)
