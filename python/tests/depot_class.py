"""A class that has contents on disk."""

from __future__ import annotations

import quorate
from quorate.objects import Storage


class Depot:
    """Contents on disk, and callers that wait for them."""

    def __init__(self) -> None:
        self.storage = Storage()
        self.taken = 0

    def leave(self, name: str, content: bytes) -> None:
        """What is waited for."""
        self.storage.put(name, content)

    def take(self, name: str) -> bytes:
        """Its try leaves no trace while there is nothing."""
        self.taken += 1
        self.storage.append("tries", bytes(10_000))
        quorate.wait_until(lambda: name in self.storage)
        content = self.storage.get(name)
        self.storage.delete(name)
        self.storage.delete("tries")
        return content
