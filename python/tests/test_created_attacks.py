"""What clients and classes should not do to a directory harms no other objects, and no replica."""

from __future__ import annotations

import asyncio
import subprocess
import types
from collections.abc import Callable, Iterator
from typing import Any

import attack_classes
import pytest
from attack_classes import Holder, Named, Turning
from attack_points import Plane, Point
from patience import PATIENCE_S, until
from test_created_objects import Workshop

import quorate
from quorate import LocalGroup, _created, _directory, _environment, _local, _making, _native
from quorate._options import Options
from quorate._proxy import Flow, Proxy


@pytest.fixture(scope="module")
def nodes() -> Iterator[LocalGroup[Holder]]:
    """Three nodes."""
    with (running := quorate.local(Holder, persist="disk", timeout=PATIENCE_S)):
        yield running


@pytest.fixture(autouse=True)
def agreed(nodes: LocalGroup[Holder]) -> Iterator[None]:
    """The replicas agree after each test, also about what it dropped."""
    yield
    agree(nodes)


def agree(nodes: LocalGroup[Any]) -> None:
    """The replicas do, and none had to take another one's state for that."""
    assert nodes.compare().is_equal
    for status in map(nodes.status, nodes.nodes):
        assert status is not None
        assert (status["diverged"], status["healed"], status["drift"]) == (None, None, None)


def restart_one(nodes: LocalGroup[Any]) -> None:
    """A replica comes back from a snapshot that it has just taken."""
    late = next(node for node in nodes.nodes if node != nodes.leader)
    nodes.snapshot()
    nodes.kill(late)
    nodes.restart(late)
    until(lambda: None not in map(nodes.status, nodes.nodes))


def raw(group: quorate.Group, number: int) -> Any:
    """An object of the group itself, as a client calls it that is not ours."""
    return Proxy(Flow(group._client.beside(number), None, Options()))


def test_replicas_agree_that_restart_before_anything_was_created() -> None:
    """Claim rp-74."""
    with (
        (few := quorate.local(Holder, persist="disk", timeout=PATIENCE_S)),
        quorate.group(few.endpoint) as group,
    ):
        restart_one(few)
        group.create(Holder, "one").publish("a", 1)
        agree(few)
        group.drop("one")
        restart_one(few)
        two = group.creating(ttl=1000).create(Holder, "two")
        two.publish("a", 1)
        assert next(quorate.watch(two, after=0)).value == 1
        agree(few)


@pytest.mark.parametrize("is_broken", [False, True])
def test_values_of_classes_whose_objects_are_gone_are_known_to_replicas_that_restart(is_broken: bool) -> None:
    """Claim rp-74."""
    quorate.register(Point)
    with (
        (few := quorate.local(Holder, persist="disk", timeout=PATIENCE_S)),
        quorate.group(few.endpoint) as group,
    ):
        if is_broken:
            with pytest.raises(quorate.NotReplicable, match="a plane that is broken"):
                group.create(Plane, "plane", is_broken=True)
        else:
            group.create(Plane, "plane")
            group.drop("plane")
        restart_one(few)
        assert group.get("Holder").put(Point(3)) == 1
        agree(few)


@pytest.mark.parametrize("name", ["Publishes", "Sends", "Parks", "Waits", "Drops", "Knows", "Exits"])
def test_a_constructor_does_nothing_but_make_its_object(group: quorate.Group, name: str) -> None:
    """Claim rp-75."""
    other = group.create(Holder, "other")
    with pytest.raises(quorate.NotReplicable, match="SystemExit" if name == "Exits" else "NotInCall"):
        group.create(getattr(attack_classes, name), "thing")
    group.create(Holder, "next").publish("a", 1)
    assert next(quorate.watch(group.get("next"), after=0)).number == 1
    assert list(group.objects()) == ["Holder", "next", "other"]
    assert other.look() == []
    assert group.get("Holder").look() == []


def test_what_objects_may_not_do_is_refused_after_a_creation_that_failed(group: quorate.Group) -> None:
    for path in ("nowhere:Thing", "attack_classes:Nothing", "attack_classes:Exits"):
        with pytest.raises(quorate.NotReplicable):
            group.create(path, "thing")  # type: ignore[arg-type]
        with pytest.raises(PermissionError, match="objects cannot write files"):
            group.get("Holder", Holder).write()


@pytest.mark.parametrize(
    ("path", "owner"),
    [
        ("quorate._directory:Directory", "Quorate"),
        ("quorate._feed:Feed", "Quorate"),
        ("quorate._created:Created", "Quorate"),
        ("__main__:Host", "Quorate"),
        ("pathlib:Path", "standard library"),
        ("importlib.machinery:SourceFileLoader", "standard library"),
        ("attack_classes:quorate.Group", "Quorate"),
    ],
)
def test_classes_that_serve_the_group_or_reach_files_make_no_objects(
    group: quorate.Group, path: str, owner: str
) -> None:
    with pytest.raises(quorate.NotReplicable, match=owner):
        group.create(path, "thing")  # type: ignore[arg-type]
    assert group.create("collections:deque", "line").popleft is not None  # type: ignore[arg-type]


def test_whoever_calls_the_directory_itself_is_refused_what_is_wrong(group: quorate.Group) -> None:
    directory, given = raw(group, _directory.NUMBER), _native.dumps([[], {}])
    path = "attack_classes:Holder"
    wrong: list[tuple[tuple[Any, ...], dict[str, Any], type[Exception]]] = [
        (("n", 7, given), {}, quorate.Refused),
        (("n", "m:" + "x" * 1024, given), {}, quorate.Refused),
        (("n", path, "text"), {}, TypeError),
        (("n", path, bytes((64 << 10) + 1)), {}, quorate.Refused),
        (("n", path, b"\xff"), {}, quorate.MalformedValue),
        (("n\n", path, given), {}, quorate.Refused),
        (("n", path, given), {"readonly": ["_add"]}, quorate.NotReplicable),
        (("n", path, given), {"ttl": float("nan")}, ValueError),
        (("n", path, given), {"ttl": -1}, ValueError),
        (("n", path, given), {"ttl": True}, TypeError),
    ]
    for args, named, error in wrong:
        with pytest.raises(error):
            directory.create(*args, **named)
    for name in ("maker", "on_session_end"):
        with pytest.raises(quorate.NoSuchMethod):
            getattr(directory, name)()
    directory.create("many", path, given, readonly=["look"] * 10_000)
    assert list(group.objects()) == ["Holder", "many"]
    assert group.get("many", Holder).look() == []


def test_what_each_replica_finds_for_itself_is_no_outcome(group: quorate.Group) -> None:
    turning = group.create(Turning, "turning")
    for _ in range(20):
        turning.turn()
        turning.size()
    with pytest.raises(quorate.Refused, match="describe is a read"):
        raw(group, _directory.NUMBER).describe("turning")
    assert group.describe("turning")["class"] == "attack_classes:Turning"


def test_arguments_with_names_are_the_same_in_any_order(group: quorate.Group) -> None:
    group.get_or_create(Named, "named", a=1, b=2)
    assert group.get_or_create(Named, "named", b=2, a=1) is not None
    with pytest.raises(quorate.NameTaken):
        group.get_or_create(Named, "named", a=2, b=1)


def test_an_expiry_does_not_drop_what_has_the_name_later(group: quorate.Group) -> None:
    old = group.creating(ttl=0.5).create(Holder, "name")
    group.drop("name")
    new = group.create(Holder, "name")
    brief = group.creating(ttl=0.6).create(Holder, "brief")
    until(lambda: "brief" not in group.objects())
    assert new.put("kept") == 1
    for gone in (old, brief):
        with pytest.raises(quorate.NotFound):
            gone.look()


class Alarm:
    """An expiry to come."""

    def __init__(self, _: float, expire: Callable[..., None], *args: Any) -> None:
        self.expire: Callable[[], None] = lambda: expire(*args)
        self.is_set = True

    def cancel(self) -> None:
        """It does not come."""
        self.is_set = False


def test_what_is_dropped_or_was_not_made_leaves_no_expiry(monkeypatch: pytest.MonkeyPatch) -> None:
    workshop = Workshop()
    alarms: list[Alarm] = []

    def after(*args: Any) -> Alarm:
        alarms.append(Alarm(*args))
        return alarms[-1]

    monkeypatch.setattr(_directory.Directory, "maker", workshop)
    monkeypatch.setattr(_directory, "after", after)
    directory = _directory.Directory()
    directory.create("name", "m:C", b"", ttl=1)
    directory.drop("name")
    number, *_ = directory.create("name", "m:C", b"")
    alarms[0].expire()
    assert directory.find("name")[0] == number

    def fail(*_: Any) -> str:
        raise quorate.NotReplicable("no")

    monkeypatch.setattr(workshop, "make", fail)
    with pytest.raises(quorate.NotReplicable):
        directory.create("other", "m:C", b"", ttl=1)
    assert [alarm.is_set for alarm in alarms] == [False, False]


def test_options_that_cannot_be_meant_are_refused_at_once(
    nodes: LocalGroup[Holder], group: quorate.Group
) -> None:
    for ttl in (float("nan"), -1, 1e300):
        with pytest.raises(ValueError, match="ttl must be"):
            group.creating(ttl=ttl)
    with pytest.raises(TypeError, match="names of methods"):
        group.creating(readonly="look")

    async def use() -> None:
        with pytest.raises(quorate.QuorateError, match="async with"):
            await quorate.agroup(nodes.endpoint).get("name")

    asyncio.run(use())


def test_memory_that_does_not_suffice_for_a_constructor_is_no_outcome() -> None:
    error = _making.Unfit("constructor", "Holder() raised MemoryError")
    error.__cause__ = MemoryError()
    with pytest.raises(MemoryError), _created._refusing("m:C"):
        raise error
    _environment.refuse_effects(False)


def test_declared_reads_are_known_after_a_restore(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_directory.Directory, "maker", None)
    warned: list[str] = []
    named: dict[int, str] = {}
    host: Any = types.SimpleNamespace(warn=warned.append, note_name=named.__setitem__)
    created = _created.Created(host, {"objects": [], "snapshots": True})
    entry = {"number": 1 << 16, "class": "attack_classes:Holder", "code": "other", "readonly": ["look"]}
    directory = _directory.Directory()
    directory._entries["name"] = entry
    directory._paths = ["attack_classes:Holder", "gone:Class"]
    try:
        assert created.classes_of(directory) == {1 << 16: Holder}
        assert named == {1 << 16: "name"}
    finally:
        _environment.refuse_effects(False)
    assert created.is_read(1 << 16, "look")
    assert not created.is_read(1 << 16, "put")
    assert [text.partition(":")[0] for text in warned] == ["gone", "the code of attack_classes"]


WRONG: list[tuple[list[str], int, str]] = [
    (["create", "x", "attack_classes"], 1, "is not MODULE:CLASS"),
    (["create", "x", "attack_classes.py:Holder"], 1, "as in attack_classes:Holder"),
    (["create", "x", "attack_classes:Holdr"], 1, "its classes: Holder"),
    (["create", "x", "attack_classes:Holder", "--args", "[1"], 2, "is not JSON"),
    (["create", "x", "attack_classes:Holder", "--kwargs", "[1]"], 2, "is not a JSON object"),
    (["create", "x", "attack_classes:Holder", "--kwargs", '{"a": 1}'], 1, "unexpected keyword argument"),
    (["create", "x", "attack_classes:Holder", "--ttl", "-1"], 2, "takes seconds above 0"),
    (["create", "x", "attack_classes:Holder", "--ttl", "nan"], 2, "takes seconds above 0"),
    (["create", "x", "attack_classes:Holder", "--readonly", "look, nope"], 1, "'nope'; it has look"),
    (["create", "Holder", "attack_classes:Holder", "--if-missing"], 7, "choose another name"),
    (["create", "x", "pathlib:Path"], 1, "standard library"),
    (["drop", "Holder"], 7, "lasts as long as the group"),
    (["describe", "x/"], 3, "`quorate object list` names them"),
]


@pytest.mark.parametrize(("words", "code", "text"), WRONG)
def test_a_command_that_is_wrong_says_what_to_write(
    nodes: LocalGroup[Holder], words: list[str], code: int, text: str
) -> None:
    line = [_local.program(), "object", *words, "--endpoint", nodes.endpoint]
    told = subprocess.run(line, capture_output=True, text=True, timeout=60, check=False)
    assert (told.returncode, text in told.stderr) == (code, True), told
