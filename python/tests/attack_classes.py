"""Classes that do what they should not, created while their group runs."""

from __future__ import annotations

from typing import Any

import quorate


class Holder:
    """Keeps what it is given."""

    def __init__(self, *things: object) -> None:
        self.things = list(things)

    def put(self, thing: object) -> int:
        """Keep one more; how many there are."""
        self.things.append(thing)
        return len(self.things)

    def look(self) -> list[object]:
        """All of them."""
        return list(self.things)

    def publish(self, topic: str, *values: object) -> None:
        """Tell those who watch."""
        for value in values:
            quorate.publish(topic, value)

    def write(self) -> None:
        """Do what no object may."""
        with open("written", "w"):
            pass


class Publishes(Holder):
    """Tells who watches before it is an object."""

    def __init__(self) -> None:
        quorate.publish("made", 1)


class Sends(Holder):
    """Sends a message, and fails."""

    def __init__(self) -> None:
        quorate.send("Holder", "put", "from nobody")
        raise ValueError("no")


class Parks(Holder):
    """Waits before it is an object."""

    def __init__(self) -> None:
        quorate.park()


class Waits(Holder):
    """Waits until something holds."""

    def __init__(self) -> None:
        quorate.wait_until(lambda: False)


class Drops(Holder):
    """Would have the directory drop another one."""

    def __init__(self) -> None:
        quorate.after(0, "drop", "other")


class Knows(Holder):
    """Keeps who created it."""

    def __init__(self) -> None:
        self.creator = quorate.caller()


class Exits(Holder):
    """Wants to end the process."""

    def __init__(self) -> None:
        raise SystemExit(3)


class Named(Holder):
    """Has arguments with names."""

    def __init__(self, **named: Any) -> None:
        self.named = list(named)


class Turning:
    """Has an attribute of one type, then of another."""

    def __init__(self) -> None:
        self.value: object = 1

    def turn(self) -> None:
        """Take another type."""
        self.value = "" if isinstance(self.value, int) else 1

    def size(self) -> int:
        """A read, as long as the type of the value is simple."""
        return len(str(self.value))
