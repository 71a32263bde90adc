"""What the objects of a group publish, kept for those who watch.

The feed is an object of the group itself, as the directory is. To publish is to send it a message, and to
watch is a call that waits there: so both go on wherever those do.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from quorate import _calling, _names, _native
from quorate._errors import NotFound, ObjectDropped, Refused
from quorate._options import readonly

NUMBER = 2**32 - 2
"""The feed's own number."""

CHANGES_MAX = 1024
"""Changes of one object that are kept."""

OBJECT_BYTES_MAX = 1 << 20
"""Bytes of one object's changes."""

FEED_BYTES_MAX = 32 << 20
"""Bytes of all changes; beyond it, of the object that has most the oldest go."""


TOPICS_MAX = 64
"""Topics that one call watches."""

TOPIC_BYTES_MAX = 255


def is_topic(topic: object) -> bool:
    """Whether it names a topic."""
    return isinstance(topic, str) and 1 <= len(topic.encode(errors="replace")) <= TOPIC_BYTES_MAX


class Stream:
    """The newest changes of one object, each with its number, and who watches for more."""

    def __init__(self) -> None:
        self.last = 0
        self.bytes = 0
        self.kept: deque[tuple[int, str, bytes]] = deque()
        self.watching: list[tuple[_calling.Caller, list[str], int]] = []

    def add(self, topic: str, value: bytes) -> int:
        """Keep one more. Returns how many bytes more there are."""
        self.last += 1
        self.kept.append((self.last, topic, value))
        self.bytes += len(value)
        added = len(value)
        while len(self.kept) > CHANGES_MAX or self.bytes > OBJECT_BYTES_MAX:
            added += self.forget_oldest()
        return added

    def forget_oldest(self) -> int:
        """Keep one less. Returns how many bytes more there are."""
        taken = len(self.kept.popleft()[2])
        self.bytes -= taken
        return -taken

    def told_since(self, seen: int, topics: list[str]) -> list[Any] | None:
        """The last number, how many are lost, and those that are kept; None when there is nothing to tell."""
        first = self.kept[0][0] if self.kept else self.last + 1
        lost = max(0, first - 1 - seen)
        found = [list(each) for each in self.kept if each[0] > seen and (not topics or each[1] in topics)]
        return [self.last, lost, found] if lost or found else None


class Feed:
    """Keeps what objects publish. Clients call it through `quorate.watch`."""

    def __init__(self) -> None:
        self._streams: dict[int, Stream] = {}
        self._bytes = 0

    def watch(self, number: int, topics: list[str], seen: int | None) -> Any:
        """Return what an object published after a change that was seen; wait for it.

        Who has seen none asks with None, and is told at once where the stream stands.
        """
        if len(topics) > TOPICS_MAX or not all(is_topic(topic) for topic in topics):
            raise Refused(f"watch names {TOPICS_MAX} topics at most, of 1 to {TOPIC_BYTES_MAX} bytes each")
        if _native.object_of(number) is None:
            raise NotFound(f"this group has no object number {number} any more")
        stream = self._streams.setdefault(number, Stream())
        if seen is None:
            return [stream.last, 0, []]
        told = stream.told_since(seen, topics)
        if told is not None:
            return told
        stream.watching.append((_calling.caller(), topics, seen))
        return _calling.park()

    @readonly
    def watching(self, number: int) -> int:
        """Return how many calls wait for what an object publishes next."""
        stream = self._streams.get(number)
        return 0 if stream is None else len(stream.watching)

    def on_session_end(self, session: int) -> None:
        """Whoever it was watches no more."""
        for stream in self._streams.values():
            stream.watching = [each for each in stream.watching if each[0].session != session]

    def _add(self, number: int, topic: str, value: bytes) -> None:
        """An object has published something."""
        stream = self._streams.setdefault(number, Stream())
        self._bytes += stream.add(topic, value)
        while self._bytes > FEED_BYTES_MAX:
            largest = max(self._streams.values(), key=lambda each: each.bytes)
            self._bytes += largest.forget_oldest()
        waiting = []
        for caller, topics, seen in stream.watching:
            told = stream.told_since(seen, topics)
            if told is None:
                waiting.append((caller, topics, seen))
            elif caller.is_waiting:
                caller.wake(told)
        stream.watching = waiting

    def _drop(self, number: int) -> None:
        """An object was dropped."""
        stream = self._streams.pop(number, None)
        if stream is None:
            return
        self._bytes -= stream.bytes
        for caller, _, _ in stream.watching:
            if caller.is_waiting:
                caller.fail(ObjectDropped("the object that this call watches was dropped"))

    @property
    def is_pristine(self) -> bool:
        """Whether nothing was ever published or watched."""
        return not self._streams


# Their package is not one whose classes are kept.
_names.keep(Feed)
_names.keep(Stream)
