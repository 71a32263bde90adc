"""Replicated objects with the arguments and answers of `threading` and `queue`, for CPython's own tests.

What differs is all here: fencing tokens become True, and `wait_for` looks at its predicate in the caller. A
group serves a fixed list of objects, so a test borrows them from a pool.
"""

from __future__ import annotations

import contextlib
import time
import unittest
from collections.abc import Callable
from typing import Any

import cpython_subjects
from many_objects import ManyObjects

import quorate
from quorate import objects

EACH = 3
"""Objects of each class: no test uses more."""

PATIENCE_S = 60.0
"""For each call, also while a group elects."""

WAIT_S = 30.0
"""For callers to wait."""


class Pool:
    """The objects of a group, each with one connection, for one test at a time."""

    def __init__(self) -> None:
        names = {f"{cls.__name__}{number}": cls for cls in cpython_subjects.CLASSES for number in range(EACH)}
        self.group = ManyObjects(names, PATIENCE_S)
        self._connections = contextlib.ExitStack()
        self._proxies: dict[str, Any] = {}
        self._lent: list[str] = []

    def __enter__(self) -> Pool:
        self.group.start()
        _pools.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        _pools.remove(self)
        self._connections.close()
        self.group.close()

    def lend(self, cls: type[Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The proxy of an object that is as new."""
        names = (f"{cls.__name__}{number}" for number in range(EACH))
        name = next(name for name in names if name not in self._lent)
        self._lent.append(name)
        if name not in self._proxies:
            connection: Any = quorate.connect(self.group.endpoint_of(name), cls, timeout=PATIENCE_S)
            self._proxies[name] = self._connections.enter_context(connection)
        self._proxies[name].renew(list(args), kwargs)
        return self._proxies[name]

    def take_back(self) -> None:
        """The test is over: others may borrow its objects."""
        self._lent.clear()

    def wait_threads_blocked(self, count: int) -> None:
        """Stands for a sleep of the suites: return when so many callers wait at the objects of the test."""
        if any(name.startswith("Condition") for name in self._lent):
            # That suite knows by itself who waits, and asks also for threads that have ended.
            return
        ends = time.monotonic() + WAIT_S
        while sum(self._proxies[name].waiting() for name in self._lent) < count:
            assert time.monotonic() < ends, f"there are never {count} callers that wait"


_pools: list[Pool] = []


class Borrower(unittest.TestCase):
    """A test that gives back what it has borrowed."""

    def run(self, result: unittest.TestResult | None = None) -> unittest.TestResult | None:
        """Run, and give back."""
        try:
            return super().run(result)
        finally:
            _pools[-1].take_back()


class Adapter:
    """An object of the pool, of the class that has the adapter's name."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        cls: type[Any] = getattr(cpython_subjects, type(self).__name__)
        self.proxy = _pools[-1].lend(cls, args, kwargs)


class Lock(Adapter):
    """As `threading.Lock`."""

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        return bool(self.proxy.acquire(blocking, timeout))

    def release(self) -> None:
        self.proxy.release()

    def locked(self) -> bool:
        locked: bool = self.proxy.locked()
        return locked

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class RLock(Lock):
    """As `threading.RLock`."""

    def __enter__(self) -> bool:
        return bool(self.proxy.__enter__())

    def __exit__(self, *error: object) -> None:
        self.proxy.__exit__(*error)

    def _is_owned(self) -> bool:
        owned: bool = self.proxy.is_owned()
        return owned

    def _recursion_count(self) -> int:
        count: int = self.proxy.recursion_count()
        return count


class Condition(Lock):
    """As `threading.Condition`."""

    def wait(self, timeout: float | None = None) -> bool:
        return bool(self.proxy.wait(timeout))

    def wait_for(self, predicate: Callable[[], Any], timeout: float | None = None) -> Any:
        ends = None if timeout is None else time.monotonic() + timeout
        while not (result := predicate()):
            left = None if ends is None else ends - time.monotonic()
            if left is not None and left <= 0:
                break
            self.wait(left)
        return result

    def notify(self, n: int = 1) -> None:
        self.proxy.notify(n)

    def notify_all(self) -> None:
        self.proxy.notify_all()


class Event(Adapter):
    """As `threading.Event`."""

    def is_set(self) -> bool:
        is_set: bool = self.proxy.is_set()
        return is_set

    def set(self) -> None:
        self.proxy.set()

    def clear(self) -> None:
        self.proxy.clear()

    def wait(self, timeout: float | None = None) -> bool:
        is_set: bool = self.proxy.wait(timeout)
        return is_set


class Semaphore(Adapter):
    """As `threading.Semaphore`."""

    def acquire(self, blocking: bool = True, timeout: float | None = None) -> bool:
        return bool(self.proxy.acquire(blocking, timeout))

    def release(self, n: int = 1) -> None:
        self.proxy.release(n)

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class BoundedSemaphore(Semaphore):
    """As `threading.BoundedSemaphore`."""


class Barrier(Adapter):
    """As `threading.Barrier`, without an action, which is code of the caller."""

    def wait(self, timeout: float | None = None) -> int:
        seat: int = self.proxy.wait(timeout)
        return seat

    def reset(self) -> None:
        self.proxy.reset()

    def abort(self) -> None:
        self.proxy.abort()

    @property
    def parties(self) -> int:
        parties: int = self.proxy.parties
        return parties

    @property
    def n_waiting(self) -> int:
        waiting: int = self.proxy.n_waiting
        return waiting

    @property
    def broken(self) -> bool:
        broken: bool = self.proxy.broken
        return broken


class Queue(Adapter):
    """As `queue.Queue`."""

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        self.proxy.put(item, block, timeout)

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        return self.proxy.get(block, timeout)

    def put_nowait(self, item: Any) -> None:
        self.proxy.put_nowait(item)

    def get_nowait(self) -> Any:
        return self.proxy.get_nowait()

    def task_done(self) -> None:
        self.proxy.task_done()

    def join(self) -> None:
        self.proxy.join()

    def qsize(self) -> int:
        size: int = self.proxy.qsize()
        return size

    def empty(self) -> bool:
        is_empty: bool = self.proxy.empty()
        return is_empty

    def full(self) -> bool:
        is_full: bool = self.proxy.full()
        return is_full

    @property
    def maxsize(self) -> int:
        maxsize: int = self.proxy.maxsize
        return maxsize

    @maxsize.setter
    def maxsize(self, maxsize: int) -> None:
        self.proxy.set_maxsize(maxsize)


class LifoQueue(Queue):
    """As `queue.LifoQueue`."""


class PriorityQueue(Queue):
    """As `queue.PriorityQueue`."""


class QueueModule:
    """As the module `queue`, for suites that are told which one to test."""

    Queue, LifoQueue, PriorityQueue = Queue, LifoQueue, PriorityQueue
    Empty, Full = objects.Empty, objects.Full
