"""A world of sets, driven by random calls: `test_agreed_hash` runs this as a script."""

from __future__ import annotations

import random
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import quorate
from quorate import _environment, _names, _native


class Entity:
    """Hashed by where it lies."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.near: set[Any] = set()

    def touch(self) -> int:
        return self.number


class Guest(Entity):
    pass


@dataclass(frozen=True)
class Place:
    row: int | None
    owner: Entity


class Tags(set[Any]):
    pass


class World:
    def __init__(self) -> None:
        self.entities: list[Entity] = [Entity(-1)]
        self.sets: list[set[Any]] = [set(), Tags()]
        self.fixed: list[frozenset[Any]] = []
        self.owners: dict[Entity, int] = {}
        self.spare: list[Any] = []

    def call(self, draw: random.Random) -> str:
        """One random call; what it says depends on the order of sets."""
        some = draw.choice(self.sets)
        entity = draw.choice(self.entities)
        act = draw.choice(ACTS)
        said = act(self, some, entity, draw)
        return f"{act.__name__} {said}"


class Crowd:
    """Replicated by a group: who waits is taken in the order of a set."""

    def __init__(self) -> None:
        self.waiting: set[Entity] = set()
        self.latest: Entity | None = None
        self.number = 0

    def come(self, count: int) -> None:
        for _ in range(count):
            self.number += 1
            self.waiting.add(Entity(self.number))
        self.latest = Entity(0)

    def take(self) -> str:
        return f"{self.waiting.pop().number} {[one.number for one in self.waiting]}"

    @quorate.readonly
    def count_latest(self) -> int:
        return len({self.latest})


def make(world: World, some: set[Any], entity: Entity, draw: random.Random) -> Any:
    made = draw.choice([Entity, Guest])(draw.randrange(100))
    if draw.random() < 0.5:
        repr(made)
    world.entities.append(made)
    return made.number


def add(world: World, some: set[Any], entity: Entity, draw: random.Random) -> Any:
    number = draw.randrange(50)
    some.add(
        draw.choice(
            [
                *(entity, entity, entity, number, str(number), None, (number, None), Place(None, entity)),
                *(
                    entity.touch,
                    Entity,
                    Guest,
                    make,
                    (entity, number),
                    frozenset({entity, number}),
                    float("nan"),
                ),
            ]
        )
    )
    return len(some)


def pop(world: World, some: set[Any], entity: Entity, draw: random.Random) -> Any:
    return repr(some.pop()) if some else ""


def go_through(world: World, some: set[Any], entity: Entity, draw: random.Random) -> Any:
    return repr(some) + repr(list(some))


def discard(world: World, some: set[Any], entity: Entity, draw: random.Random) -> Any:
    some.discard(entity)
    some.discard(draw.randrange(50))
    return len(some)


def combine(world: World, some: set[Any], entity: Entity, draw: random.Random) -> Any:
    other = draw.choice(world.sets)
    name = draw.choice(["union", "difference", "intersection", "symmetric_difference"])
    made = getattr(some, name)(other)
    world.sets.append(made)
    if len(world.sets) > 6:
        del world.sets[0]
    return repr(made)


def freeze(world: World, some: set[Any], entity: Entity, draw: random.Random) -> Any:
    world.fixed = [*world.fixed[-3:], frozenset(some)]
    return hash(world.fixed[-1])


def own(world: World, some: set[Any], entity: Entity, draw: random.Random) -> Any:
    world.owners[entity] = draw.randrange(9)
    common = world.owners.keys() & some
    return repr(common)


def befriend(world: World, some: set[Any], entity: Entity, draw: random.Random) -> Any:
    entity.near |= {one for one in some if isinstance(one, Entity)}
    return repr(entity.near)


def forget(world: World, some: set[Any], entity: Entity, draw: random.Random) -> Any:
    if len(world.entities) > 5:
        world.entities.remove(entity)
    for _ in range(draw.randrange(30)):
        # What lies where ends lay others.
        {Entity(draw.randrange(9)) for _ in range(draw.randrange(5))}
    return len(world.entities)


def constants(world: World, some: set[Any], entity: Entity, draw: random.Random) -> Any:
    return [one for one in {"a", "b", "c", None, 4, ("d", None)}] + [Entity in {Entity, Guest, int}]


ACTS = [make, add, add, add, pop, go_through, discard, combine, freeze, own, befriend, forget, constants]


def main() -> None:
    """Arguments: seed, calls, call at which there is an image, its file, `write` or `read`, junk."""
    seed, calls, at, file, way = (
        int(sys.argv[1]),
        int(sys.argv[2]),
        int(sys.argv[3]),
        Path(sys.argv[4]),
        sys.argv[5],
    )
    junk = [object() for _ in range(int(sys.argv[6]))]
    _environment.install()
    _names.allow_package(__name__)
    _native.set_environment(0, seed, 0, 1)
    world = World()
    first = 0
    if way == "read":
        with _names.restoring():
            world = _native.load_state(file.read_bytes())
        first = at
    for slot in range(first, calls):
        if slot == at and way == "write":
            file.write_bytes(_native.dump_state(world))
        _native.set_environment(slot, seed, slot + 1, 0)
        said = world.call(random.Random(f"{seed} {slot}"))
        if slot >= at:
            print(slot, said)
    image = _native.dump_state(world)
    assert _native.dump_state(_native.load_state(image)) == image
    print(_native.digest(image).hex(), len(junk) < 0)


if __name__ == "__main__":
    sys.modules["hashed_subjects"] = sys.modules["__main__"]
    for each in (Entity, Guest, Place, Tags, World, make):
        each.__module__ = "hashed_subjects"
    __name__ = "hashed_subjects"
    main()
