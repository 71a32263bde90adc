"""A class in front of which many callers wait."""

from __future__ import annotations

import quorate


class Door:
    """Callers wait in line to be called, or for a place behind the door."""

    def __init__(self) -> None:
        self.first: quorate.Caller | None = None
        self.places = 0
        self.entered = 0

    def line_up(self) -> str:
        """Wait to be called."""
        parked = quorate.park()
        self.first = self.first or quorate.caller()
        return parked  # type: ignore[no-any-return]

    def call_first(self) -> None:
        """Call who came first."""
        if self.first is not None:
            self.first.wake("called")

    def enter(self) -> int:
        """Wait for a place."""
        self.entered += 1
        quorate.wait_until(lambda: self.places > 0)
        self.places -= 1
        return self.entered

    def let_in(self) -> None:
        """One more place."""
        self.places += 1

    def state(self) -> tuple[int, int]:
        """The places that are free, and how many have entered."""
        return self.places, self.entered
