"""A set that was restored goes on as the set that was saved: order, pop and repr."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorate import _names, _native
from quorate._errors import MalformedValue

_names.allow_package(__name__)


@dataclass(frozen=True)
class Place:
    row: int
    name: str | None = None


class Tags(set[Any]):
    note = "n"


class Fixed(frozenset[Any]):
    note: str


def again(value: Any) -> Any:
    image = _native.dump_state(value)
    copy = _native.load_state(image)
    assert _native.dump_state(copy) == image
    return copy


def pops(some: set[Any]) -> list[Any]:
    return [some.pop() for _ in range(len(some))]


def drawn(random: random.Random, steps: int) -> set[Any]:
    """A set with a history: of additions, removals and pops."""
    some: set[Any] = set()
    for _ in range(steps):
        number = random.randrange(400)
        element = random.choice([number, str(number), (number, "x"), number * 2**20, float(number) / 7])
        match random.randrange(5):
            case 0 | 1 | 2:
                some.add(element)
            case 3 if some:
                some.discard(random.choice(sorted(some, key=repr)))
            case 4 if some:
                some.pop()
    return some


@given(st.integers(0, 10**9), st.integers(0, 300))
@settings(max_examples=200, deadline=None, derandomize=True, database=None)
def test_a_restored_set_goes_on_as_the_one_that_was_saved(seed: int, steps: int) -> None:
    some = drawn(random.Random(seed), steps)
    copy = again(some)
    assert type(copy) is set and list(copy) == list(some) and repr(copy) == repr(some)
    for number in range(50):
        some.add(number * 3)
        copy.add(number * 3)
        if number % 3 == 0:
            assert some.pop() == copy.pop()
    assert list(copy) == list(some)
    assert list(copy | {"a", "b"}) == list(some | {"a", "b"})
    assert pops(copy) == pops(some)


@given(st.integers(0, 10**9), st.integers(0, 100))
@settings(max_examples=100, deadline=None, derandomize=True, database=None)
def test_a_restored_frozenset_is_gone_through_in_the_same_order(seed: int, steps: int) -> None:
    some = frozenset(drawn(random.Random(seed), steps))
    copy = again([some])[0]
    assert type(copy) is frozenset and list(copy) == list(some) and hash(copy) == hash(some)
    assert repr(copy) == repr(some)


def test_what_pop_took_is_not_taken_again_after_a_restore() -> None:
    some = set(range(20))
    taken = [some.pop() for _ in range(5)]
    some |= {0, 1, 2}
    copy = again(some)
    assert [copy.pop() for _ in range(3)] == [some.pop() for _ in range(3)] == [5, 6, 7]
    assert taken == [0, 1, 2, 3, 4]


def test_a_set_that_was_emptied_of_much_goes_on_where_it_was() -> None:
    some = set(range(1000))
    for _ in range(900):
        some.pop()
    some |= {n * 8 for n in range(300)}
    some.intersection_update(range(0, 1000, 7))
    assert pops(again(again(some))) == pops(some)


def test_sets_and_frozensets_of_classes_of_ones_own_keep_order_and_fields() -> None:
    tags = Tags(f"tag {n}" for n in range(40))
    tags.note = "k"
    for _ in range(10):
        tags.pop()
    fixed = Fixed(tags)
    fixed.note = "m"
    copy, fixed_copy = again([tags, fixed])
    assert type(copy) is Tags and type(fixed_copy) is Fixed
    assert list(copy) == list(tags) and list(fixed_copy) == list(fixed)
    assert (copy.note, fixed_copy.note) == ("k", "m")
    assert pops(copy) == pops(tags)


class Named:
    """Its hash needs a field."""

    def __init__(self, name: str) -> None:
        self.near: Any = None
        self.name = name

    def __hash__(self) -> int:
        return hash(self.name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Named) and other.name == self.name


class Defaulted(Named):
    """Its hash is another one before the field is there."""

    name = ""


class Table(dict[Any, Any]):
    pass


@pytest.mark.parametrize("cls", [Named, Defaulted])
@pytest.mark.parametrize(
    "keep",
    [set, dict.fromkeys, lambda all_: {(one, 1) for one in all_}, Tags, lambda all_: Table.fromkeys(all_, 2)],
)
def test_objects_may_be_in_sets_and_keys_of_dicts_that_they_hold(cls: Any, keep: Any) -> None:
    ring = [cls(name) for name in "abcdef"]
    for one in ring:
        one.near = keep(ring)
    copy = again(ring)
    for one, old in zip(copy, ring, strict=True):
        assert type(one.near) is type(old.near)
        keys, olds = ([key[0] if isinstance(key, tuple) else key for key in each.near] for each in (one, old))
        assert [key.name for key in keys] == [key.name for key in olds]
        assert all(key in one.near for key in one.near) and any(key is one for key in keys)


def test_an_image_with_sorted_sets_is_still_read() -> None:
    # {3, 1, 2} and frozenset({"a"}) as earlier builds wrote them.
    assert _native.load_state(bytes.fromhex("82d9010283010203d9ea6281" + "6161")) == [
        {1, 2, 3},
        frozenset("a"),
    ]


def test_a_damaged_shape_is_refused_and_does_not_end_the_process() -> None:
    image = _native.dump_state([set(range(5)), {Place(1), "a"}])
    for at in range(len(image)):
        for change in (1, 2, 8, 64, 128, 255):
            damaged = bytearray(image)
            damaged[at] ^= change
            try:
                loaded = _native.load_state(bytes(damaged))
            except Exception:
                continue
            for some in loaded if isinstance(loaded, list) else ():
                if isinstance(some, set):
                    assert all(element in some for element in some)
                    some.update(range(100))
                    pops(some)


def test_a_shape_that_is_not_of_these_elements_is_refused() -> None:
    shape, elements = _native.set_parts({1, 2, 3})
    for wrong in (b"", b"\x03", b"\x02\x00\x00", shape + b"\x00", shape[:-1]):
        with pytest.raises(MalformedValue):
            _native.lay_out_set({1, 2, 3}, wrong, elements)
    with pytest.raises(MalformedValue):
        _native.lay_out_set({1, 2, 3}, shape, [4, 5, 6])


def test_elements_whose_hash_is_another_one_now_are_left_where_they_were_added() -> None:
    shape, _ = _native.set_parts({f"text {n}" for n in range(100)})
    numbers = list(range(1000, 1100))
    some = set(numbers)
    _native.lay_out_set(some, shape, numbers)
    assert all(number in some for number in numbers) and len(some) == 100
