"""The level at which an object is read by clients that ask for no other one stands in the directory."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator

import pytest
from patience import PATIENCE_S, until
from shelf_classes import Shelf

import quorate
from quorate import LocalGroup, _local
from quorate._proxy import flow_of

LEVELS = "use ordered, confirmed, broadcast, lease, any, loose"


@pytest.fixture(scope="module")
def nodes() -> Iterator[LocalGroup[Shelf]]:
    """Three nodes."""
    with (running := quorate.local(Shelf, persist="disk", timeout=PATIENCE_S)):
        yield running


@pytest.fixture
def group(nodes: LocalGroup[Shelf]) -> Iterator[quorate.Group]:
    """A session of the group, in which nothing was created."""
    with quorate.group(nodes.endpoint, timeout=PATIENCE_S) as group:
        yield group
        for name in list(group.objects())[1:]:
            group.drop(name)


def named(nodes: LocalGroup[Shelf], name: str) -> str:
    return f"{nodes.endpoint.rpartition('/')[0]}/{name}"


def test_each_client_takes_the_level_of_the_object(nodes: LocalGroup[Shelf], group: quorate.Group) -> None:
    for level in ("ordered", "confirmed", "broadcast", "lease", "any", "loose"):
        created = group.creating(reads=level).create(Shelf, level)
        assert group.describe(level)["reads"] == level
        with quorate.connect(named(nodes, level), Shelf) as connected:
            for shelf in (created, group.get(level, Shelf), connected):
                assert flow_of(shelf).client.reads == level
                # What is marked is read at that level, and what is called stays a call.
                assert flow_of(shelf).level_of("publish_in_a_read") == level
                assert flow_of(shelf).level_of("put") is None
            assert connected.put("hat") == 1
            until(lambda: connected.look() == ["hat"])
    with quorate.connect(named(nodes, "Shelf"), Shelf) as first:
        assert flow_of(first).client.reads == "confirmed"
    assert flow_of(group.create(Shelf, "silent")).client.reads == "confirmed"


def test_the_asyncio_twins_take_it_too(nodes: LocalGroup[Shelf]) -> None:
    async def use() -> None:
        async with quorate.agroup(nodes.endpoint, timeout=PATIENCE_S) as group:
            shelf = await group.creating(reads="lease").create(Shelf, "leased")
            assert flow_of(shelf).client.reads == "lease"
            assert flow_of(await group.get("leased")).client.reads == "lease"
            async with quorate.aconnect(named(nodes, "leased"), Shelf) as connected:
                assert flow_of(connected).client.reads == "lease"
            await group.drop("leased")

    asyncio.run(use())


def test_a_level_that_is_none_is_refused_and_nothing_is_created(group: quorate.Group) -> None:
    for level in ("newest", "", None, 7, ["any"]):
        with pytest.raises(ValueError, match=LEVELS):
            group.creating(reads=level)  # type: ignore[arg-type]
        directory = group._directory
        with pytest.raises(quorate.Refused, match=LEVELS):
            directory.create("thing", "shelf_classes:Shelf", b"", reads=level)  # type: ignore[arg-type]
    assert list(group.objects()) == ["Shelf"]


def test_the_command_creates_with_a_level_and_calls_at_it(
    nodes: LocalGroup[Shelf], group: quorate.Group
) -> None:
    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [_local.program(), *words, "--endpoint", nodes.endpoint]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    made = ["object", "create", "c/1", "shelf_classes:Shelf", "--readonly", "look"]
    assert run(*made, "--reads", "lease").returncode == 0
    assert group.describe("c/1")["reads"] == "lease"
    kinds = {signature.partition("(")[0]: kind for signature, kind, *_ in group.describe("c/1")["methods"]}
    assert (kinds["look"], kinds["put"]) == ("read", "call")
    assert run("call", "c/1", "look").stdout == "[]\n"
    refused = run("object", "create", "c/2", "shelf_classes:Shelf", "--reads", "newest")
    assert refused.returncode == 2
    assert "ordered, confirmed, broadcast, lease, any" in refused.stderr


def test_a_client_that_asks_for_a_level_gets_that_one(group: quorate.Group) -> None:
    shelf = group.creating(reads="any", readonly=["look"]).create(Shelf, "stale")
    until(lambda: "look" in flow_of(shelf).proven)
    assert shelf.look() == []
    assert quorate.freshness(shelf).age > 0
    fresh = quorate.reading(shelf, level="confirmed")
    assert fresh.look() == []
    assert quorate.freshness(fresh).age == 0


def test_an_announced_read_sees_every_write_before_it() -> None:
    with quorate.local(Shelf, persist="memory", timeout=PATIENCE_S) as shelf:
        announced = quorate.reading(shelf, level="broadcast")
        for hats in range(1, 40):
            assert shelf.put("hat") == hats
            assert announced.look() == ["hat"] * hats
            assert quorate.freshness(announced).age == 0
