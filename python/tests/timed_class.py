"""A class that does something later, and whose callers wait for a while."""

from __future__ import annotations

import os
import time
from typing import Any

import quorate


class Timed:
    """Notes of what happened when, by agreed time."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, float]] = []
        self.timers: dict[str, quorate.Timer] = {}
        self.callers: list[quorate.Caller] = []

    def note(self, word: str) -> None:
        """What a timer calls."""
        self.seen.append((word, time.time()))

    def _fail(self, word: str) -> None:
        self.note(word)
        raise ValueError(word)

    def _ask_who(self) -> None:
        try:
            quorate.caller()
        except quorate.NotInCall:
            self.note("nobody")

    def _hand(self, letter: Any) -> None:
        self.callers.pop(0).wake(letter)

    def _die(self) -> None:
        self.note("dies")
        os._exit(3)

    def words(self) -> list[str]:
        """What happened."""
        return [word for word, _ in self.seen]

    def times(self, word: str) -> list[float]:
        """When it happened."""
        return [at for each, at in self.seen if each == word]

    def later(self, seconds: float, word: str) -> float:
        """Note the word later; returns agreed time."""
        self.timers[word] = quorate.after(seconds, self.note, word)
        return time.time()

    def often(self, seconds: float, word: str) -> None:
        """Note the word again and again."""
        self.timers[word] = quorate.every(seconds, "note", word=word)

    def stop(self, word: str) -> bool:
        """No more of it."""
        return self.timers.pop(word).cancel()

    def is_set(self, word: str) -> bool:
        """Whether it is to come. A call: the timer is not part of the state alone."""
        self.note("asked")
        return self.timers[word].is_set

    def hand_later(self, seconds: float, letter: Any) -> None:
        """Wake the first who waits, later."""
        quorate.after(seconds, self._hand, letter)

    def do_later(self, seconds: float, method: str) -> None:
        """Have a method called that callers cannot name."""
        quorate.after(seconds, method)

    def fail_later(self, seconds: float, word: str) -> None:
        """Have a method called that raises."""
        quorate.after(seconds, self._fail, word)

    def wait(self, seconds: float | None) -> Any:
        """Wait for a letter, raise if none comes."""
        self.callers.append(quorate.caller())
        return quorate.park(seconds)

    def wait_or(self, seconds: float, default: Any) -> Any:
        """Wait for a letter, and take the default if none comes."""
        self.callers.append(quorate.caller())
        return quorate.park(timeout=seconds, default=default)

    def wait_or_fail(self, seconds: float, word: str) -> Any:
        """Wait for a letter, and fail so if none comes."""
        return quorate.park(seconds, error=KeyError(word))

    def wait_twofold(self) -> Any:
        """What cannot be."""
        return quorate.park(1, default=1, error=KeyError())

    def wait_wrongly(self) -> Any:
        """An error that is none."""
        return quorate.park(1, error="late")  # type: ignore[arg-type]

    def hand(self, letter: Any) -> str:
        """Wake the first who waits."""
        while self.callers:
            caller = self.callers.pop(0)
            if caller.is_waiting:
                caller.wake(letter)
                return "handed"
        return "nobody waits"

    def of_another(self) -> None:
        """A method of something that is not served."""
        quorate.after(1, [].append, 1)

    def many(self, count: int) -> None:
        """Set so many timers."""
        for _ in range(count):
            quorate.after(1000, self.note, "never")

    def clear(self) -> None:
        """Begin anew."""
        self.seen, self.timers, self.callers = [], {}, []
