"""Calls that are wanted early: what they returned where they were executed before they were decided."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import Any, Generic, Literal, ParamSpec, TypeVar, cast

from quorate import _native
from quorate._connect import AsyncMethod
from quorate._proxy import LabelledMethod, Method

P = ParamSpec("P")
R = TypeVar("R")

EarlyState = Literal["tentative", "stood", "fell", "decided"]
"""`tentative`: not decided yet. `stood`: decided as it was told. `fell`: the call ended otherwise. `decided`:
it is no tentative result at all, because none came before the decided one."""


class Early(Generic[R]):
    """The tentative result of a call, and later its true one.

    >>> from concurrent.futures import Future
    >>> Early(7, Future(), None).tentative
    7
    """

    __slots__ = ("_last", "_word", "tentative")

    def __init__(self, tentative: R, last: Future[R], word: _native.FirstWord | None) -> None:
        self.tentative = tentative
        """What the call returned where it was executed ahead of its decision. It may be replaced, or void."""
        self._last = last
        self._word = word

    @property
    def state(self) -> EarlyState:
        """What the tentative result is worth by now.

        >>> from concurrent.futures import Future
        >>> Early(7, Future(), None).state
        'decided'
        """
        return _state(self._word)

    def confirmed(self, timeout: float | None = None) -> R:
        """Wait for the decision, and return the result: the tentative one, or the one that took its place.

        Raises what the call raises, such as OutcomeUnknown when nobody could say in time what came of it, and
        TimeoutError after so many seconds, which end nothing but the waiting.

        >>> from concurrent.futures import Future
        >>> done = Future()
        >>> done.set_result(8)
        >>> Early(7, done, None).confirmed()
        8
        """
        return self._last.result(timeout)

    def __repr__(self) -> str:
        return f"<early result of a replicated call, {self.state}>"


class AsyncEarly(Generic[R]):
    """The asyncio twin of `Early`: `await early.confirmed()`.

    >>> hasattr(AsyncEarly, "confirmed")
    True
    """

    __slots__ = ("_last", "_word", "tentative")

    def __init__(self, tentative: R, last: asyncio.Future[R], word: _native.FirstWord | None) -> None:
        self.tentative = tentative
        """As of `Early`."""
        self._last = last
        self._word = word

    @property
    def state(self) -> EarlyState:
        """As of `Early`."""
        return _state(self._word)

    async def confirmed(self) -> R:
        """Wait for the decision, and return the result. To cancel ends nothing but the waiting."""
        return await asyncio.shield(self._last)

    def __repr__(self) -> str:
        return f"<early result of a replicated call, {self.state}>"


def _state(word: _native.FirstWord | None) -> EarlyState:
    return "decided" if word is None else cast(EarlyState, word.state)


def early(method: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Early[R]:
    """Call, and wait only until the result is known where the call was executed ahead of its decision.

    Use a tentative result for what may be done in vain, such as computing the next call or showing a value as
    not saved yet, and never for what must not be taken back. It comes from one node of a group that executes
    ahead of decisions (`--speculation`), usually stands, and is replaced when a change of the leader has the
    group decide otherwise. Elsewhere the first result is the decided one, and `state` says so. What a call
    raises is never told early. ::

        result = quorate.early(account.deposit, 10)
        page = render(result.tentative)
        balance = result.confirmed()
        if result.state == "fell":
            page = render(balance)

    >>> early(len, "abc")
    Traceback (most recent call last):
    ...
    TypeError: builtin_function_or_method is not a method of a replicated object
    """
    if isinstance(method, AsyncMethod):
        raise TypeError("quorate.early waits: use quorate.aearly for methods of an asyncio connection")
    called = _method(method)
    if called.flow.route is None:
        # A group that is simulated in this process.
        future = called.begin(args, kwargs)
        return Early(future.result(), future, None)
    first, last, word = _native.begin_early(called, args, _given(called, kwargs))
    try:
        tentative = first.result()
    except (KeyboardInterrupt, SystemExit):
        called.flow.client.give_up(word.number)
        raise
    return Early(tentative, last, word)


async def aearly(method: Callable[P, Awaitable[R]], /, *args: P.args, **kwargs: P.kwargs) -> AsyncEarly[R]:
    """The asyncio twin of `early`, for methods of `aconnect`.

    >>> asyncio.run(aearly(len, "abc"))
    Traceback (most recent call last):
    ...
    TypeError: builtin_function_or_method is not a method of a replicated object
    """
    called = _method(method)
    first, last, word = _native.begin_early_in_loop(called, args, _given(called, kwargs))
    try:
        return AsyncEarly(await first, last, word)
    except BaseException:
        # It is the end of the call, or nobody waits for that.
        if not last.cancel() and not last.cancelled():
            last.exception()
        raise


def _method(method: Any) -> Method:
    if not isinstance(method, Method):
        raise TypeError(f"{type(method).__name__} is not a method of a replicated object")
    return method


def _given(method: Method, kwargs: dict[str, Any]) -> dict[str, Any]:
    if isinstance(method, LabelledMethod):
        return {**method.telling(method._label()), **kwargs}
    return kwargs


for _class in (Early, AsyncEarly):
    _class.__module__ = "quorate"
