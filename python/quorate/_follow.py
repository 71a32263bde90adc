"""The calls of an object, as a stream at its clients."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any, Self

from quorate import _feed, _native
from quorate._call_stream import SLOT_BITS
from quorate._connect import AsyncProxy
from quorate._errors import SessionExpired
from quorate._options import Options
from quorate._proxy import Flow, Proxy, flow_of


@dataclass(frozen=True, slots=True)
class DecidedCall:
    """A call of an object that was decided and has left a trace.

    >>> DecidedCall(12, 0, 0.0, "deposit", (10,), {}).method
    'deposit'
    """

    slot: int
    """The slot in which it took effect: of a call that waited, the one that let it go on."""
    index: int
    """Its order among the object's calls in that slot: it rises."""
    time: float
    """Agreed time, in seconds since 1970."""
    method: str
    """Also of a timer, of a message, and `on_session_end`, which the group itself calls."""
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    @property
    def _place(self) -> int:
        return (self.slot << SLOT_BITS) + self.index


class _Calls:
    """What both forms know: the place that was seen last, and the calls that came with one answer."""

    def __init__(self, proxy: object, after: int | DecidedCall | None) -> None:
        flow = flow_of(proxy)
        is_slot = after is None or (isinstance(after, int) and not isinstance(after, bool) and after >= 0)
        if not is_slot and not isinstance(after, DecidedCall):
            raise ValueError(f"after={after!r:.80} is neither a slot nor a DecidedCall")
        kind = AsyncProxy if isinstance(proxy, AsyncProxy) else Proxy
        self._feed: Any = kind(Flow(flow.client.beside(_feed.NUMBER), _feed.Feed, Options()))
        self._number = flow.client.number
        self._after = None if isinstance(after, DecidedCall) else after
        self._seen = after._place if isinstance(after, DecidedCall) else None
        self._ready: deque[tuple[int, int, bytes]] = deque()

    @property
    def slot(self) -> int:
        """The slot up to which all calls were told, when the stream began there or told them."""
        return (self._seen or 0) >> SLOT_BITS

    def _next(self) -> DecidedCall:
        place, time_ns, call = self._ready.popleft()
        self._seen = place
        method, args, kwargs = _native.loads(call)
        return DecidedCall(
            place >> SLOT_BITS,
            place & ((1 << SLOT_BITS) - 1),
            time_ns / 1e9,
            method,
            tuple(args),
            kwargs,
        )


class Follow(_Calls):
    """A stream of calls; made by `quorate.follow`.

    ::

        for call in quorate.follow(account):
            print(call.slot, call.method, call.args)
    """

    def _begin(self) -> Self:
        if self._seen is None:
            self._seen = self._feed.follow(self._number, None, self._after)
        return self

    def __iter__(self) -> Self:
        """Itself."""
        return self

    def __next__(self) -> DecidedCall:
        """Wait for the next call.

        Raises CallsLost when it is kept no more, ObjectDropped or NotFound once the object is dropped, and
        Unavailable while no majority answers; after that it may be asked again, and goes on behind the call
        that was told last.
        """
        while not self._ready:
            try:
                self._ready.extend(self._feed.follow(self._number, self._seen))
            except SessionExpired:
                continue  # what was called meanwhile is kept, and asked for by the next session
        return self._next()


class AsyncFollow(_Calls):
    """The asyncio twin of `Follow`; made by `quorate.afollow`.

    ::

        async for call in await quorate.afollow(account):
            print(call.slot, call.method, call.args)
    """

    async def _begin(self) -> Self:
        if self._seen is None:
            self._seen = await self._feed.follow(self._number, None, self._after)
        return self

    def __aiter__(self) -> Self:
        """Itself."""
        return self

    async def __anext__(self) -> DecidedCall:
        """Wait for the next call; see `Follow`."""
        while not self._ready:
            try:
                self._ready.extend(await self._feed.follow(self._number, self._seen))
            except SessionExpired:
                continue
        return self._next()


def follow(proxy: object, /, *, after: int | DecidedCall | None = None) -> Follow:
    """Follow the calls of an object: each that was decided and has left a trace, in order, and once.

    The stream begins now, or behind a slot, or behind a call that was told before. Calls are kept while an
    object is followed, and for ten minutes after: the newest 1,024, and at most 1 MiB of them. Who is
    further behind gets `CallsLost`: no gap is passed over. The calls of 64 objects of a group are followed at
    one time; one more is `Overloaded`.

    ::

        for call in quorate.follow(account):
            print(call.slot, call.method, call.args)

    >>> follow(7)
    Traceback (most recent call last):
    ...
    TypeError: int is not a replicated object: use what quorate.connect gives
    """
    if isinstance(proxy, AsyncProxy):
        raise TypeError(f"{proxy!r} is of asyncio: use quorate.afollow")
    return Follow(proxy, after)._begin()


async def afollow(proxy: object, /, *, after: int | DecidedCall | None = None) -> AsyncFollow:
    """The asyncio twin of `follow`; the stream has begun when it is returned.

    ::

        async for call in await quorate.afollow(account):
            print(call.slot, call.method, call.args)
    """
    if isinstance(proxy, Proxy) and not isinstance(proxy, AsyncProxy):
        raise TypeError(f"{proxy!r} is not of asyncio: use quorate.follow")
    return await AsyncFollow(proxy, after)._begin()


for _class in (DecidedCall, Follow, AsyncFollow):
    _class.__module__ = "quorate"
