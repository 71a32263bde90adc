"""Classes to replicate as they are, or to use inside of your own: `quorate up quorate.objects:Queue`.

::

    import quorate
    from quorate.objects import Map

    with quorate.local(Map) as settings:
        settings["colour"] = "red"

Data structures are ordinary classes that know nothing of replication. Without Quorate running all classes
here work too, except that nobody can wait: see `docs/guide/objects.rst`.
"""

from __future__ import annotations

from quorate.objects._account import Account, InsufficientFunds
from quorate.objects._bank import Bank
from quorate.objects._barrier import Barrier, BrokenBarrierError
from quorate.objects._binary_search_tree import BinarySearchTree
from quorate.objects._condition import Condition
from quorate.objects._counter import Counter
from quorate.objects._election import Election
from quorate.objects._event import Event
from quorate.objects._job_manager import JobManager
from quorate.objects._latch import Latch
from quorate.objects._linked_list import LinkedList
from quorate.objects._lock import Lock
from quorate.objects._log import Log
from quorate.objects._map import Map
from quorate.objects._membership import Membership
from quorate.objects._queue import Empty, Full, LifoQueue, PriorityQueue, Queue
from quorate.objects._rate_limiter import RateLimiter
from quorate.objects._red_black_tree import RedBlackTree
from quorate.objects._resource_broker import ResourceBroker
from quorate.objects._rlock import RLock
from quorate.objects._rwlock import RWLock
from quorate.objects._semaphore import BoundedSemaphore, Semaphore
from quorate.objects._set import Set
from quorate.objects._stack import Stack
from quorate.objects._storage import Storage

__all__ = [
    "Account",
    "Bank",
    "Barrier",
    "BinarySearchTree",
    "BoundedSemaphore",
    "BrokenBarrierError",
    "Condition",
    "Counter",
    "Election",
    "Empty",
    "Event",
    "Full",
    "InsufficientFunds",
    "JobManager",
    "Latch",
    "LifoQueue",
    "LinkedList",
    "Lock",
    "Log",
    "Map",
    "Membership",
    "PriorityQueue",
    "Queue",
    "RLock",
    "RWLock",
    "RateLimiter",
    "RedBlackTree",
    "ResourceBroker",
    "Semaphore",
    "Set",
    "Stack",
    "Storage",
]
