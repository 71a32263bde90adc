"""Guards: what a session holds, with a deadline by its client's clock, and the loss told to the holder."""

from __future__ import annotations

import abc
import asyncio
import contextlib
import dataclasses
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from types import EllipsisType, TracebackType
from typing import Any, Self, cast

from quorate import _labels, _native
from quorate._connect import CONNECT_SECONDS, submit
from quorate._errors import Closed, LockLost, SessionExpired, TimedOut
from quorate._log import logger
from quorate._proxy import Method, Proxy, flow_of, with_options
from quorate._session_states import Listener, listen_to

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


RELEASE_SECONDS = 30 * 24 * 3600.0
"""For a release, though nobody waits that long: it is made as soon as the group answers."""


_NOT_RELEASED = (
    "nobody has answered yet that the lock was given back: it will be as soon as the group answers, "
    "unless the connection is closed"
)


class _Hold(abc.ABC):
    """What both forms of a guard know. A loss is for good, whatever the group says later."""

    def __init__(
        self,
        lock: object,
        arguments: tuple[Any, ...],
        timeout: float | None,
        on_lost: Callable[[Any], object] | None,
        methods: tuple[str, str],
    ) -> None:
        self._flow = flow_of(lock)
        self._client = self._flow.client
        self._proxy = lock
        self._arguments = arguments
        self._options = {} if timeout is None else {"timeout": timeout}
        self._on_lost = on_lost
        self._methods = methods
        # Whoever ends the block: it is the one who began it that gives back.
        self._label: int | None = None
        self._token = 0
        self._until = 0.0
        self._ended = -1
        self._is_lost = False
        self._is_superseded = False
        self._is_inside = False
        self._is_told = threading.Lock()
        self._stop: Callable[[], None] = _nothing

    @property
    def token(self) -> int:
        """The fencing token: what the lock protects refuses smaller ones."""
        return self._token

    @property
    def deadline(self) -> float:
        """Until when the lock is held in any case, in seconds of `CLOCK_BOOTTIME`; it moves on by itself."""
        self._look()
        return self._until

    @property
    def remaining(self) -> float:
        """Seconds until the deadline; 0 if the lock is lost."""
        return max(0.0, self._until - time.clock_gettime(_CLOCK)) if self._look() else 0.0

    @property
    def is_lost(self) -> bool:
        """Whether the lock is lost, or may be."""
        return not self._look()

    def check(self) -> None:
        """Raises `LockLost` if the lock is lost, or may be. Nothing is sent."""
        if not self._look():
            raise self._loss()

    def _begin(self) -> None:
        if self._ended != -1:
            raise RuntimeError("this guard was used before: make another one")

    def _acquire(self) -> Any:
        """Acquire in the session that is there, and in no later one."""
        news = self._client.news()
        self._ended = 0 if news is None else news.ended
        self._label = self._caller()
        acquire = self._method(0, self._flow.options.timeout)
        return acquire(*self._arguments, **self._options, **acquire.telling(self._label))

    def _release(self) -> Method:
        """Gives the lock back, unless its session is over: the next one may have it for another reason."""
        return self._method(1, RELEASE_SECONDS)

    def _method(self, which: int, timeout: float | None) -> Method:
        options = dataclasses.replace(self._flow.options, timeout=timeout, session=self._ended)
        return cast(Method, getattr(with_options(self._proxy, options), self._methods[which]))

    @abc.abstractmethod
    def _caller(self) -> int | None:
        """The label of the thread or task that acquires."""

    @property
    def _patience(self) -> float:
        """How long the end of a block waits."""
        origin = self._flow.origin
        return self._flow.options.timeout or (origin.timeout if origin else CONNECT_SECONDS)

    def _hold(self, token: int) -> None:
        if not token:
            seconds = self._options.get("timeout")
            raise TimeoutError(f"the lock was not free for {seconds} s: try again, or wait for longer")
        self._token, self._is_inside = token, True

    def _look(self, news: _native.News | EllipsisType | None = ...) -> bool:
        """Whether the lock is held for sure."""
        if self._is_lost or not self._is_inside:
            return False
        found = self._client.news() if isinstance(news, EllipsisType) else news
        if found is None or found.ended != self._ended or found.state == "lost":
            self._is_lost = True
            self._is_superseded = found is not None and found.ended != self._ended and found.superseded
            return False
        self._until = found.until
        return True

    def _loss(self) -> LockLost:
        if self._token == 0:
            return LockLost("the lock was not acquired yet: enter the block of the guard first", 0)
        if not self._is_lost:
            return LockLost(
                f"the lock with token {self._token} was given back: the block has ended", self._token
            )
        if self._is_superseded:
            return LockLost(
                f"the lock with token {self._token} is lost: another process has resumed the session; stop "
                "what it protects",
                self._token,
            )
        return LockLost(
            f"the lock with token {self._token} is lost, or may be another's: no sign of life of its session "
            "was acknowledged in time; stop what it protects, and acquire it again",
            self._token,
        )

    @abc.abstractmethod
    def _give_back(self) -> Any:
        """Begin to give the lock back; what it is awaited by."""

    def _follow(self, listen: Listener) -> None:
        try:
            self._stop = listen_to(self._client, listen)
        except RuntimeError:
            self._leave()
            self._give_back()
            raise

    def _tell(self) -> None:
        """Call `on_lost`, once."""
        if self._on_lost is None or not self._is_told.acquire(blocking=False):
            return
        try:
            self._on_lost(self)
        except Exception:
            logger.exception("the on_lost of a guard failed")

    def _leave(self) -> bool:
        """The block ends; whether the lock is still held."""
        is_held = self._look()
        self._is_inside = False
        self._stop()
        if not is_held:
            self._tell()
        return is_held


class Guard(_Hold):
    """Holds a lock for a block; made by `guard`.

    ::

        with quorate.guard(lock) as guard:
            for row in rows:
                guard.check()
                store.write(row, guard.token)
    """

    def __enter__(self) -> Self:
        """Acquire the lock. Raises TimeoutError when it is not free in time."""
        self._begin()
        while not self._token:
            with contextlib.suppress(SessionExpired):  # with it went what it had, or waited for
                self._hold(self._acquire())
        if self._on_lost is not None:
            self._follow(self._listen)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give the lock back. Raises `LockLost` if it was lost and the block raised nothing itself."""
        is_held = self._leave()
        refused: BaseException | None = None
        with contextlib.suppress(Closed):
            released = self._give_back()
            if is_held:
                try:
                    released.result(self._patience)
                except (SessionExpired, RuntimeError) as found:
                    self._is_lost, refused = True, found
                except TimeoutError:
                    raise TimedOut(_NOT_RELEASED) from None
        if self._is_lost:
            _tell_loss(self._loss(), error, refused)

    def _caller(self) -> int | None:
        return _labels.thread_label()

    def _give_back(self) -> Future[Any]:
        release = self._release()
        return submit(release, **release.telling(self._label))

    def _listen(self, news: _native.News | None) -> None:
        if self._is_inside and not self._look(news):
            self._tell()


class AsyncGuard(_Hold):
    """Holds a lock for an asynchronous block; made by `aguard`.

    ::

        async with quorate.aguard(lock) as guard:
            await store.write(row, guard.token)
    """

    async def __aenter__(self) -> Self:
        """Acquire the lock. Raises TimeoutError when it is not free in time."""
        self._begin()
        while not self._token:
            with contextlib.suppress(SessionExpired):  # with it went what it had, or waited for
                self._hold(await self._acquire())
        self._task = asyncio.current_task()
        assert self._task is not None, "a coroutine runs in a task"
        self._cancelling = self._task.cancelling()
        self._is_cancelled = False
        loop = asyncio.get_running_loop()

        def listen(_: _native.News | None) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(self._listen)

        self._follow(listen)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give the lock back. Raises `LockLost` in the place of the cancellation that told the loss."""
        is_held = self._leave()
        if self._is_cancelled and self._task is not None:
            is_last = self._task.uncancel() <= self._cancelling
            if is_last and kind is not None and issubclass(kind, asyncio.CancelledError):
                error = None
        refused: BaseException | None = None
        with contextlib.suppress(Closed):
            released = self._give_back()
            if is_held:
                try:
                    await asyncio.wait_for(asyncio.shield(released), self._patience)
                except (SessionExpired, RuntimeError) as found:
                    self._is_lost, refused = True, found
                except TimeoutError:
                    raise TimedOut(_NOT_RELEASED) from None
        if self._is_lost:
            _tell_loss(self._loss(), error, refused)

    def _caller(self) -> int | None:
        return _labels.label()

    def _give_back(self) -> asyncio.Future[Any]:
        release = self._release()
        released: asyncio.Future[Any] = release(**release.telling(self._label))
        released.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        return released

    def _listen(self) -> None:
        if not self._is_inside or self._is_cancelled or self._look():
            return
        self._is_cancelled = True
        if self._task is not None:
            self._task.cancel()
        self._tell()


def guard(
    lock: object,
    /,
    *arguments: Any,
    timeout: float | None = None,
    on_lost: Callable[[Guard], object] | None = None,
    methods: tuple[str, str] = ("acquire", "release"),
) -> Guard:
    """Hold a lock for the block of a `with`, and know when it may be lost.

    `on_lost` is called once with the guard, on a thread of its own, before the group may give the lock to
    another one. `methods` are those that acquire and release, the first with the arguments; it returns a
    fencing token, or 0 after the timeout: ("campaign", "resign") of an `Election`.

    >>> guard(7)
    Traceback (most recent call last):
    ...
    TypeError: int is not a replicated object: use what quorate.connect gives
    """
    _check_kind(lock, "aguard", is_async=False)
    return Guard(lock, arguments, timeout, on_lost, methods)


def aguard(
    lock: object,
    /,
    *arguments: Any,
    timeout: float | None = None,
    on_lost: Callable[[AsyncGuard], object] | None = None,
    methods: tuple[str, str] = ("acquire", "release"),
) -> AsyncGuard:
    """The asyncio twin of `guard`: when the lock is lost, the task in the block is cancelled.

    At the end of the block the cancellation becomes `LockLost`, as with `asyncio.timeout` TimeoutError.

    >>> aguard(7)
    Traceback (most recent call last):
    ...
    TypeError: int is not a replicated object: use what quorate.connect gives
    """
    _check_kind(lock, "guard", is_async=True)
    return AsyncGuard(lock, arguments, timeout, on_lost, methods)


def _check_kind(lock: object, other: str, *, is_async: bool) -> None:
    flow_of(lock)
    if isinstance(lock, Proxy) and lock._is_async != is_async:
        raise TypeError(f"{lock!r} is of the other kind of connection: use quorate.{other}")


def _tell_loss(loss: LockLost, error: BaseException | None, cause: BaseException | None) -> None:
    """Raise the loss, unless the block has raised something else: that gets a note."""
    if error is None:
        raise loss from cause
    if not isinstance(error, LockLost):
        error.add_note(str(loss))


def _nothing() -> None:
    """Nobody listens."""


for _class in (Guard, AsyncGuard):
    _class.__module__ = "quorate"
