"""Random objects, driven by random calls and restored at random, stay equal to twins that never were."""

from __future__ import annotations

import collections
import functools
import itertools
import queue
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from quorate import _names, _native

_names.allow_package(__name__)


class Amount(Decimal):
    note: str


class Labels(list[Any]):
    note: str


class Table(dict[Any, Any]):
    note: str


class Chosen(set[Any]):
    note: str


class Slotted:
    __slots__ = ("__dict__", "first", "second")


@dataclass
class Record:
    key: int
    items: list[Any] = field(default_factory=list)


@dataclass(frozen=True)
class Place:
    row: int
    column: int


def amount(number: int) -> Amount:
    made = Amount(number)
    made.note = f"note {number}"
    return made


MAKERS: list[Callable[[int], Any]] = [
    lambda n: [n],
    lambda n: {n: n},
    lambda n: {n, Place(n, n)},
    lambda n: Chosen(str(m) for m in range(n)),
    lambda n: (frozenset(range(0, n * n, 7)), {str(n)}),
    lambda n: collections.deque([n], maxlen=5),
    lambda n: collections.OrderedDict({n: n}),
    lambda n: collections.defaultdict(list, {n: [n]}),
    lambda n: collections.Counter({n: n}),
    lambda n: bytearray([n % 256]),
    lambda n: Labels([n]),
    lambda n: Table({n: n}),
    lambda n: Slotted(),
    Record,
    amount,
    lambda n: (n, [n]),
    lambda n: queue.Queue(),
    itertools.count,
    lambda n: itertools.cycle([n, n + 1]),
]


class World:
    """What the calls act on: things by number, which may hold each other and themselves."""

    def __init__(self) -> None:
        self.things: list[Any] = []
        self.latest: Any = None
        self.grow = self.make
        self.grow_first = functools.partial(self.make, 0)

    def make(self, kind: int, number: int) -> str:
        self.latest = MAKERS[kind % len(MAKERS)](number)
        self.things.append(self.latest)
        return type(self.latest).__name__

    def put(self, into: int, what: int, number: int) -> Any:
        """Changes one thing, by the other one or by a number."""
        target = self.things[into % len(self.things)]
        other = self.things[what % len(self.things)]
        match target:
            case collections.deque() | list():
                target.append(other)
            case collections.Counter():
                target[number] += 1
            case dict():
                target[number] = other
            case set():
                target.add(Place(number, len(target)))
                target.discard(number)
                target |= {str(number), number * 8, (number, what)}
                return repr(target)
            case bytearray():
                target.append(number % 256)
            case Slotted():
                setattr(target, ("first", "second", "third")[number % 3], other)
            case Record():
                target.items.append(other)
            case queue.Queue():
                target.put(other)
            case itertools.count() | itertools.cycle():
                return next(target)
            case _:
                return number
        return None

    def take(self, out_of: int) -> Any:
        target = self.things[out_of % len(self.things)]
        match target:
            case list() | bytearray() | collections.deque() if target:
                target.pop()
            case collections.OrderedDict() if target:
                return target.popitem(last=False)[0]
            case dict() if target:
                return target.popitem()[0]
            case queue.Queue() if not target.empty():
                target.get()
            case set() if target:
                return repr(target.pop())
        return type(target).__name__


class Twins(RuleBasedStateMachine):
    numbers = st.integers(0, 40)

    def __init__(self) -> None:
        super().__init__()
        self.one, self.other = World(), World()

    def both(self, call: Callable[[World], Any]) -> None:
        if self.one.things:
            assert call(self.one) == call(self.other)

    @rule(kind=numbers, number=numbers)
    def make(self, kind: int, number: int) -> None:
        assert self.one.grow(kind, number) == self.other.grow(kind, number)

    @rule(number=numbers)
    def make_first(self, number: int) -> None:
        assert self.one.grow_first(number) == self.other.grow_first(number)

    @rule(into=numbers, what=numbers, number=numbers)
    def put(self, into: int, what: int, number: int) -> None:
        self.both(lambda world: world.put(into, what, number))

    @rule(out_of=numbers)
    def take(self, out_of: int) -> None:
        self.both(lambda world: world.take(out_of))

    @rule()
    def restore(self) -> None:
        self.one = _native.load_state(_native.dump_state(self.one))

    @invariant()
    def images_are_equal(self) -> None:
        assert _native.dump_state(self.one) == _native.dump_state(self.other)
        # What cannot change is kept by value, everything else is the same thing again.
        by_value = type(self.one.latest) in (type(None), tuple)
        assert by_value or any(self.one.latest is thing for thing in self.one.things)


Twins.TestCase.settings = settings(
    max_examples=100, stateful_step_count=40, deadline=None, derandomize=True, database=None
)


def test_a_restored_object_answers_like_one_that_never_was_restored() -> None:
    Twins.TestCase("runTest").runTest()
