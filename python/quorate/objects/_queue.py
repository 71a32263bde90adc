"""Queues."""

from __future__ import annotations

import heapq
import queue
from collections import deque
from typing import Any, Generic, TypeVar

import quorate
from quorate.objects._line import Line, patience

T = TypeVar("T")


class Empty(queue.Empty):
    """There is no item. It is a `queue.Empty`.

    >>> issubclass(Empty, queue.Empty)
    True
    """


class Full(queue.Full):
    """There is no room. It is a `queue.Full`.

    >>> issubclass(Full, queue.Full)
    True
    """


class Queue(Generic[T]):
    """Items of which the oldest leaves first, with the methods of `queue.Queue`.

    Who waits for an item, or for room, is served in the order of coming; who is gone is passed over. What was
    given to a caller is gone, also if it ends then: `JobManager` takes jobs back.

    >>> letters = Queue[str](maxsize=2)
    >>> letters.put("a"), letters.put("b"), letters.full(), letters.get(), letters.qsize()
    (None, None, True, 'a', 1)
    """

    def __init__(self, maxsize: int = 0) -> None:
        """At most so many items; 0 for any number."""
        self.maxsize = maxsize
        self._unfinished = 0
        self._getters: Line[None] = Line()
        self._putters: Line[T] = Line()
        self._joiners: Line[None] = Line()
        self._init()

    def put(self, item: T, block: bool = True, timeout: float | None = None) -> None:
        """Add an item, and wait for room if there is none.

        Raises Full if it must not wait, and after `timeout` seconds.
        """
        seconds = _patience(block, timeout)
        if not self.full():
            self._accept(item)
            return None
        if seconds == 0:
            raise Full
        parked: None = self._putters.wait(item, seconds, error=Full())
        return parked

    def get(self, block: bool = True, timeout: float | None = None) -> T:
        """Remove an item and return it, and wait for one if there is none.

        Raises Empty if it must not wait, and after `timeout` seconds.
        """
        seconds = _patience(block, timeout)
        if self.empty():
            if seconds == 0:
                raise Empty
            parked: T = self._getters.wait(None, seconds, error=Empty())
            return parked
        item = self._take()
        putter = self._putters.pop()
        if putter is not None:
            self._admit(*putter)
        return item

    def put_nowait(self, item: T) -> None:
        """Add an item. Raises Full if there is no room."""
        self.put(item, block=False)

    def get_nowait(self) -> T:
        """Remove an item and return it. Raises Empty if there is none."""
        return self.get(block=False)

    def task_done(self) -> None:
        """Say that the work on an item is done. Raises ValueError if that was said of all items."""
        if self._unfinished == 0:
            raise ValueError("task_done() called too many times")
        self._unfinished -= 1
        if self._unfinished == 0:
            self._joiners.wake_all()

    def join(self) -> None:
        """Wait until the work on all items is done."""
        if self._unfinished == 0:
            return None
        parked: None = self._joiners.wait(None, None)
        return parked

    def qsize(self) -> int:
        """How many items there are."""
        return self._size()

    def empty(self) -> bool:
        """Whether there is no item."""
        return self._size() == 0

    def full(self) -> bool:
        """Whether there is no room."""
        return 0 < self.maxsize <= self._size()

    def _accept(self, item: T) -> None:
        # Who waits for an item waits because there is none: this one is next in any order.
        if not self._getters.wake_first(item):
            self._add(item)
        self._unfinished += 1

    def _admit(self, putter: quorate.Caller, item: T) -> None:
        try:
            self._accept(item)
        except TypeError as error:
            # It cannot be compared with the others; that is not the fault of who took one.
            putter.fail(error)
        else:
            putter.wake()

    # What makes another kind of queue.

    def _init(self) -> None:
        self._items: deque[T] = deque()

    def _size(self) -> int:
        return len(self._items)

    def _add(self, item: T) -> None:
        self._items.append(item)

    def _take(self) -> T:
        return self._items.popleft()


class LifoQueue(Queue[T]):
    """Items of which the newest leaves first, with the methods of `queue.LifoQueue`.

    >>> letters = LifoQueue[str]()
    >>> letters.put("a"), letters.put("b"), letters.get()
    (None, None, 'b')
    """

    def _take(self) -> T:
        return self._items.pop()


class PriorityQueue(Queue[T]):
    """Items of which the smallest leaves first, with the methods of `queue.PriorityQueue`.

    >>> jobs = PriorityQueue[tuple[int, str]]()
    >>> jobs.put((2, "sweep")), jobs.put((1, "wash")), jobs.get()
    (None, None, (1, 'wash'))
    """

    def _init(self) -> None:
        self._heap: list[Any] = []

    def _size(self) -> int:
        return len(self._heap)

    def _add(self, item: T) -> None:
        try:
            heapq.heappush(self._heap, item)
        except TypeError:
            # It cannot be compared with some other item, and was put in before that showed.
            del self._heap[next(index for index, each in enumerate(self._heap) if each is item)]
            heapq.heapify(self._heap)
            raise

    def _take(self) -> T:
        item: T = heapq.heappop(self._heap)
        return item


def _patience(block: bool, timeout: float | None) -> float | None:
    """As `queue` has it: a timeout does not count where the caller does not wait, and -1 is no timeout."""
    if not block:
        return 0.0
    if timeout is not None and timeout < 0:
        raise ValueError("'timeout' must be a non-negative number")
    return patience(True, timeout)
