"""Maps and counters behave alike, written in Python or in Rust: each beside the class in this process."""

from __future__ import annotations

import datetime
import random
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from patience import PATIENCE_S

import quorate
from quorate import _local_group, objects

ROUNDS = 400
KINDS = ["python", "rust"]

KEYS: list[Any] = [
    None,
    True,
    0,
    1.0,
    2,
    -7,
    2**70,
    0.5,
    "a",
    "1",
    "",
    "é\n'",
    b"a",
    b"\xff",
    (1, "a"),
    (1.0, (True,)),
]
KEYS += [datetime.date(2020, 2, 2), uuid.UUID(int=7), frozenset({1, 2}), frozenset()]
NO_KEYS: list[Any] = [[1], {"a": 1}, {1}, bytearray(b"a"), (1, [2])]
VALUES: list[Any] = [
    None,
    1,
    True,
    1.0,
    0.0,
    "text",
    b"bytes",
    bytearray(b"bytes"),
    [1, 2.0],
    [1.0, 2],
    (1, 2),
]
VALUES += [{"a": 1, "b": 2.0}, {"b": 2, "a": True}, {1, 2}, frozenset({2, 1.0}), 2**64, 2.0**64, "x" * 5000]

Move = Callable[[Any, Any, Any], Any]
"""What is done to an object, with a key and a value."""

MAP_MOVES: list[Move] = [
    lambda it, key, value: it.__setitem__(key, value),
    lambda it, key, value: it.__setitem__(key, value),
    lambda it, key, _: it[key],
    lambda it, key, _: it.__delitem__(key),
    lambda it, key, _: it.get(key),
    lambda it, key, value: it.get(key, value),
    lambda it, key, value: it.get(key=key, default=value),
    lambda it, key, value: it.setdefault(key, value),
    lambda it, key, _: it.pop(key),
    lambda it, key, value: it.pop(key, value),
    lambda it, _, __: it.popitem(),
    lambda it, key, value: it.replace(key, it.get(key), value),
    lambda it, key, value: it.replace(key, value, None),
    lambda it, key, value: it.replace(key, value=1, expected=value),
    lambda it, key, value: it.update({"a": value, "z": 1}),
    lambda it, key, value: it.update([(key, value), ["b", 2], "cd"]),
    lambda it, key, value: it.update([("b", value), (key, 1, 2)]),
    lambda it, key, value: it.update([("c", value), 7]),
    lambda it, _, value: it.update(7),
    lambda it, key, _: key in it,
    lambda it, _, __: len(it),
    lambda it, _, __: (list(it), it.keys(), it.values(), it.items()),
    lambda it, key, value: it.get(),
    lambda it, key, value: it.get(key, value, 3),
    lambda it, key, value: it.pop(key, value, 3),
    lambda it, key, value: it.setdefault(key),
    lambda it, key, value: it.replace(key),
    lambda it, key, value: it.replace(),
    lambda it, key, value: it.keys(1),
    lambda it, key, value: it.get(key, other=value),
    lambda it, key, value: it.get(key, key=value),
]

COUNTER_MOVES: list[Move] = [
    lambda it, key, _: it.increment(key),
    lambda it, key, _: it.increment(key, 5),
    lambda it, key, _: it.increment(key=key, by=-2),
    lambda it, key, _: it.decrement(key),
    lambda it, key, _: it.decrement(key, by=True),
    lambda it, key, _: it.update([key, "a", key]),
    lambda it, key, _: it.update(
        {key: 3, "b": -1} if not isinstance(key, list | dict | set | bytearray) else "ab"
    ),
    lambda it, key, _: it.update(["a", [1], "b"]),
    lambda it, _, __: it.update("hello"),
    lambda it, _, __: it.update(b"hello"),
    lambda it, _, __: it.update(7),
    lambda it, key, _: it.subtract([key, "a"]),
    lambda it, _, __: it.subtract({"a": 2, 1.0: 3}),
    lambda it, key, _: it.get(key, 9),
    lambda it, key, value: it.get(key, default=value),
    lambda it, key, _: it[key],
    lambda it, key, _: it.__setitem__(key, 4),
    lambda it, key, _: it.__delitem__(key),
    lambda it, key, _: it.pop(key),
    lambda it, key, _: key in it,
    lambda it, _, __: (len(it), it.total(), it.elements()),
    lambda it, _, __: (list(it), it.keys(), it.values(), it.items()),
    lambda it, _, __: [it.most_common(n) for n in (None, 0, 1, 3, -1, -99, 2**40, True)],
    lambda it, _, __: it.most_common(),
    lambda it, _, __: it.most_common(n="many"),
    lambda it, _, __: it.increment(),
    lambda it, key, _: it.increment(key, 1, 2),
    lambda it, key, _: it.pop(key, 1),
    lambda it, _, __: it.total(1),
]

STATES = {"Map": MAP_MOVES, "Counter": COUNTER_MOVES}


def group_of(name: str, kind: str, nodes: int = 1, arguments: str = "[]") -> quorate.LocalGroup[Any]:
    path = {"python": f"quorate.objects:{name}", "rust": f"rust:{name.lower()}"}[kind]
    words = (arguments, "{}")
    persist = "disk" if nodes > 1 else "memory"
    plan = _local_group.Plan(getattr(objects, name), path, words, nodes, persist, PATIENCE_S, ())
    return quorate.LocalGroup(plan)


@pytest.fixture(scope="module", params=[(name, kind) for name in STATES for kind in KINDS], ids="-".join)
def served(request: pytest.FixtureRequest) -> Iterator[tuple[str, Any]]:
    name, kind = request.param
    with group_of(name, kind) as proxy:
        yield name, proxy


def outcome(move: Move, thing: Any, key: Any, value: Any) -> Any:
    """What it returns with its type, or the class and text of what it raises."""
    try:
        return exact(move(thing, key, value))
    except Exception as error:
        return type(error), str(error)


def exact(value: Any) -> Any:
    """A value that is equal to no other, also where Python takes 1 for True."""
    if isinstance(value, list | tuple):
        return type(value), [exact(item) for item in value]
    if isinstance(value, dict):
        return [(exact(key), exact(item)) for key, item in value.items()]
    return type(value), value


@pytest.mark.parametrize("seed", range(2))
def test_a_twin_does_what_the_class_does(served: tuple[str, Any], seed: int) -> None:
    """Claim rp-87."""
    name, proxy = served
    local = getattr(objects, name)()
    proxy.clear()
    draw = random.Random(seed)
    for number in range(ROUNDS):
        place = draw.randrange(len(STATES[name]))
        key = draw.choice(NO_KEYS if draw.random() < 0.05 else KEYS)
        value = draw.choice(VALUES)
        move = STATES[name][place]
        ours, theirs = (outcome(move, thing, key, value) for thing in (local, proxy))
        assert ours == theirs, (number, place, key, value)
    assert exact(local.items()) == exact(proxy.items())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", STATES)
def test_a_twin_is_kept_over_snapshots_kills_and_restarts(name: str, kind: str) -> None:
    """Claim rp-87."""
    group = group_of(name, kind, nodes=3)
    local = getattr(objects, name)()
    with group as proxy:
        for number, key in enumerate([*KEYS, *KEYS[::3]]):
            for thing in (local, proxy):
                thing.__setitem__(key, number)
        group.snapshot()
        for victim in group.nodes:
            group.kill(victim)
            for thing in (local, proxy):
                thing.__setitem__(f"without {victim}", victim)
                thing.pop(KEYS[victim + 2])
            group.restart(victim)
        assert exact(proxy.items()) == exact(local.items())
        told = group.compare()
    assert told.is_equal
    assert None not in told.digests.values()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("name", "arguments", "items"),
    [
        ("Map", '[{"a": 1}]', [("a", 1)]),
        ("Map", '[[["a", 1], ["b", 2], ["a", 3]]]', [("a", 3), ("b", 2)]),
        ("Counter", '["abba"]', [("a", 2), ("b", 2)]),
        ("Counter", '[{"a": 7}]', [("a", 7)]),
    ],
)
def test_a_twin_begins_with_what_its_constructor_was_given(
    name: str, kind: str, arguments: str, items: list[Any]
) -> None:
    with group_of(name, kind, arguments=arguments) as proxy:
        assert proxy.items() == items


MORE = {"Queue": {"put_later"}, "Counter": {"add", "get"}}
"""Methods that only the object in Rust has, or has for more."""

LESS = {"Queue": {"join", "task_done"}}


@pytest.mark.parametrize("name", ["Lock", "Queue", *STATES])
def test_twins_tell_the_same_methods(name: str) -> None:
    more, less = MORE.get(name, set()), LESS.get(name, set())
    assert methods_of(name, "rust", more) == methods_of(name, "python", more | less)


def methods_of(name: str, kind: str, left_out: set[str]) -> list[list[str]]:
    """Signatures, kinds and descriptions as a group tells them."""
    with group_of(name, kind) as proxy, quorate.group(endpoint(proxy)) as group:
        (served,) = group.objects()
        told: list[list[str]] = group.describe(served)["methods"]
    return [row for row in told if row[0].partition("(")[0] not in left_out]


@pytest.mark.parametrize("count", [2**63, 0.5, "1"])
def test_a_counter_in_rust_refuses_counts_that_are_no_integers_of_64_bits(count: Any) -> None:
    with group_of("Counter", "rust") as counter:
        counter.increment("a")
        for move in (counter.increment, counter.__setitem__):
            with pytest.raises((OverflowError, TypeError), match="64 bits"):
                move("a", count)
        assert counter.items() == [("a", 1)]


def test_a_counter_in_rust_has_a_number_beside_the_counts() -> None:
    with group_of("Counter", "rust", arguments="[5]") as typed, quorate.connect(endpoint(typed)) as counter:
        assert (counter.add(), counter.add(4, b"padding"), counter.get()) == (6, 10, 10)
        assert counter.increment(None) == 1
        assert (counter.items(), counter.total(), counter.get()) == ([(None, 1)], 1, 10)


@pytest.mark.parametrize("key", [float("nan"), datetime.datetime(2020, 1, 1)])
def test_what_is_no_key_in_rust_is_refused_and_says_what_to_do(key: Any) -> None:
    with group_of("Map", "rust") as served:
        with pytest.raises(TypeError, match="serve the class in Python"):
            served[key] = 1
        assert len(served) == 0


def endpoint(proxy: Any) -> str:
    return str(proxy._quorate_flow.origin.endpoint)
