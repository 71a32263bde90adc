"""Objects that are linked one to the next are kept, however many they are."""

from __future__ import annotations

import subprocess
import sys
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import subjects

import quorate
from quorate import _names, _native

_names.allow_package(__name__)

LENGTH = 20_000


class Node:
    def __init__(self, value: Any, following: Any) -> None:
        self.value = value
        self.following = following


class Slotted:
    __slots__ = ("before", "following", "value")

    def __init__(self, value: Any, following: Any) -> None:
        self.value, self.following, self.before = value, following, None
        if following is not None:
            following.before = self


class Stated(Node):
    def __getstate__(self) -> tuple[Any, Any]:
        return self.value, self.following

    def __setstate__(self, state: tuple[Any, Any]) -> None:
        self.value, self.following = state


class Reduced(Node):
    def __reduce__(self) -> tuple[Any, ...]:
        return Reduced, (self.value, self.following)


LINKS: dict[str, Callable[[Any, Any], Any]] = {
    "attributes": Node,
    "slots, both ways": Slotted,
    "a __getstate__": Stated,
    "a __reduce__": Reduced,
    "lists": lambda value, following: [value, following],
    "tuples": lambda value, following: (value, following),
    "dicts": lambda value, following: {"value": value, "following": following},
    "ordered dicts": lambda value, following: OrderedDict(value=value, following=following),
}


def chain(link: Callable[[Any, Any], Any], length: int) -> Any:
    head = None
    for value in range(length):
        head = link(value, head)
    return head


@pytest.mark.parametrize("link", LINKS.values(), ids=LINKS)
def test_a_chain_of_any_links_comes_back(link: Callable[[Any, Any], Any]) -> None:
    image = _native.dump_state(chain(link, LENGTH))
    assert _native.dump_state(_native.load_state(image)) == image


START = """
import sys
from quorate import _host, _names, _native
from subjects import Chain

_names.register(Chain)
host = _host.Host(0)
host._classes[1] = Chain
image = sys.stdin.buffer.read()
restored = host.restore([(1, image)])[1]
assert _native.dump_state(restored) == image
print(restored.total(), restored.push(7))
"""


def test_a_list_of_100_000_objects_goes_on_in_a_new_host() -> None:
    _names.register(subjects.Chain)
    kept = subjects.Chain()
    kept.push(*range(100_000))
    image = _native.dump_state(kept)
    started = subprocess.run(
        [sys.executable, "-c", START],
        input=image,
        cwd=Path(__file__).parent,
        capture_output=True,
        check=False,
    )
    assert started.returncode == 0, started.stderr.decode()
    assert [int(word) for word in started.stdout.split()] == [kept.total(), kept.push(7)]


def test_a_group_of_nodes_restores_a_list_of_many_objects() -> None:
    group = quorate.local(subjects.Chain, nodes=1, persist="disk", timeout=60.0)
    with group as kept:
        for start in range(0, 20_000, 2_000):
            kept.push(*range(start, start + 2_000))
        group.snapshot()
        group.kill(1)
        group.restart(1)
        assert kept.total() == sum(range(20_000))
        assert kept.push(7) == 20_001
