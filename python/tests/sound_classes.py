"""Fifteen classes of which `quorate check` must not complain."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import decimal
import enum
import heapq
import random
import threading
import time
import uuid
from typing import Any

import quorate


class Account:
    def __init__(self, number: str = "A-1", balance: int = 0) -> None:
        self.number, self.balance = number, balance

    def deposit(self, amount: int) -> int:
        self.balance += amount
        return self.balance

    def debit(self, amount: int) -> bool:
        if amount > self.balance:
            return False
        self.balance -= amount
        return True

    @quorate.readonly
    def read(self) -> int:
        return self.balance


class Lottery:
    """Chance and time are agreed."""

    def __init__(self) -> None:
        self.draws: list[Any] = []

    def draw(self) -> Any:
        self.draws.append((random.randrange(49), time.time(), uuid.uuid4().hex))
        return self.draws[-1]

    def now(self) -> datetime.datetime:
        return datetime.datetime.now()


class Members:
    """A set of texts whose order never shows."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def join(self, name: str) -> bool:
        is_new = name not in self.names
        self.names.add(name)
        return is_new

    def leave(self, name: str) -> None:
        self.names.discard(name)

    def list(self) -> list[str]:
        return sorted(self.names)

    def longest(self) -> int:
        return max((len(name) for name in self.names), default=0)


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclasses.dataclass
class Item:
    name: str
    price: decimal.Decimal
    colour: Colour = Colour.RED
    tags: list[str] = dataclasses.field(default_factory=list)


class Shop:
    def __init__(self) -> None:
        self.items: dict[str, Item] = {}

    def put(self, item: Item) -> int:
        self.items[item.name] = item
        return len(self.items)

    def find(self, colour: Colour) -> list[str]:
        return [item.name for item in self.items.values() if item.colour is colour]

    def total(self) -> decimal.Decimal:
        return sum((item.price for item in self.items.values()), decimal.Decimal(0))

    def raise_prices(self, percent: int) -> None:
        for item in self.items.values():
            item.price += item.price * percent / 100


class Tasks:
    """A heap of tuples."""

    def __init__(self) -> None:
        self.heap: list[tuple[int, int, str]] = []
        self.count = 0

    def put(self, urgency: int, name: str) -> int:
        self.count += 1
        heapq.heappush(self.heap, (urgency, self.count, name))
        return len(self.heap)

    def take(self) -> str | None:
        return heapq.heappop(self.heap)[2] if self.heap else None


class Recent:
    def __init__(self, size: int = 3) -> None:
        self.seen: collections.deque[str] = collections.deque(maxlen=size)

    def see(self, word: str) -> list[str]:
        self.seen.append(word)
        return list(self.seen)

    def rotate(self, by: int) -> None:
        self.seen.rotate(by)


class Words:
    def __init__(self) -> None:
        self.lengths: collections.defaultdict[int, list[str]] = collections.defaultdict(list)
        self.counts: collections.Counter[str] = collections.Counter()

    def add(self, word: str) -> int:
        self.lengths[len(word)].append(word)
        self.counts[word] += 1
        return self.counts[word]

    def commonest(self) -> list[tuple[str, int]]:
        return self.counts.most_common(3)

    def of_length(self, length: int) -> list[str]:
        return list(self.lengths[length])


class Semaphore:
    """An ordinary class with a lock."""

    def __init__(self, free: int = 2) -> None:
        self.lock = threading.Lock()
        self.free = free

    def acquire(self) -> bool:
        with self.lock:
            if self.free == 0:
                return False
            self.free -= 1
            return True

    def release(self) -> None:
        with self.lock:
            self.free += 1


class Node:
    def __init__(self, name: str, parent: Node | None) -> None:
        self.name, self.parent = name, parent
        self.children: list[Node] = []


class Tree:
    """A state with cycles."""

    def __init__(self) -> None:
        self.root = Node("", None)
        self.nodes = {"": self.root}

    def add(self, name: str, parent: str = "") -> str:
        if name in self.nodes:
            raise ValueError(f"there is a {name}")
        above = self.nodes.get(parent, self.root)
        node = self.nodes[name] = Node(name, above)
        above.children.append(node)
        return self.path(name)

    def path(self, name: str) -> str:
        node: Node | None = self.nodes[name]
        names: list[str] = []
        while node is not None and node.parent is not None:
            names.append(node.name)
            node = node.parent
        return "/".join(reversed(names))


class Cached:
    """What is cached is not part of the state, and comes back by itself."""

    def __init__(self) -> None:
        self.values: list[int] = []
        self._sum_cache: int | None = None

    def add(self, value: int) -> None:
        self.values.append(value)
        self._sum_cache = None

    def sum(self) -> int:
        if self._sum_cache is None:
            self._sum_cache = sum(self.values)
        return self._sum_cache

    def __getstate__(self) -> dict[str, Any]:
        return {"values": self.values}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.values, self._sum_cache = state["values"], None


class Register:
    def __init__(self) -> None:
        self.value: Any = None

    def write(self, value: Any) -> None:
        self.value = value

    def read(self) -> Any:
        return self.value

    def compare_and_set(self, old: Any, new: Any) -> bool:
        if self.value != old:
            return False
        self.value = new
        return True


class Table:
    def __init__(self, rows: int = 2) -> None:
        self.rows = [[0.0] * 3 for _ in range(rows)]

    def set(self, row: int, column: int, value: float) -> None:
        self.rows[row][column] = value

    def mean(self, row: int) -> float:
        return sum(self.rows[row]) / 3

    def shown(self) -> str:
        return "\n".join(" ".join(f"{cell:8.2f}" for cell in row) for row in self.rows)


class Unannotated:
    def __init__(self):  # type: ignore[no-untyped-def]
        self.stock = {}

    def put(self, name, count=1):  # type: ignore[no-untyped-def]
        self.stock[name] = self.stock.get(name, 0) + count
        return self.stock[name]

    def take(self, name, count=1):  # type: ignore[no-untyped-def]
        if self.stock.get(name, 0) < count:
            raise LookupError(name)
        self.stock[name] -= count

    def names(self):  # type: ignore[no-untyped-def]
        return list(self.stock)


class Election:
    """Objects in a set, hashed by what they are."""

    def __init__(self) -> None:
        self.votes: dict[str, frozenset[str]] = {}

    def vote(self, voter: str, candidate: str) -> int:
        others = self.votes.get(candidate, frozenset())
        self.votes[candidate] = others | {voter}
        return len(self.votes[candidate])

    def winner(self) -> str | None:
        return max(sorted(self.votes), key=lambda name: len(self.votes[name]), default=None)

    def has_voted(self, voter: str) -> bool:
        return any(voter in voters for voters in self.votes.values())


class Dice:
    """A generator of the object's own."""

    def __init__(self, seed: int = 7) -> None:
        self.random = random.Random(seed)
        self.thrown = 0

    def throw(self) -> int:
        self.thrown += 1
        return self.random.randint(1, 6)

    def count(self) -> int:
        return self.thrown


SOUND = [
    *(Account, Lottery, Members, Shop, Tasks, Recent, Words, Semaphore, Tree, Cached, Register, Table),
    *(Unannotated, Election, Dice),
]
