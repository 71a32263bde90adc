"""A module that a group knows only by an object that it has created, and dropped."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass
class Point:
    """A value."""

    x: int


class Plane:
    """An object."""

    def __init__(self, is_broken: bool = False) -> None:
        if is_broken:
            raise ValueError("a plane that is broken")

    def look(self) -> int:
        """Nothing."""
        return 0
