"""Objects that are created while their group runs: by one command, kept like the first, gone when dropped."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol, cast

import pytest
from patience import PATIENCE_S, until
from shelf_classes import OtherShelf, Shelf, Unkept

import quorate
from quorate import LocalGroup, _directory, _local
from quorate.objects import Queue


@pytest.fixture(scope="module")
def nodes() -> Iterator[LocalGroup[Shelf]]:
    """Three nodes whose leader is killed now and then."""
    with (running := quorate.local(Shelf, persist="disk", timeout=PATIENCE_S)):
        yield running


def test_an_object_is_called_described_and_dropped(nodes: LocalGroup[Shelf], group: quorate.Group) -> None:
    shelf = group.create(Shelf, "hall/shelf-1", 2, label="left")
    assert [shelf.put("hat"), shelf.put("coat")] == [1, 2]
    with pytest.raises(OverflowError, match="no room for 'scarf'"):
        shelf.put("scarf")
    assert shelf.label == "left"
    assert group.objects() == {"Shelf": "shelf_classes:Shelf", "hall/shelf-1": "shelf_classes:Shelf"}
    described = group.describe("hall/shelf-1")
    assert described["class"] == "shelf_classes:Shelf"
    signatures = [signature.partition("(")[0] for signature, *_ in described["methods"]]
    assert {"put", "take", "look"} <= set(signatures)
    with quorate.connect(f"{nodes.endpoint.rpartition('/')[0]}/hall/shelf-1", Shelf) as same:
        assert same.look() == ["hat", "coat"]
    group.drop("hall/shelf-1")
    assert list(group.objects()) == ["Shelf"]
    with pytest.raises(quorate.NotFound):
        shelf.look()
    with pytest.raises(quorate.NotFound, match="no object 'hall/shelf-1'"):
        group.get("hall/shelf-1")


def test_objects_and_their_waiting_calls_survive_killed_leaders_and_late_replicas(
    nodes: LocalGroup[Shelf], group: quorate.Group
) -> None:
    """Claim rp-70."""
    shelves = [group.create(Shelf, f"s/{number}") for number in range(5)]
    late = next(node for node in nodes.nodes if node != nodes.leader)
    nodes.kill(late)
    awaited = [quorate.submit(shelf.take) for shelf in shelves]
    until(lambda: all(len(group.describe(f"s/{number}")["waiting"]) == 1 for number in range(5)))
    nodes.snapshot()
    nodes.restart(late)
    killed = nodes.leader
    nodes.kill(killed)
    for number, shelf in enumerate(shelves):
        assert shelf.put(f"thing {number}") in (0, 1)
    nodes.restart(killed)
    assert [call.result(PATIENCE_S) for call in awaited] == [f"thing {number}" for number in range(5)]
    assert [shelf.look() for shelf in shelves] == [[]] * 5
    until(lambda: None not in map(nodes.status, nodes.nodes))
    assert nodes.compare().is_equal


class Puts(Protocol):
    """What a shelf can do, said where its class need not be."""

    def put(self, thing: str) -> int: ...


def test_an_object_is_not_got_as_another_class(group: quorate.Group, nodes: LocalGroup[Shelf]) -> None:
    group.create(Shelf, "s").put("hat")
    said = "'s' is a shelf_classes:Shelf, and no quorate.objects.+:Queue: give its own class, or none$"
    with pytest.raises(quorate.OtherClass, match=said) as refused:
        group.get("s", Queue)
    assert refused.value.executed is False
    with pytest.raises(
        quorate.OtherClass, match=f"'Shelf' is a shelf_classes:Shelf, and no .+:{OtherShelf.__name__}"
    ):
        group.get("Shelf", OtherShelf)
    # A class of its name may be written by `quorate proxy`, others say what the object can do.
    for meant in (type("Shelf", (), {}), object):
        group.get("s", meant)
    assert group.get("s").put("coat") == group.get("s", Shelf).put("hat") - 1
    shelf: Puts = group.get("s", cast(Any, Puts))
    assert shelf.put("coat") == 4

    async def with_a_loop() -> None:
        async with quorate.agroup(nodes.endpoint, timeout=PATIENCE_S) as others:
            with pytest.raises(quorate.OtherClass, match=said):
                await others.get("s", Queue)
            assert await (await others.get("s", Shelf)).look()

    asyncio.run(with_a_loop())


def test_what_is_no_class_is_refused_before_anything_is_sent(group: quorate.Group) -> None:
    with pytest.raises(TypeError, match="give a class or MODULE:CLASS, not a function"):
        group.create(lambda: 1, "made")
    with pytest.raises(TypeError, match="give a class or MODULE:CLASS, not a int"):
        cast(Any, group).get_or_create(3, "made")


def test_of_a_class_that_is_not_imported_nobody_knows_what_derives_it(
    group: quorate.Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    cast(Any, group).create("depot_class:Depot", "depot")
    # Another file's test may have imported it in this process.
    monkeypatch.delitem(sys.modules, "depot_class", raising=False)
    with pytest.raises(quorate.OtherClass, match=r"or none; import depot_class before if .+$"):
        group.get("depot", Shelf)


def test_a_name_is_taken_once_and_got_by_those_who_ask_for_the_same(group: quorate.Group) -> None:
    shelf = group.get_or_create(Shelf, "only", 3)
    shelf.put("hat")
    assert group.get_or_create(Shelf, "only", 3).look() == ["hat"]
    assert group.get("only", Shelf).look() == ["hat"]
    for create in (group.create, group.get_or_create):
        with pytest.raises(quorate.NameTaken, match="an object 'only' already: shelf_classes:Shelf"):
            create(Shelf, "only", 4)
    with pytest.raises(quorate.NameTaken):
        group.get_or_create(OtherShelf, "only", 3)
    with pytest.raises(quorate.NameTaken):
        group.create(Shelf, "Shelf")
    with pytest.raises(quorate.Refused, match="began with"):
        group.drop("Shelf")


@pytest.mark.parametrize(
    ("cls", "given", "text"),
    [
        ("nowhere_at_all:Thing", (), "there is no module 'nowhere_at_all'"),
        ("shelf_classes:Nothing", (), "Nothing"),
        ("no class", (), "no class"),
        (Shelf, (0,), "a shelf has room for something"),
        (Shelf, (1, 2, 3), "positional arguments"),
        (Unkept, (), "lines"),
    ],
)
def test_what_cannot_be_made_is_refused_and_nothing_is_created(
    nodes: LocalGroup[Shelf], group: quorate.Group, cls: Any, given: tuple[Any, ...], text: str
) -> None:
    with pytest.raises(quorate.NotReplicable, match=text):
        group.create(cls, "thing", *given)
    assert list(group.objects()) == ["Shelf"]
    assert group.create(Shelf, "thing").put("hat") == 1
    assert nodes.compare().is_equal


@pytest.mark.parametrize("name", ["", "a//b", "/a", "a/", "a b", "..", "a/../b", "ü", "a" * 256, 7])
def test_a_name_that_is_none_is_refused(group: quorate.Group, name: Any) -> None:
    with pytest.raises(quorate.Refused, match="is not a name: use letters"):
        group.create(Shelf, name)


def test_who_waits_at_an_object_that_is_dropped_is_told(group: quorate.Group) -> None:
    shelf = group.create(Shelf, "short-lived")
    waiting = quorate.submit(shelf.take)
    until(lambda: group.describe("short-lived")["waiting"])
    group.drop("short-lived")
    with pytest.raises(quorate.ObjectDropped):
        waiting.result(PATIENCE_S)
    anew = group.create(Shelf, "short-lived")
    assert anew.look() == []


def test_an_object_of_limited_life_is_dropped_in_agreed_time(group: quorate.Group) -> None:
    shelf = group.creating(ttl=0.3).create(Shelf, "brief")
    shelf.put("hat")
    until(lambda: "brief" not in group.objects())
    with pytest.raises(quorate.NotFound):
        shelf.put("hat")


def test_reads_are_declared_for_classes_that_do_not(group: quorate.Group) -> None:
    shelf = group.creating(readonly=["look"]).create(Shelf, "read")
    shelf.put("hat")
    methods = {signature.partition("(")[0]: kind for signature, kind, *_ in group.describe("read")["methods"]}
    assert methods["look"] != methods["put"]
    assert shelf.look() == ["hat"]
    with pytest.raises(quorate.NotReplicable, match="no public method 'glance'"):
        group.creating(readonly=["glance"]).create(Shelf, "unread")


def test_messages_arrive_in_their_order_and_once(nodes: LocalGroup[Shelf], group: quorate.Group) -> None:
    left, right = group.create(Shelf, "left"), group.create(Shelf, "right", 10)
    things = [f"thing {number}" for number in range(12)]
    left.hand_on("right", *things)
    until(lambda: len(right.look()) == 10)
    assert right.look() == things[:10]
    for name, method, error in [
        ("nobody", "put", quorate.NotFound),
        ("right", "throw", quorate.NoSuchMethod),
        ("right", "_put", quorate.NoSuchMethod),
    ]:
        with pytest.raises(error):
            left.hand_on_by(name, method)
    assert right.look() == things[:10]
    assert nodes.compare().is_equal


def test_a_call_that_waits_sends_nothing_until_it_goes_on(group: quorate.Group) -> None:
    left, right = group.create(Shelf, "left"), group.create(Shelf, "right")
    waiting = quorate.submit(left.hand_on_next, "right")
    until(lambda: group.describe("left")["waiting"])
    left.hand_on("right", "first")
    left.look()
    left.put("hat")
    assert waiting.result(PATIENCE_S) == "hat"
    until(lambda: len(right.look()) == 2)
    left.hand_on("right", "last")
    until(lambda: "last" in right.look())
    assert right.look() == ["first", "next", "last"]


def test_the_asyncio_twin_does_the_same(nodes: LocalGroup[Shelf]) -> None:
    async def use() -> None:
        async with quorate.agroup(nodes.endpoint, timeout=PATIENCE_S) as group:
            shelf = await group.create(Shelf, "a/1")
            assert await shelf.put("hat") == 1
            again = await group.get_or_create(Shelf, "a/1")
            assert await again.look() == ["hat"]
            assert await (await group.get("a/1")).look() == ["hat"]
            assert await group.objects() == {"Shelf": "shelf_classes:Shelf", "a/1": "shelf_classes:Shelf"}
            waiting = asyncio.create_task((await group.create(Shelf, "a/2")).take())
            while not (await group.describe("a/2"))["waiting"]:
                await asyncio.sleep(0.01)
            await group.drop("a/2")
            with pytest.raises(quorate.ObjectDropped):
                await waiting
            await group.drop("a/1")

    asyncio.run(use())


def test_a_group_that_was_stopped_has_its_objects_again(tmp_path: Path) -> None:
    """Claim rp-70."""
    options = ["--persist", "disk", "--dir", str(tmp_path), "--port", "0"]
    here = Path(__file__).parent
    with (
        _local.start_group("shelf_classes:Shelf", options, here) as ready,
        quorate.group(ready["endpoint"], timeout=PATIENCE_S) as group,
    ):
        group.create(Shelf, "before").put("hat")
        command = [_local.program(), "snapshot", "--endpoint", ready["endpoint"]]
        subprocess.run(command, check=True, capture_output=True)
        group.get("before", Shelf).put("coat")
        group.create(OtherShelf, "after").put("scarf")
        group.create(Shelf, "dropped")
        group.drop("dropped")
    with (
        _local.start_group("shelf_classes:Shelf", options, here) as ready,
        quorate.group(ready["endpoint"], timeout=PATIENCE_S) as group,
    ):
        assert list(group.objects()) == ["Shelf", "after", "before"]
        assert group.get("before", Shelf).look() == ["hat", "coat"]
        assert group.get("after", OtherShelf).look() == ["scarf"]
        numbers = [group.describe(name)["number"] for name in ("before", "after")]
        group.create(Shelf, "new")
        assert group.describe("new")["number"] > max(numbers)


COMMANDS: list[tuple[list[str], int, str]] = [
    (["create", "c/1", "shelf_classes:Shelf", "--args", "[2]", "--readonly", "look"], 0, "c/1"),
    (["create", "c/1", "shelf_classes:Shelf", "--args", "[2]", "--if-missing"], 0, "c/1"),
    (["create", "c/1", "shelf_classes:Shelf"], 7, "already"),
    (["create", "c/2", "shelf_classes:Shelf", "--kwargs", '{"label": "x"}', "--ttl", "600"], 0, "c/2"),
    (["create", "c/3", "shelf_classes:Shelf", "--args", "[0]"], 1, "a shelf has room for something"),
    (["create", "c/3", "nowhere:Shelf"], 1, "nowhere"),
    (["create", "c 3", "shelf_classes:Shelf"], 7, "is not a name"),
    (["create", "c/3", "shelf_classes:Shelf", "--args", "{}"], 2, "is not a JSON list"),
    (["list"], 0, "c/2    shelf_classes:Shelf"),
    (["describe", "c/1"], 0, "Put something down; how many things there are now."),
    (["describe", "c/9"], 3, "no object 'c/9'"),
    (["drop", "c/1"], 0, "c/1"),
    (["drop", "c/1"], 3, "no object 'c/1'"),
    (["drop", "Shelf"], 7, "began with"),
]


def test_commands_create_list_describe_and_drop(nodes: LocalGroup[Shelf], group: quorate.Group) -> None:
    for words, code, text in COMMANDS:
        line = [_local.program(), "object", *words, "--endpoint", nodes.endpoint]
        told = subprocess.run(line, capture_output=True, text=True, timeout=60, check=False)
        assert (told.returncode, text in told.stdout + told.stderr) == (code, True), (words, told)
    assert list(group.objects()) == ["Shelf", "c/2"]


class Workshop:
    """Makes nothing, and says so."""

    def first_objects(self) -> dict[str, tuple[int, str]]:
        """None."""
        return {}

    def home_of(self, path: str) -> str:
        """Itself."""
        return path

    def make(self, *_: Any) -> str:
        """Without code."""
        return ""

    def named(self, number: int, name: str) -> None:
        """Nobody asks."""

    def drop(self, number: int) -> None:
        """Nothing was made."""

    def told(self, number: int) -> dict[str, Any]:
        """Nothing."""
        return {"methods": [], "waiting": []}


def test_a_directory_is_full_with_ten_thousand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_directory.Directory, "maker", Workshop())
    directory = _directory.Directory()
    for number in range(10_000):
        directory.create(f"o/{number}", "m:C", b"")
    with pytest.raises(quorate.Overloaded, match="drop some first"):
        directory.create("one-more", "m:C", b"")
    directory.drop("o/77")
    number, *_ = directory.create("one-more", "m:C", b"")
    assert number == (1 << 16) + 10_000
    with pytest.raises(quorate.Refused, match="call a method of the object with the rest"):
        directory.create("large", "m:C", bytes((64 << 10) + 1))
