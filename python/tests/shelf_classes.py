"""Classes of objects that are created while their group runs."""

from __future__ import annotations

import quorate


class Shelf:
    """Things that callers put down and take away; who finds none waits."""

    def __init__(self, room: int = 1000, *, label: str = "") -> None:
        if room < 1:
            raise ValueError("a shelf has room for something")
        self.room = room
        self.label = label
        self.things: list[str] = []

    def put(self, thing: str) -> int:
        """Put something down; how many things there are now."""
        if len(self.things) >= self.room:
            raise OverflowError(f"no room for {thing!r}")
        self.things.append(thing)
        return len(self.things)

    def take(self) -> str:
        """Take what lies there longest; wait for it."""
        quorate.wait_until(lambda: self.things)
        return self.things.pop(0)

    def look(self) -> list[str]:
        """All that is there."""
        return list(self.things)

    def hand_on(self, name: str, *things: str) -> None:
        """Have another shelf keep them, in their order."""
        for thing in things:
            quorate.send(name, "put", thing)

    def hand_on_by(self, name: str, method: str) -> None:
        """Have another shelf do something."""
        quorate.send(name, method, "thing")

    def hand_on_next(self, name: str) -> str:
        """Wait for something, and say so before it is known whether there is any."""
        quorate.send(name, "put", "next")
        quorate.publish("handed", name)
        quorate.wait_until(lambda: self.things)
        return self.things.pop(0)

    def publish(self, topic: str, *values: object) -> None:
        """Tell those who watch."""
        for value in values:
            quorate.publish(topic, value)

    @quorate.readonly
    def publish_in_a_read(self) -> None:
        """Nobody may be told by a read."""
        quorate.publish("reads", 1)


class OtherShelf(Shelf):
    """Another class."""


class Unkept:
    """Its state cannot be kept."""

    def __init__(self) -> None:
        self.lines = (line for line in [""])

    def read(self) -> int:
        """Nothing of it."""
        return 0
