"""Whether the session of a connection lives, as states, callbacks and iterators.

The native half keeps the newest state and a count of changes. There is no queue: who is slow misses states in
between, but no loss of a session.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import enum
import os
import threading
from collections.abc import AsyncIterator, Callable, Iterator

from quorate import _futures, _native
from quorate._log import logger
from quorate._proxy import flow_of

SIGNALS_SECONDS = 0.05
"""How long an iterator leaves signals unseen."""

WATCH_SECONDS = 60.0
"""How long a thread that watches sleeps if nothing wakes it."""

LISTENERS_MAX = 10_000
"""Callbacks, iterators and guards that listen to one connection: as many as calls may wait in a group."""

Listener = Callable[[_native.News | None], None]


class SessionState(enum.Enum):
    """Whether the session of a connection lives, as far as its client knows.

    >>> SessionState("lost")
    <SessionState.LOST: 'lost'>
    """

    CONNECTED = "connected"
    """The group has acknowledged a sign of life lately."""
    SUSPENDED = "suspended"
    """No node answers; the session may still live, with all that it owns."""
    LOST = "lost"
    """The session is over, or may be: what it owned may be another's."""


def session_state(proxy: object) -> SessionState:
    """Whether the session of a proxy's connection lives; nothing is sent.

    >>> session_state(7)
    Traceback (most recent call last):
    ...
    TypeError: int is not a replicated object: use what quorate.connect gives
    """
    news = flow_of(proxy).client.news()
    return SessionState.LOST if news is None else SessionState(news.state)


def session_resumed(proxy: object) -> bool:
    """Whether the session of a proxy's connection was another process's before: `connect(resume=)`.

    >>> session_resumed(7)
    Traceback (most recent call last):
    ...
    TypeError: int is not a replicated object: use what quorate.connect gives
    """
    news = flow_of(proxy).client.news()
    return news is not None and news.resumed


def on_session_state(proxy: object, callback: Callable[[SessionState], object]) -> Callable[[], None]:
    """Have each change of the state told, on a thread of its own; LOST also when the connection is closed.

    Returns a function that ends this. A callback that is slow misses states in between, but no LOST.

    >>> on_session_state(7, print)
    Traceback (most recent call last):
    ...
    TypeError: int is not a replicated object: use what quorate.connect gives
    """
    client = flow_of(proxy).client
    told = _Told(client.news())

    def listen(news: _native.News | None) -> None:
        for state in told.changes(news):
            callback(state)

    return listen_to(client, listen)


def session_states(proxy: object) -> Iterator[SessionState]:
    """The state, and then each change when it happens, until the connection is closed.

    >>> next(session_states(7))
    Traceback (most recent call last):
    ...
    TypeError: int is not a replicated object: use what quorate.connect gives
    """
    client = flow_of(proxy).client
    news = client.news()
    told = _Told(news)
    yield told.state
    while news is not None:
        news = client.await_news(news, SIGNALS_SECONDS)
        yield from told.changes(news)


async def asession_states(proxy: object) -> AsyncIterator[SessionState]:
    """The asyncio twin of `session_states`.

    >>> asession_states(7).__anext__().send(None)
    Traceback (most recent call last):
    ...
    TypeError: int is not a replicated object: use what quorate.connect gives
    """
    client = flow_of(proxy).client
    loop = asyncio.get_running_loop()
    news = client.news()
    told = _Told(news)
    changed = asyncio.Event()

    def listen(_: _native.News | None) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(changed.set)

    stop = listen_to(client, listen)
    try:
        yield told.state
        while news is not None:
            changed.clear()
            news = client.news()
            for state in told.changes(news):
                yield state
            if news is not None:
                await changed.wait()
    finally:
        stop()


class _Told:
    """The state that somebody was told last."""

    def __init__(self, news: _native.News | None) -> None:
        self.state = SessionState.LOST if news is None else SessionState(news.state)
        self._ended = 0 if news is None else news.ended

    def changes(self, news: _native.News | None) -> list[SessionState]:
        """The states that are to be told."""
        found: list[SessionState] = []
        is_over = news is None or news.ended != self._ended
        if is_over and self.state is not SessionState.LOST:
            found.append(SessionState.LOST)
            self.state = SessionState.LOST
        if news is not None:
            self._ended = news.ended
            state = SessionState(news.state)
            if state is not self.state:
                found.append(state)
                self.state = state
        return found


class _Watcher:
    """The thread that tells listeners of one client; it ends with the last of them."""

    def __init__(self, client: _native.Client) -> None:
        self.client = client
        self.listeners: list[Listener] = []
        self.thread = threading.Thread(target=self._run, name="quorate-session", daemon=True)

    def _run(self) -> None:
        news = self.client.news()
        while True:
            with _lock:
                listeners = list(self.listeners)
                if news is None or not listeners:
                    _watchers.pop(id(self.client), None)
                    self.listeners.clear()
            for listener in listeners:
                try:
                    listener(news)
                except Exception:
                    logger.exception("a callback for the state of a session failed")
            if news is None or not listeners:
                return
            news = self.client.await_news(news, WATCH_SECONDS)


_lock = threading.Lock()
_watchers: dict[int, _Watcher] = {}


def listen_to(client: _native.Client, listener: Listener) -> Callable[[], None]:
    """Have a function called whenever there may be news, and with None at the end; returns what ends this."""
    with _lock:
        watcher = _watchers.get(id(client)) or _Watcher(client)
        if len(watcher.listeners) >= LISTENERS_MAX:
            raise RuntimeError(
                f"{LISTENERS_MAX} callbacks listen to this connection: end those that are not needed"
            )
        watcher.listeners.append(listener)
        if id(client) not in _watchers:
            _watchers[id(client)] = watcher
            watcher.thread.start()

    def stop() -> None:
        with _lock:
            if listener not in watcher.listeners:
                return
            watcher.listeners.remove(listener)
        client.stir()

    client.stir()
    return stop


def _end_all() -> None:
    """The interpreter ends: no thread may come back into it."""
    with _lock:
        watchers = list(_watchers.values())
        for watcher in watchers:
            watcher.listeners.clear()
    for watcher in watchers:
        watcher.client.stir()
        if watcher.thread is not threading.current_thread():
            watcher.thread.join(1.0)


def _forget() -> None:
    """This process was forked off: the threads are its parent's."""
    global _lock
    for watcher in _watchers.values():
        watcher.listeners.clear()
    _lock = threading.Lock()  # a thread of the parent may hold the other one
    _watchers.clear()


SessionState.__module__ = "quorate"
assert _futures, "its end comes after the end of the threads here"
atexit.register(_end_all)
os.register_at_fork(after_in_child=_forget)
