"""An event."""

from __future__ import annotations

from quorate.objects._line import Line, patience


class Event:
    """A flag that callers can wait for, with the methods of `threading.Event`.

    >>> event = Event()
    >>> event.is_set(), event.set(), event.wait()
    (False, None, True)
    """

    def __init__(self) -> None:
        self._is_set = False
        self._line: Line[None] = Line()

    def set(self) -> None:
        """Set the flag; all that wait go on."""
        self._is_set = True
        self._line.wake_all(True)

    def clear(self) -> None:
        """Take the flag back: who comes waits."""
        self._is_set = False

    def is_set(self) -> bool:
        """Whether the flag is set."""
        return self._is_set

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the flag is set; False where it is not within `timeout` seconds."""
        seconds = patience(True, timeout)
        if self._is_set or seconds == 0:
            return self._is_set
        parked: bool = self._line.wait(None, seconds, False)
        return parked
