"""What an object publishes, as a stream at its clients."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any, Self

from quorate import _feed, _native
from quorate._connect import AsyncProxy
from quorate._errors import SessionExpired
from quorate._options import Options
from quorate._proxy import Flow, Proxy, flow_of


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that an object published.

    >>> Change(7, "lines", "hello").lost
    0
    """

    number: int
    """Of all that the object published, counted from 1; what is watched from here on begins behind it."""
    topic: str
    value: Any
    lost: int = 0
    """Changes of the object, of whatever topic, since the one before that nobody can tell any more."""


class _Stream:
    """What both forms know: the change that was seen last, and those that came with one answer."""

    def __init__(self, proxy: object, topics: tuple[str, ...], after: int | None) -> None:
        flow = flow_of(proxy)
        bad = [topic for topic in topics if not _feed.is_topic(topic)]
        if bad or len(topics) > _feed.TOPICS_MAX:
            raise ValueError(
                f"{_feed.TOPICS_MAX} topics can be watched together, each a text of 1 to "
                f"{_feed.TOPIC_BYTES_MAX} bytes" + (f", not {bad[0]!r:.80}" if bad else "")
            )
        if after is not None and (isinstance(after, bool) or not isinstance(after, int) or after < 0):
            raise ValueError(f"after={after!r:.80} is no number of a change: use Change.number")
        kind = AsyncProxy if isinstance(proxy, AsyncProxy) else Proxy
        # A watch lasts for as long as it takes: only what is not answered or parked at once may be late.
        self._feed: Any = kind(Flow(flow.client.beside(_feed.NUMBER), _feed.Feed, Options()))
        self._number = flow.client.number
        self._topics = list(topics)
        self._seen = after
        self._ready: deque[tuple[int, str, bytes, int]] = deque()
        self._lost = 0

    @property
    def seen(self) -> int | None:
        """The number of the last change that was told or passed over."""
        return self._ready[0][0] - 1 if self._ready else self._seen

    def _take(self, told: list[Any]) -> None:
        last, lost, found = told
        self._lost += lost
        for number, topic, value in found:
            self._ready.append((number, topic, value, self._lost))
            self._lost = 0
        self._seen = last

    def _next(self) -> Change:
        """The next of those that came; one whose value cannot be read here raises, and is passed over."""
        number, topic, value, lost = self._ready.popleft()
        return Change(number, topic, _native.loads(value), lost)


class Watch(_Stream):
    """A stream of changes; made by `quorate.watch`.

    ::

        for change in quorate.watch(room, "lines"):
            print(change.value)
    """

    def _begin(self) -> Self:
        if self._seen is None:
            self._take(self._feed.watch(self._number, self._topics, None))
        return self

    def __iter__(self) -> Self:
        """Itself."""
        return self

    def __next__(self) -> Change:
        """Wait for the next change.

        Raises ObjectDropped or NotFound once the object is dropped, and Unavailable while no majority
        answers; after that it may be asked again, and goes on behind the change that was told last.
        """
        while not self._ready:
            try:
                self._take(self._feed.watch(self._number, self._topics, self._seen))
            except SessionExpired:
                continue  # what was published meanwhile is kept, and asked for by the next session
        return self._next()


class AsyncWatch(_Stream):
    """The asyncio twin of `Watch`; made by `quorate.awatch`.

    ::

        async for change in await quorate.awatch(room, "lines"):
            print(change.value)
    """

    async def _begin(self) -> Self:
        if self._seen is None:
            self._take(await self._feed.watch(self._number, self._topics, None))
        return self

    def __aiter__(self) -> Self:
        """Itself."""
        return self

    async def __anext__(self) -> Change:
        """Wait for the next change; see `Watch`."""
        while not self._ready:
            try:
                self._take(await self._feed.watch(self._number, self._topics, self._seen))
            except SessionExpired:
                continue
        return self._next()


def watch(proxy: object, /, *topics: str, after: int | None = None) -> Watch:
    """Follow what an object publishes by `quorate.publish`: of these topics, or of all.

    Every change comes once, in the order in which they were published, across reconnects, new leaders and the
    end of the session. The object's newest 1,024 changes are kept: who is further behind is told by
    `Change.lost`. The stream begins now, or behind the change with the number `after`.

    ::

        for change in quorate.watch(room, "lines"):
            print(change.number, change.value)

    >>> watch(7)
    Traceback (most recent call last):
    ...
    TypeError: int is not a replicated object: use what quorate.connect gives
    """
    if isinstance(proxy, AsyncProxy):
        raise TypeError(f"{proxy!r} is of asyncio: use quorate.awatch")
    return Watch(proxy, topics, after)._begin()


async def awatch(proxy: object, /, *topics: str, after: int | None = None) -> AsyncWatch:
    """The asyncio twin of `watch`; the stream has begun when it is returned.

    ::

        async for change in await quorate.awatch(room, "lines"):
            print(change.value)
    """
    if isinstance(proxy, Proxy) and not isinstance(proxy, AsyncProxy):
        raise TypeError(f"{proxy!r} is not of asyncio: use quorate.watch")
    return await AsyncWatch(proxy, topics, after)._begin()


for _class in (Change, Watch, AsyncWatch):
    _class.__module__ = "quorate"
