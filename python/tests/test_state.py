"""States keep cycles, sharing and order, hold allowed classes only, and are equal by value."""

from __future__ import annotations

import collections
import random
import threading
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pytest

import quorate
from quorate import _native


class Pair(NamedTuple):
    left: Any
    right: Any


@dataclass
class Bill:
    owner: str
    lines: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.lines.append(0)


class Slotted:
    __slots__ = ("a", "b")

    def __init__(self) -> None:
        self.a = 1


class Own:
    def __init__(self) -> None:
        self.kept, self.cache = 1, {"big": object()}

    def __getstate__(self) -> dict[str, Any]:
        return {"kept": self.kept}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.kept, self.cache = state["kept"], {}


class Table(dict[str, int]):
    name = "t"


@quorate.register
class Bank:
    def __init__(self) -> None:
        self.bills = {"a": Bill("a"), "b": Bill("b")}
        self.again = self.bills["a"]
        self.me = self
        self.lock = threading.RLock()
        self.queue = collections.deque([1, 2], maxlen=5)
        self.counts = collections.defaultdict(list, {"x": [1]})
        self.tally = collections.Counter("hello")
        self.ordered = collections.OrderedDict(z=1, a=2)
        self.buffer = bytearray(b"abc")
        self.pair = Pair(self.bills, {1, 2})
        self.slotted = Slotted()
        self.own = Own()
        self.table = Table(x=1)
        self.table.name = "mine"
        self.random = random.Random(7)
        self.factory = Bill
        self.people = {Slotted}
        self.loop: list[Any] = []
        self.loop.append(self.loop)


def copy_of(value: Any) -> Any:
    return _native.load_state(_native.dump_state(value))


def test_an_object_comes_back_with_its_cycles_and_its_sharing() -> None:
    bank, copy = Bank(), copy_of(Bank())
    assert copy.me is copy
    assert copy.again is copy.bills["a"]
    assert copy.bills == bank.bills
    assert copy.pair.left is copy.bills
    assert copy.loop[0] is copy.loop
    assert copy.counts["new"] == []
    assert copy.queue.maxlen == 5
    assert list(copy.ordered) == ["z", "a"]
    assert (copy.slotted.a, hasattr(copy.slotted, "b")) == (1, False)
    assert (copy.own.kept, copy.own.cache) == (1, {})
    assert (type(copy.table), copy.table, copy.table.name) == (Table, {"x": 1}, "mine")
    assert copy.random.random() == bank.random.random()
    assert copy.factory is Bill
    with copy.lock:
        pass


def test_a_restored_state_has_the_same_bytes() -> None:
    data = _native.dump_state(Bank())
    again = _native.load_state(data)
    again.random = random.Random(7)
    assert _native.dump_state(again) == data


def test_equal_states_have_equal_bytes_whatever_their_history() -> None:
    one, other = Bank(), Bank()
    other.bills["c"] = Bill("c")
    del other.bills["c"]
    assert _native.dump_state(one) == _native.dump_state(other)
    # A set shows what was in it by what `pop` takes next.
    one.pair.right.pop()
    one.pair.right.add(1)
    assert _native.dump_state(one) != _native.dump_state(other)
    other = Bank()
    other.bills["a"].lines.append(1)
    assert _native.dump_state(Bank()) != _native.dump_state(other)


def test_what_cannot_be_kept_is_named_by_its_path() -> None:
    bank = Bank()
    bank.bills["a"].owner = open(__file__)  # type: ignore[assignment]  # noqa: SIM115
    with pytest.raises(quorate.UnsupportedValue, match=r"^self\.bills\['a'\]\.owner: TextIOWrapper is not"):
        _native.dump_state(bank)


def test_a_class_outside_of_the_allowed_packages_is_not_made() -> None:
    hostile = b"\xd9\xea\x70\x83\x69os.system\xd9\xea\x61\x81\x62ls\xf6"
    with pytest.raises(quorate.MalformedValue, match="gone"):
        _native.load_state(hostile)
