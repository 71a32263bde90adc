"""Data structures of `quorate.objects` beside Python's own types, under random operations."""

from __future__ import annotations

import collections
import json
import random
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest
from objects_subjects import Desk
from objects_twins import ROUNDS, SEEDS, answered, compare, outcome

import quorate
from quorate import objects


@pytest.mark.parametrize("seed", SEEDS)
def test_a_linked_list_does_what_a_list_does(seed: int) -> None:
    def at_left(items: Any, value: int) -> None:
        items.insert(0, value) if isinstance(items, list) else items.appendleft(value)

    def off_left(items: Any, _: int) -> Any:
        return items.pop(0) if isinstance(items, list) else items.popleft()

    moves: list[Callable[[Any, int], Any]] = [
        lambda items, value: items.append(value),
        lambda items, value: items.insert(value, value),
        lambda items, value: items.extend([value, value + 1]),
        lambda items, value: items.pop(value),
        lambda items, _: items.pop(),
        lambda items, value: items.remove(value),
        lambda items, value: items.index(value),
        lambda items, value: items.count(value),
        lambda items, value: items[value],
        lambda items, value: items.__setitem__(value, value),
        lambda items, value: items.__delitem__(value),
        lambda items, value: value in items,
        lambda items, _: items.reverse(),
        lambda items, _: list(items),
        at_left,
        off_left,
    ]
    compare(objects.LinkedList(), [], random.Random(seed), moves)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_stack_is_the_end_of_a_list(seed: int) -> None:
    moves: list[Callable[[Any, int], Any]] = [
        lambda items, value: items.append(value) if isinstance(items, list) else items.push(value),
        lambda items, _: items.pop(),
        lambda items, _: items[-1] if isinstance(items, list) else items.top(),
        lambda items, _: list(items),
    ]
    compare(objects.Stack(), [], random.Random(seed), moves)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_map_does_what_a_dict_does(seed: int) -> None:
    moves: list[Callable[[Any, int], Any]] = [
        lambda items, key: items.__setitem__(key, key * 2),
        lambda items, key: items[key],
        lambda items, key: items.get(key),
        lambda items, key: items.get(key, "none"),
        lambda items, key: items.setdefault(key, 7),
        lambda items, key: items.pop(key),
        lambda items, key: items.pop(key, "none"),
        lambda items, _: items.popitem(),
        lambda items, key: items.__delitem__(key),
        lambda items, key: items.update({key: 1, key + 1: 2}),
        lambda items, key: key in items,
        lambda items, _: (list(items), list(items.keys()), list(items.values()), list(items.items())),
    ]
    compare(objects.Map(), {}, random.Random(seed), moves)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_counter_does_what_a_collections_counter_does(seed: int) -> None:
    def total(items: Any, _: int) -> Any:
        return items.total(), sorted(items.elements()), items.most_common(3), items.most_common()

    moves: list[Callable[[Any, int], Any]] = [
        lambda items, key: items.update([key, key, key + 1]),
        lambda items, key: items.update({key: 3}),
        lambda items, key: items.subtract([key, key]),
        lambda items, key: items.subtract({key: 1}),
        lambda items, key: items[key],
        lambda items, key: items.get(key, 5),
        lambda items, key: items.__setitem__(key, 4),
        lambda items, key: items.__delitem__(key),
        lambda items, key: items.pop(key),
        lambda items, key: key in items,
        lambda items, _: (list(items.keys()), list(items.values()), list(items.items())),
        total,
    ]
    compare(objects.Counter(), collections.Counter(), random.Random(seed), moves)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_set_does_what_a_set_does(seed: int) -> None:
    moves: list[Callable[[Any, int], Any]] = [
        lambda items, value: answered(lambda: items.add(value)),
        lambda items, value: answered(lambda: items.discard(value)),
        lambda items, value: items.remove(value),
        lambda items, value: items.update([value, value + 1]),
        lambda items, value: items.difference_update([value, value + 1]),
        lambda items, value: items.intersection_update(range(value - 9, value + 9)),
        lambda items, value: items.union([value]),
        lambda items, value: items.intersection([value, 1, 2, 3]),
        lambda items, value: items.difference([value, 1, 2, 3]),
        lambda items, value: items.symmetric_difference([value, 1, 2, 3]),
        lambda items, value: (items.isdisjoint([value]), items.issuperset([value]), items.issubset(range(9))),
        lambda items, value: value in items,
        lambda items, _: items.clear() if len(items) > 15 else None,
    ]
    thing: objects.Set[int] = objects.Set()
    twin: set[int] = set()
    draw = random.Random(seed)
    for _ in range(ROUNDS):
        move, value = draw.choice(moves), draw.randrange(-20, 20)
        assert outcome(lambda: move(thing, value)) == outcome(lambda: move(twin, value))  # noqa: B023
        assert set(thing) == twin
    assert objects.Set([1, 2]).pop() == 2
    with pytest.raises(KeyError):
        objects.Set[int]().pop()


def test_numbers_of_a_log_stay_when_it_is_trimmed() -> None:
    log: objects.Log[int] = objects.Log()
    assert log.extend(range(10)) == 10
    assert log.trim(4) == 4
    assert log.trim(2) == 0
    assert log.append(10) == 10
    assert (log.read(4, 6), log.read(9), log.tail(2), log[4], log.next()) == ([4, 5], [9, 10], [9, 10], 4, 11)
    assert log.read() == list(range(4, 11))
    for number in (3, 11):
        with pytest.raises(IndexError):
            log[number]
    with pytest.raises(IndexError, match="trimmed"):
        log.read(3)
    assert (log.trim(100), log.first, log.append(11)) == (7, 11, 11)


def test_a_bank_moves_money_and_neither_makes_nor_loses_any() -> None:
    bank, draw = objects.Bank(), random.Random(1)
    for number in range(5):
        bank.open(str(number), 100)
    for _ in range(2000):
        source, target, amount = str(draw.randrange(6)), str(draw.randrange(6)), draw.randrange(-5, 80)
        before = {number: bank.balance(number) for number in bank.numbers()}
        if isinstance(outcome(lambda: bank.transfer(source, target, amount)), type):  # noqa: B023
            assert before == {number: bank.balance(number) for number in bank.numbers()}
        assert bank.total() == 500
        assert min(map(bank.balance, bank.numbers())) >= 0
    with pytest.raises(objects.InsufficientFunds):
        bank.withdraw("0", 1000)
    with pytest.raises(TypeError):
        objects.Account().deposit(1.5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="above 0"):
        objects.Account(-1)


def test_a_rate_limiter_fills_its_buckets_with_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(time, "time", lambda: now[0])
    limiter = objects.RateLimiter(rate=2.0, burst=5.0)
    assert [limiter.allow("a") for _ in range(6)] == [True] * 5 + [False]
    assert limiter.wait("a") == 0.5
    now[0] += 0.5
    assert (limiter.allow("a"), limiter.allow("a"), limiter.allow("b", cost=5)) == (True, False, True)
    now[0] -= 100
    assert not limiter.allow("a"), "a clock that goes back fills nothing"
    now[0] += 1000
    assert limiter.wait("a", cost=5) == 0
    with pytest.raises(ValueError, match="cost"):
        limiter.allow("a", cost=6)
    for number in range(5000):
        now[0] += 3
        limiter.allow(str(number))
    assert len(limiter._buckets) < 1100, "full buckets are forgotten"


ITEMS = "__contains__ __getitem__ __len__"
READS = {
    objects.BinarySearchTree: f"between first get height items keys last values {ITEMS}",
    objects.RedBlackTree: f"between first get height items keys last values {ITEMS}",
    objects.LinkedList: f"count index items {ITEMS}",
    objects.Stack: "top __len__",
    objects.Map: f"get items keys values {ITEMS}",
    objects.Counter: f"elements get items keys most_common total values {ITEMS}",
    objects.Set: "difference intersection isdisjoint issubset issuperset items symmetric_difference union "
    "__contains__ __len__",
    objects.Log: "next read tail __getitem__ __len__",
    objects.Bank: "balance numbers total",
}


SHOWS = """
import json, sys
from quorate import _reads, objects
told = {}
for name in json.loads(sys.argv[1]):
    cls = getattr(objects, name)
    specials = [each for each in ("__contains__", "__getitem__", "__len__") if hasattr(cls, each)]
    found = [*_reads.public_methods(cls), *specials]
    told[name] = " ".join(each for each in found if _reads.find(cls(), each).is_read)
print(json.dumps(told))
"""


def test_methods_that_read_are_shown_to_read() -> None:
    # In a process of its own, as in a host: classes of pytest are none that a state can hold.
    names = [cls.__name__ for cls in READS]
    command = [sys.executable, "-c", SHOWS, json.dumps(names)]
    told = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert told == {cls.__name__: reads for cls, reads in READS.items()}


def test_errors_of_objects_travel_in_their_own_class() -> None:
    with quorate.local(objects.Bank, nodes=1, timeout=30.0) as bank:
        bank.open("A-1", 5)
        with pytest.raises(objects.InsufficientFunds, match="should leave"):
            bank.withdraw("A-1", 10)


def test_objects_are_kept_inside_of_a_users_own_class() -> None:
    group = quorate.local(Desk, nodes=1, persist="disk", timeout=30.0)
    with group as desk:
        assert [desk.put(paper) for paper in ("a b b", "c b", "c c c")] == [1, 2, 3]
        assert desk.take() == "c c c"
        group.snapshot()
        group.kill(group.leader)
        group.restart(group.stopped[0])
        assert desk.take() == "c b"
        assert desk.common() == [("c", 4), ("b", 1)]
        assert desk.all_read() == [("c b", 1), ("c c c", 0)]
