"""`quorate.check` and `quorate.Fence` in served objects: what they have seen is kept like the objects."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from fenced_classes import ChosenStore, MapStore, SlottedStore, Store, StoreWithFences
from patience import PATIENCE_S

import quorate
from quorate import LocalGroup, StaleToken, _local
from quorate._proxy import flow_of


@pytest.fixture(scope="module")
def nodes() -> Iterator[LocalGroup[Store]]:
    """Three nodes."""
    with (running := quorate.local(Store, persist="disk", timeout=PATIENCE_S)):
        yield running


@pytest.mark.parametrize("cls", [Store, MapStore])
def test_a_token_that_is_older_than_the_newest_is_refused_and_nothing_is_written(
    group: quorate.Group, cls: Any
) -> None:
    store = group.create(cls, "store")
    store.write(7, "a")
    store.write(7, "b")
    store.write(9, "c")
    with pytest.raises(StaleToken, match="token 8 is older than 9") as refused:
        store.write(8, "d")
    assert (refused.value.token, refused.value.newest) == (8, 9)
    assert refused.value.executed
    store.write(9, "e")
    for wrong in (0, -1):
        with pytest.raises(ValueError, match="fencing tokens begin at 1"):
            store.write(wrong, "f")
    with pytest.raises(TypeError, match="a fencing token is an int, not str"):
        store.write("10", "f")


def test_a_method_that_checks_is_no_read(nodes: LocalGroup[Store]) -> None:
    store = nodes.proxy
    assert store.look(3) == []
    with pytest.raises(StaleToken):
        store.look(2)
    with pytest.raises(quorate.NotInCall, match="no such method runs here"):
        store.look_in_a_read(4)
    assert "look" not in flow_of(store).proven
    assert nodes.compare().is_equal


def test_two_locks_of_one_object_have_a_fence_each(group: quorate.Group) -> None:
    store = group.create(StoreWithFences, "store")
    store.write(5, 2)
    store.write(5, 3)
    with pytest.raises(StaleToken, match="token 2 is older than 3"):
        store.write(6, 2)
    with pytest.raises(StaleToken, match="token 5 is older than 6"):
        store.write(5, 3)


@pytest.mark.parametrize(
    ("cls", "text"),
    [(SlottedStore, "it has only `__slots__`"), (ChosenStore, "`__getstate__` says what is kept")],
)
def test_an_object_without_a_place_for_the_token_says_what_to_do(
    group: quorate.Group, cls: Any, text: str
) -> None:
    store = group.create(cls, "store")
    with pytest.raises(TypeError, match=f"{text}.*Keep a quorate.Fence in an attribute"):
        store.write(7, "a")


def test_the_newest_token_survives_snapshots_late_replicas_and_killed_leaders(
    nodes: LocalGroup[Store], group: quorate.Group
) -> None:
    """Claim rp-73."""
    store, both = group.create(Store, "store"), group.create(StoreWithFences, "both")
    store.write(7, "a")
    late = next(node for node in nodes.nodes if node != nodes.leader)
    nodes.kill(late)
    store.write(9, "b")
    both.write(9, 9)
    nodes.snapshot()
    nodes.restart(late)
    for _ in range(2):
        killed = nodes.leader
        nodes.kill(killed)
        with pytest.raises(StaleToken):
            store.write(8, "c")
        with pytest.raises(StaleToken):
            both.write(9, 8)
        nodes.restart(killed)
    assert nodes.compare().is_equal


def test_the_newest_token_is_there_when_the_whole_group_was_stopped(tmp_path: Path) -> None:
    """Claim rp-73."""
    options = ["--persist", "disk", "--dir", str(tmp_path), "--port", "0"]
    here = Path(__file__).parent
    with (
        _local.start_group("fenced_classes:Store", options, here) as ready,
        quorate.connect(ready["endpoint"], Store, timeout=PATIENCE_S) as store,
    ):
        store.write(7, "a")
        command = [_local.program(), "snapshot", "--endpoint", ready["endpoint"]]
        subprocess.run(command, check=True, capture_output=True)
        store.write(9, "b")
    with (
        _local.start_group("fenced_classes:Store", options, here) as ready,
        quorate.connect(ready["endpoint"], Store, timeout=PATIENCE_S) as store,
    ):
        with pytest.raises(StaleToken, match="token 8 is older than 9"):
            store.write(8, "c")
        assert store.write(9, "c") == 3


def test_all_nodes_at_once_come_back_with_the_newest_token(nodes: LocalGroup[Store]) -> None:
    nodes.proxy.write(100, "a")
    for node in nodes.nodes:
        nodes.kill(node)
    with ThreadPoolExecutor(len(nodes.nodes)) as threads:
        list(threads.map(nodes.restart, nodes.nodes))
    with pytest.raises(StaleToken, match="token 99 is older than 100"):
        nodes.proxy.write(99, "b")
