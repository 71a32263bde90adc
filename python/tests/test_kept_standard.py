"""What the standard library has is carried exactly: methods, partials, locks, queues, iterators, times."""

from __future__ import annotations

import array
import collections
import copyreg
import datetime
import fractions
import functools
import ipaddress
import itertools
import logging
import math
import operator
import pathlib
import queue
import re
import threading
import types
import zoneinfo
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import pytest

import quorate
from quorate import _names, _native

_names.allow_package(__name__)

NOBODY = object()


def negative(number: int) -> int:
    return -number


class Board:
    def __init__(self) -> None:
        self.hits: list[int] = []
        self.on_hit = self.hit
        self.twice = functools.partial(self.hit, 2)
        self.negated = functools.partial(negative, 3)
        self.add = self.hits.append
        self.second = operator.itemgetter(1)
        self.both = operator.attrgetter("hits", "owner")
        self.root, self.key, self.largest = math.sqrt, negative, max
        self.make = Board.made
        self.owner = NOBODY
        self.__hidden = 5
        self.peek = self.__peek

    def hit(self, number: int) -> int:
        self.hits.append(number)
        return len(self.hits)

    def __peek(self) -> int:
        return self.__hidden

    @classmethod
    def made(cls) -> type:
        return cls


def copy_of(value: Any) -> Any:
    data = _native.dump_state(value)
    copy = _native.load_state(data)
    assert _native.dump_state(copy) == data
    return copy


def test_methods_partials_and_functions_come_back_bound_to_the_copy() -> None:
    board, copy = Board(), copy_of(Board())
    for each in (board, copy):
        assert (each.on_hit(1), each.twice(), each.negated()) == (1, 2, -3)
        each.add(9)
        assert each.hits == [1, 2, 9]
        assert (each.second((1, 2)), each.both(each)) == (2, ([1, 2, 9], NOBODY))
        assert (each.root(4), each.key(1), each.largest(1, 2), each.make(), each.peek()) == (
            2,
            -1,
            2,
            Board,
            5,
        )
    assert copy.on_hit.__self__ is copy


def test_a_marker_that_is_told_apart_by_being_it_stays_it() -> None:
    assert copy_of({"a": NOBODY})["a"] is NOBODY
    with pytest.raises(quorate.UnsupportedValue, match=r"^self\['a'\]: object is not supported, for no"):
        _native.dump_state({"a": object()})


def locks() -> Any:
    free, held = threading.Lock(), threading.Lock()
    held.acquire()
    semaphore = threading.Semaphore(2)
    semaphore.acquire()
    event = threading.Event()
    event.set()
    return (
        free,
        held,
        semaphore,
        event,
        threading.Condition(),
        threading.Barrier(2),
        threading.BoundedSemaphore(1),
    )


def test_locks_and_what_is_made_of_them_keep_whether_they_are_held() -> None:
    free, held, semaphore, event, condition, barrier, bounded = copy_of(locks())
    assert (free.acquire(blocking=False), held.acquire(blocking=False)) == (True, False)
    assert [semaphore.acquire(blocking=False) for _ in range(2)] == [True, False]
    assert event.is_set()
    with condition:
        condition.notify_all()
    assert barrier.parties == 2
    with bounded:
        assert not bounded.acquire(blocking=False)


@pytest.mark.parametrize("cls", [queue.Queue, queue.LifoQueue, queue.PriorityQueue])
def test_a_queue_keeps_its_order_and_its_bound(cls: type[queue.Queue[int]]) -> None:
    original = cls(3)
    for number in (2, 1, 3):
        original.put(number)
    copy = copy_of(original)
    assert copy.full()
    assert [copy.get_nowait() for _ in range(3)] == [original.get_nowait() for _ in range(3)]


def advanced(iterator: Any, steps: int) -> Any:
    for _ in range(steps):
        next(iterator)
    return iterator


def iterators() -> list[Any]:
    return [
        itertools.count(3, 2),
        advanced(itertools.count(), 5),
        advanced(itertools.cycle("abc"), 2),
        advanced(itertools.cycle([1, 2, 3]), 5),
        advanced(iter([1, 2, 3, 4, 5, 6, 7, 8, 9]), 1),
        iter((1, 2, 3, 4, 5, 6, 7)),
        iter(range(9)),
        itertools.repeat("x"),
        enumerate([1, 2, 3, 4, 5, 6, 7], 5),
        zip([1, 2, 3, 4, 5], "abcdef", strict=False),
    ]


@pytest.mark.parametrize("number", range(10))
def test_an_iterator_goes_on_where_it_was(number: int) -> None:
    original = iterators()[number]
    copy = copy_of([original])[0]
    assert type(copy) is type(original)
    assert list(itertools.islice(copy, 5)) == list(itertools.islice(iterators()[number], 5))


@pytest.mark.parametrize("number", range(10))
def test_an_iterator_has_the_image_of_its_copy_at_every_step(number: int) -> None:
    for steps in range(12):
        original = iterators()[number]
        collections.deque(itertools.islice(original, steps), maxlen=0)
        copy = copy_of([original])[0]
        for _ in range(12):
            assert next(copy, None) == next(original, None)
            assert _native.dump_state([copy]) == _native.dump_state([original])


ZONE = datetime.timezone(datetime.timedelta(hours=1), "Here")
VALUES: list[Any] = [
    fractions.Fraction(1, 3),
    ipaddress.ip_network("10.0.0.0/8"),
    pathlib.PurePosixPath("/a/b"),
    re.compile("a+", re.IGNORECASE),
    datetime.time(1, 2, 3, 4, ZONE, fold=1),
    datetime.datetime(2024, 2, 29, tzinfo=ZONE),
    ZONE,
    zoneinfo.ZoneInfo("Europe/Lisbon"),
    types.SimpleNamespace(a=[1]),
    collections.ChainMap({"a": 1}, {"b": 2}),
    collections.UserList([1, 2]),
    array.array("d", [1.5]),
    slice(1, None, 2),
    ...,
    NotImplemented,
    logging.getLogger("bank"),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_a_value_of_the_standard_library_is_kept(value: Any) -> None:
    copy = copy_of([value])[0]
    assert type(copy) is type(value)
    assert copy == value
    if isinstance(value, datetime.datetime | datetime.time):
        assert copy.tzname() == "Here"


@dataclass(frozen=True)
class Money:
    cents: int
    ZERO: ClassVar[Money]


Money.ZERO = Money(0)


class Point(NamedTuple):
    x: int


ORIGIN = Point(0)
HOUR = datetime.timezone(datetime.timedelta(hours=1))
HALF = fractions.Fraction(1, 2)


class Ledger:
    def __init__(self) -> None:
        self.kept: list[Any] = []

    def keep(self) -> None:
        self.kept += [Money.ZERO, ORIGIN, HOUR, HALF, Money(1)]


def test_a_constant_is_what_the_module_had_when_it_was_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    first = Money.ZERO
    assert _native.load_state(_native.dump_state([first]))[0] is first
    # A class variable that is called a cache, which another process has not filled.
    monkeypatch.setattr(Money, "ZERO", Money(0))
    monkeypatch.setattr(Money, "cached", Money(7), raising=False)
    assert _native.load_state(_native.dump_state([first]))[0] is first
    for later in (Money.ZERO, vars(Money)["cached"]):
        copy = _native.load_state(_native.dump_state([later]))[0]
        assert copy == later and copy is not later


def test_a_constant_that_is_stored_again_after_a_restore_is_the_one_that_was_stored_before() -> None:
    ledger, twin = Ledger(), Ledger()
    ledger.keep()
    twin.keep()
    ledger = copy_of(ledger)
    ledger.keep()
    twin.keep()
    assert _native.dump_state(ledger) == _native.dump_state(twin)
    assert ledger.kept[0] is Money.ZERO


class Reduced:
    def __init__(self, size: int) -> None:
        self.size, self.parts = size, [size]

    def __reduce__(self) -> Any:
        return Reduced, (self.size,), {"parts": self.parts}


class Counted(list[int]):
    """Is made of its items, but counts first what an exception then keeps out."""

    def __init__(self, items: Any = ()) -> None:
        super().__init__(items)
        self.count_of_adds = len(self)

    def add(self, item: int) -> None:
        self.count_of_adds += 1
        self.append(item + 0)

    def __reduce__(self) -> Any:
        return Counted, (list(self),)


class Registered:
    def __init__(self, size: int) -> None:
        self.size = size


def make_registered(size: int) -> Registered:
    return Registered(size)


copyreg.pickle(Registered, lambda value: (make_registered, (value.size,)))


class Hostile:
    def __reduce__(self) -> Any:
        return exec, ("raise SystemExit",)


class Bare:
    def __init__(self) -> None:
        self.items, self.restored = [1], False

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, restored=True)


def test_a_class_says_itself_how_it_is_made() -> None:
    reduced = Reduced(2)
    reduced.parts.append(3)
    assert vars(copy_of([reduced])[0]) == {"size": 2, "parts": [2, 3]}
    assert copy_of([Registered(7)])[0].size == 7
    bare = Bare()
    bare.restored = True
    assert vars(copy_of(bare)) == {"items": [1], "restored": True}


def test_what_a_class_does_not_say_of_itself_is_kept_too() -> None:
    counted = Counted()
    counted.add(1)
    with pytest.raises(TypeError):
        counted.add("x")  # type: ignore[arg-type]
    copy = copy_of([counted])[0]
    assert (copy, copy.count_of_adds) == ([1], 2)


def test_what_no_allowed_package_has_is_neither_written_nor_called() -> None:
    with pytest.raises(
        quorate.UnsupportedValue, match=r"Hostile is not supported, for it is made by builtins\.exec"
    ):
        _native.dump_state(Hostile())
    for name in ("builtins.exec", "os.system", "builtins.getattr", "subprocess.Popen"):
        text = bytes([0x60 + len(name)]) + name.encode()
        call = b"\xd9\xea\x61\x82" + text + b"\xd9\xea\x61\x81\x61x"
        hostile = b"\xd9\xea\x70\x83\x66reduce" + call + b"\xf6"
        with pytest.raises(quorate.MalformedValue, match="not allowed or is gone"):
            _native.load_state(hostile)
        function = b"\xd9\xea\x70\x83\x68function\xd9\xea\x61\x81" + text + b"\xf6"
        with pytest.raises(quorate.MalformedValue, match="is gone"):
            _native.load_state(function)
