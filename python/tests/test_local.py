"""The handle of a group of real processes: faults on demand, snapshots, comparisons, and any arguments."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pytest
from arguments_subjects import Keeper, Limit
from subjects import Wallet

import quorate
from quorate import _constructor, _local_group


def test_nodes_are_killed_restarted_and_cut_off_and_the_group_keeps_what_it_acknowledged() -> None:
    group = quorate.local(Wallet, 100, persist="disk", timeout=30.0)
    with group as wallet:
        assert group.nodes == (1, 2, 3) and not group.stopped
        victim = group.leader
        group.kill(victim)
        assert group.stopped == (victim,) and group.status(victim) is None
        assert wallet.deposit(1) == 101
        group.restart(victim)
        other = group.leader
        group.cut(other)
        assert wallet.deposit(1) == 102
        group.heal()
        compared = group.compare()
        assert compared.is_equal and compared.differing == ()
        assert None not in compared.digests.values()
        assert wallet.total() == 102
        assert group.compare().slot > compared.slot


def test_a_group_in_memory_outlives_each_of_its_nodes_one_after_the_other() -> None:
    """Claim rp-102."""
    group = quorate.local(Wallet, 100, timeout=30.0)
    with group as wallet:
        for turn, node in enumerate((1, 2, 3, 1), start=1):
            group.kill(node)
            assert wallet.deposit(1) == 100 + turn
            other = node % 3 + 1
            with pytest.raises(quorate.QuorateError, match="would lose the state"):
                group.kill(other)
            group.restart(node)


def test_what_a_handle_cannot_do_is_refused_with_the_reason() -> None:
    group = quorate.local(Wallet, nodes=1)
    with pytest.raises(quorate.QuorateError, match="does not run"):
        group.kill(1)
    with group:
        with pytest.raises(ValueError, match="there is no node 4: the nodes are 1"):
            group.kill(4)
        with pytest.raises(TypeError, match="a node is a number, not str"):
            group.cut("1")  # type: ignore[arg-type]
        with pytest.raises(quorate.QuorateError, match='start it with persist="disk"'):
            group.kill(1)
        with pytest.raises(quorate.QuorateError, match="node 1 runs: kill it first"):
            group.restart(1)
        with pytest.raises(quorate.QuorateError, match="runs already"):
            group.start()
        assert group.proxy.deposit(1) == 1
    with pytest.raises(quorate.QuorateError, match="does not run"):
        assert group.proxy


def test_a_group_that_was_cut_off_and_killed_ends_within_its_time() -> None:
    group = quorate.local(Wallet)
    with group as wallet:
        assert wallet.deposit(1) == 1
        group.kill(2)
        group.restart(2)
        group.cut(1)
        group.cut(2)
    with group as wallet:
        assert wallet.total() == 0, "a group that starts again begins anew"
        group.kill(1)
        assert wallet.deposit(1) == 1, "what its earlier nodes lost does not count"


ARGUMENTS: list[tuple[list[Any], dict[str, Any]]] = [
    ([], {}),
    ([1, "two", None, 1.5, [True]], {"more": {"a": 1}}),
    ([(1, 2), b"bytes", {3}, 2**80], {"when": datetime.date(2026, 1, 1), "price": Decimal("1.10")}),
    ([Limit("a", 1)], {"by": {1: Limit("b", 2)}}),
    ([], {"args": [1], "timeout": 3, "nodes": 7, "allow": "x", "persist": False}),
    ([float("inf"), "ä"], {"odd": "quoted \" and 'words'"}),
]


@pytest.mark.parametrize(("args", "kwargs"), ARGUMENTS)
def test_a_class_gets_any_arguments_that_can_be_sent(args: list[Any], kwargs: dict[str, Any]) -> None:
    with quorate.local("arguments_subjects:Keeper", args=args, kwargs=kwargs, nodes=1) as keeper:
        nodes = kwargs.get("nodes", 0)
        named = {name: value for name, value in kwargs.items() if name != "nodes"}
        assert keeper.told() == [args, nodes, named]


def test_wrong_options_are_refused_before_anything_starts() -> None:
    wrong: list[tuple[type[Exception], str, dict[str, Any]]] = [
        (ValueError, "1 to 9 nodes", {"nodes": 0}),
        (TypeError, "nodes is a number", {"nodes": "3"}),
        (ValueError, "memory", {"persist": "cloud"}),
        (TypeError, "timeout is a number", {"timeout": "1"}),
        (ValueError, "use seconds above 0", {"timeout": 0}),
        (TypeError, "allow is a list", {"allow": "numpy"}),
    ]
    for error, words, options in wrong:
        with pytest.raises(error, match=words):
            quorate.local(Wallet, **options)
    with pytest.raises(TypeError, match=r"`nodes` is an option of quorate\.local and a parameter of Keeper"):
        quorate.local(Keeper, 1, nodes=2)
    with pytest.raises(TypeError, match="either as they are, or by args and kwargs"):
        quorate.local(Keeper, 1, args=[2])
    with pytest.raises(quorate.UnsupportedValue):
        quorate.local(Keeper, object())
    with pytest.raises(quorate.UnsupportedValue, match="at most"):
        quorate.local(Keeper, "x" * _constructor.WORD_BYTES_MAX)
    for path, words in [("subjects", "is not MODULE:CLASS"), ("subjects:No", "no class subjects:No")]:
        with pytest.raises(quorate.QuorateError, match=words):
            quorate.local(path)
    with pytest.raises(quorate.QuorateError, match="has no source"):
        _local_group.folder_of(int)
