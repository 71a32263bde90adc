"""A class whose callers wait for each other."""

from __future__ import annotations

from typing import Any

import quorate


class Mailbox:
    """Letters that wait for readers, and readers that wait for letters."""

    def __init__(self) -> None:
        self.letters: list[Any] = []
        self.readers: list[quorate.Caller] = []
        self.ended = 0

    def put(self, letter: Any) -> str:
        """Give the letter to the first who waits, or keep it."""
        while self.readers:
            reader = self.readers.pop(0)
            if reader.is_waiting:
                reader.wake(letter)
                return "handed"
        self.letters.append(letter)
        return "kept"

    def take(self) -> Any:
        """Return the first letter, or wait for one."""
        if self.letters:
            return self.letters.pop(0)
        self.readers.append(quorate.caller())
        return quorate.park()

    def call_all(self, letter: Any) -> int:
        """Give it to all who wait."""
        readers, self.readers = self.readers, []
        for reader in readers:
            reader.wake(letter)
        return len(readers)

    def call_each(self, letter: Any) -> None:
        """Give it to one after the other; who was not answered stays."""
        while self.readers:
            self.readers[0].wake(letter)
            del self.readers[0]

    def refuse_all(self, text: str) -> int:
        """Answer all who wait with an exception."""
        readers, self.readers = self.readers, []
        for reader in readers:
            reader.fail(KeyError(text))
        return len(readers)

    def wake_twice(self, letter: Any) -> None:
        """Answer the first who waits two times."""
        reader = self.readers.pop(0)
        reader.wake(letter)
        reader.wake(letter)

    def wake_and_raise(self, letter: Any) -> None:
        """Answer the first who waits, and fail."""
        self.readers.pop(0).wake(letter)
        raise ValueError("after the wake")

    def wake_with_what_does_not_travel(self) -> None:
        """Answer with a value that cannot be sent."""
        self.readers[0].wake(open)

    def fail_with_no_exception(self) -> None:
        """Answer with a value in place of an exception."""
        self.readers[0].fail("text")  # type: ignore[arg-type]

    def lose_park(self) -> int:
        """Ask to wait and return something else."""
        self.letters.append("left")
        quorate.park()
        return 1

    def who(self) -> quorate.Caller:
        """Return what must not travel."""
        return quorate.caller()

    def token(self) -> int:
        """Return the place of this call."""
        return quorate.caller().token

    @quorate.readonly
    def read_token(self) -> int:
        """Ask who calls where nobody does."""
        return quorate.caller().token

    @quorate.readonly
    def who_waits(self) -> list[bool]:
        """Ask in a read who waits."""
        return [reader.is_waiting for reader in self.readers]

    def waiting(self) -> int:
        """Return how many wait."""
        return len(self.readers)

    def left(self) -> list[Any]:
        """Return the letters that nobody took."""
        return list(self.letters)

    def sessions_ended(self) -> int:
        """Return how many sessions ended that this object knows."""
        return self.ended

    def on_session_end(self, session: int) -> None:
        """Forget who cannot be answered any more."""
        self.ended += 1
        self.readers = [reader for reader in self.readers if reader.is_waiting]
