"""The trees of `quorate.objects` beside a sorted dict, and what is deep."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from objects_twins import SEEDS, compare, restored

import quorate
from quorate import objects


class SortedDict:
    """A dict that is sorted whenever it is asked."""

    def __init__(self) -> None:
        self.held: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self.held)

    def __iter__(self) -> Any:
        return iter(sorted(self.held))

    def between(self, low: int, high: int) -> list[tuple[int, int]]:
        return [(key, self.held[key]) for key in self if low <= key < high]

    def first(self) -> tuple[int, int]:
        return min(self.held.items()) if self.held else self.held.popitem()

    def last(self) -> tuple[int, int]:
        return max(self.held.items()) if self.held else self.held.popitem()

    def items(self) -> list[tuple[int, int]]:
        return sorted(self.held.items())

    def keys(self) -> list[int]:
        return sorted(self.held)

    def values(self) -> list[int]:
        return [self.held[key] for key in self]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.held, name)

    def __contains__(self, key: int) -> bool:
        return key in self.held

    def insert(self, key: int, value: int) -> None:
        self.held[key] = value


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("cls", [objects.BinarySearchTree, objects.RedBlackTree])
def test_a_tree_does_what_a_sorted_dict_does(cls: type[Any], seed: int) -> None:
    counter = iter(range(10**6))
    numbers: dict[int, int] = {}

    def insert(tree: Any, key: int) -> None:
        # Both twins get the same value in the same round.
        tree.insert(key, numbers.setdefault(next(counter) // 2, key * 3))

    moves: list[Callable[[Any, int], Any]] = [
        insert,
        insert,
        lambda tree, key: tree.pop(key),
        lambda tree, key: tree.get(key, "none"),
        lambda tree, key: key in tree,
        lambda tree, key: tree.between(key, key + 7),
        lambda tree, _: (tree.items(), tree.keys(), tree.values()),
        lambda tree, _: (tree.first(), tree.last()),
    ]
    compare(cls(), SortedDict(), random.Random(seed), moves)


def check_colours(tree: Any) -> None:
    """The invariant of the red-black tree; and nodes know their parents."""
    nil = tree._nil
    assert not nil.is_red
    assert nil.left is nil.right is nil.parent is nil
    assert not tree._root.is_red
    blacks: set[int] = set()
    waiting = [(tree._root, 0)] if tree._root is not nil else []
    while waiting:
        node, depth = waiting.pop()
        depth += not node.is_red
        for child in (node.left, node.right):
            if child is nil:
                blacks.add(depth)
                continue
            assert child.parent is node
            assert not (node.is_red and child.is_red)
            waiting.append((child, depth))
    assert len(blacks) <= 1


@pytest.mark.parametrize("seed", range(5))
def test_a_red_black_tree_keeps_its_invariant(seed: int) -> None:
    draw = random.Random(seed)
    tree: objects.RedBlackTree[int, int] = objects.RedBlackTree()
    keys: set[int] = set()
    for number in range(2000):
        key = draw.randrange(200)
        if key in keys and draw.random() < 0.7:
            keys.discard(key)
            del tree[key]
        else:
            keys.add(key)
            tree[key] = number
        check_colours(tree)
        assert tree.height() <= 2 * (len(tree) + 1).bit_length()
    assert tree.keys() == sorted(keys)
    tree.clear()
    check_colours(tree)
    assert tree.items() == []


@pytest.mark.parametrize("cls", [objects.BinarySearchTree, objects.RedBlackTree, objects.LinkedList])
def test_what_is_deep_is_worked_on_and_kept(cls: type[Any]) -> None:
    thing, count = cls(), 5000
    for number in range(count):
        thing.append(number) if cls is objects.LinkedList else thing.insert(number, number)
    assert cls is not objects.BinarySearchTree or thing.height() == count
    thing = restored(thing)
    assert list(thing) == list(range(count))
    assert thing[count - 1] == count - 1
    assert thing.pop(0) == 0
    assert len(thing) == count - 1
    thing.clear()
    assert not list(thing)


def test_keys_without_an_order_are_refused_and_change_nothing() -> None:
    tree: Any = objects.RedBlackTree()
    tree[1] = "one"
    keys: list[Any] = [None, "two", {}]
    for key in keys:
        with pytest.raises(TypeError):
            tree[key] = "two"
    assert tree.items() == [(1, "one")]


def test_a_tree_is_served_and_survives_the_loss_of_nodes() -> None:
    group = quorate.local(objects.RedBlackTree, persist="disk", timeout=30.0)
    with group as tree:
        for number in range(300):
            tree[number] = str(number)
        group.snapshot()
        for number in range(100):
            del tree[number]
        for _ in range(2):
            victim = group.leader
            group.kill(victim)
            assert tree.first() == (100, "100")
            group.restart(victim)
        assert list(tree) == list(range(100, 300))
        assert 150 in tree
        with pytest.raises(KeyError):
            tree.pop(1)
        assert group.compare().is_equal
