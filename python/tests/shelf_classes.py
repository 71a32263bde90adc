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

    def hand_on_and_fail(self, name: str) -> None:
        """Say something to another shelf in a call that fails."""
        quorate.send(name, "put", "never")
        raise RuntimeError("after all, no")


class OtherShelf(Shelf):
    """Another class."""


class Unkept:
    """Its state cannot be kept."""

    def __init__(self) -> None:
        self.lines = (line for line in [""])

    def read(self) -> int:
        """Nothing of it."""
        return 0
