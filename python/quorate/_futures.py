"""Futures of calls: one for threads, one for event loops; and what both need when processes fork or end."""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from types import TracebackType
from typing import Any

from quorate import _native
from quorate._log import logger


class CallFuture(_native.Pending, Future[Any]):
    """The future of a call. The native half has its methods."""

    # `concurrent.futures.wait` and `as_completed` look at these. Who holds the condition must see one
    # state: what has ended is published under it.

    @property
    def _state(self) -> str:  # type: ignore[override]
        if "_kept_condition" in self.__dict__:
            published: str = self.__dict__.get("_published", "RUNNING")
            return published
        return self._ended() or "RUNNING"

    @property
    def _condition(self) -> threading.Condition:  # type: ignore[override]
        kept: threading.Condition | None = self.__dict__.get("_kept_condition")
        if kept is None:
            made = threading.Condition()
            self.__dict__.setdefault("_kept_waiters", [])
            kept = self.__dict__.setdefault("_kept_condition", made)
            if kept is made:
                self.add_done_callback(_publish)
        return kept

    @property
    def _waiters(self) -> list[Any]:  # type: ignore[override]
        with self._condition:
            waiters: list[Any] = self.__dict__["_kept_waiters"]
            return waiters

    def _ended(self) -> str:
        if self.cancelled():
            return "CANCELLED_AND_NOTIFIED"
        return "FINISHED" if self.done() else ""

    def set_running_or_notify_cancel(self) -> bool:
        """Whether it was not taken back: a call begins by itself."""
        return not self.cancelled()

    def set_result(self, result: Any) -> None:
        """Refused: the end of a call is its own."""
        raise TypeError("the future of a call cannot be given a result")

    def set_exception(self, exception: BaseException | None) -> None:
        """Refused: the end of a call is its own."""
        raise TypeError("the future of a call cannot be given an exception")

    def __repr__(self) -> str:
        return f"<future of a replicated call, {self._ended().lower() or 'running'}>"


def _publish(future: CallFuture) -> None:
    with future._condition:
        future.__dict__["_published"] = future._ended()
        for waiter in future._waiters:
            if future.cancelled():
                waiter.add_cancelled(future)
            elif future.exception() is not None:
                waiter.add_exception(future)
            else:
                waiter.add_result(future)
        future._condition.notify_all()


def call_back(future: Future[Any], callbacks: list[Callable[[Future[Any]], object]]) -> None:
    """Run callbacks as `concurrent.futures` does."""
    for callback in callbacks:
        try:
            callback(future)
        except Exception:
            logger.exception("a callback of %r failed", future)


class LoopCall(asyncio.Future[Any]):
    """An asyncio future of a call that `asyncio.create_task` takes for a coroutine, too."""

    _number: int
    _client: _native.Client
    _steps: Any = None

    def cancel(self, msg: Any | None = None) -> bool:
        """Stop waiting. Take a call back that was not sent; cancel one in the group that waits there.

        Of any other one the outcome stays unknown.
        """
        if not self.done():
            self._client.give_up(self._number)
        return super().cancel(msg)

    def send(self, value: Any) -> Any:
        """One step of a task that awaits it."""
        if self._steps is None:
            self._steps = self.__await__()
        return self._steps.send(value)

    def throw(
        self,
        kind: Any,
        value: BaseException | object = None,
        trace: TracebackType | None = None,
    ) -> Any:
        """Throw into a task that awaits it."""
        if self._steps is None:
            self._steps = self.__await__()
            # The task ends before its first step: nobody will cancel what it would have awaited.
            self.cancel()
        if isinstance(kind, BaseException):
            return self._steps.throw(kind)
        return self._steps.throw(kind, value, trace)

    def close(self) -> None:
        """A task that awaits it is gone."""
        if self._steps is not None:
            self._steps.close()


_ends: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _native.LoopEnd] = weakref.WeakKeyDictionary()


def loop_end(loop: asyncio.AbstractEventLoop) -> _native.LoopEnd:
    """The end of an event loop at the clients of this process."""
    end = _ends.get(loop)
    if end is None:
        # What ends for a loop that is closed would keep the loop and a descriptor.
        for closed in [other for other in _ends if other.is_closed()]:
            _ends.pop(closed).close()
        end = _ends[loop] = _native.LoopEnd()
        loop.add_reader(end.fileno(), end.receive)
    return end


os.register_at_fork(after_in_child=_native.after_fork)
atexit.register(_native.leave)
