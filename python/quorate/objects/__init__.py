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
from quorate.objects._binary_search_tree import BinarySearchTree
from quorate.objects._counter import Counter
from quorate.objects._linked_list import LinkedList
from quorate.objects._log import Log
from quorate.objects._map import Map
from quorate.objects._rate_limiter import RateLimiter
from quorate.objects._red_black_tree import RedBlackTree
from quorate.objects._set import Set
from quorate.objects._stack import Stack

__all__ = [
    "Account",
    "Bank",
    "BinarySearchTree",
    "Counter",
    "InsufficientFunds",
    "LinkedList",
    "Log",
    "Map",
    "RateLimiter",
    "RedBlackTree",
    "Set",
    "Stack",
]
