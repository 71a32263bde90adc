"""Connections: sync, asyncio, and whole groups inside a test."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, NoReturn, ParamSpec, TypeVar, cast, overload

from quorate import _labels, _names, _native
from quorate._futures import loop_end
from quorate._options import Options, Tls
from quorate._proxy import Flow, LabelledMethod, Method, Origin, Proxy
from quorate._special import Pending

T = TypeVar("T")
P = ParamSpec("P")
R = TypeVar("R")
R2 = TypeVar("R2")
R3 = TypeVar("R3")
R4 = TypeVar("R4")

CONNECT_SECONDS = 10.0
"""Time to find a leader, and for each call, unless another is given."""

SESSION_SECONDS = 5.0
"""How long a session lives without a sign of life, unless its client asks for another time."""

SESSION_SECONDS_MIN, SESSION_SECONDS_MAX = 1.0, 3600.0

SECONDS_MAX = 1e19
"""More than any clock tells, and what the native half can count."""


class Connection(Generic[T]):
    """A session with a group; as a context manager it gives the object's proxy.

    >>> Connection.__enter__.__doc__
    'The proxy.'
    """

    def __init__(self, client: _native.Client, cls: type[T] | None, origin: Origin | None = None) -> None:
        self._client = client
        flow = Flow(client, cls, options_of(origin is not None and origin.weak), origin)
        flow.ask()
        self._proxy = cast(T, Proxy(flow))

    @property
    def proxy(self) -> T:
        """The object's stand-in, for use without `with`."""
        return self._proxy

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            """What it lacks was meant for the object."""
            raise AttributeError(
                f"a connection has no {name!r}: the object is what `with quorate.connect(...) as` gives, "
                "and without `with` its `proxy`"
            )

    def close(self) -> None:
        """End the session."""
        self._client.close()

    def __enter__(self) -> T:
        """The proxy."""
        return self._proxy

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


@overload
def connect(
    endpoint: str,
    cls: type[T],
    /,
    *,
    timeout: float = ...,
    tls: Tls | None = ...,
    session_timeout: float = ...,
    session_on_disconnect: float | str | None = ...,
    resume: str | os.PathLike[str] | None = ...,
    weak: bool = ...,
) -> Connection[T]: ...
@overload
def connect(
    endpoint: str,
    /,
    *,
    timeout: float = ...,
    tls: Tls | None = ...,
    session_timeout: float = ...,
    session_on_disconnect: float | str | None = ...,
    resume: str | os.PathLike[str] | None = ...,
    weak: bool = ...,
) -> Connection[Any]: ...
def connect(
    endpoint: str,
    cls: type[Any] | None = None,
    /,
    *,
    timeout: float = CONNECT_SECONDS,
    tls: Tls | None = None,
    session_timeout: float = SESSION_SECONDS,
    session_on_disconnect: float | str | None = None,
    resume: str | os.PathLike[str] | None = None,
    weak: bool = False,
) -> Connection[Any]:
    """Connect to a replicated object; `cls` gives editors and type checkers its methods.

    `tls` names the certificates for nodes that speak TLS. `session_timeout` is how many seconds the group
    keeps the session, and what objects hold for it, without a sign of life of this process: 1 to 3600.
    `session_on_disconnect`, a number of seconds or text as "2s" or "1500ms", has the session end so long
    after a node's system has reported that this process closed its connection, as when it is killed.
    `resume` is a file that is made where there is none: a process that is started again with it within the
    session's time has the session of the one before, and goes on owning what that owned.
    With `weak` the proxy is one of `quorate.weak`, and one node that is up suffices to connect: its calls
    read the state of that node, possibly stale, also while no majority answers.

    >>> connect("http://127.0.0.1:7400")
    Traceback (most recent call last):
    ...
    ValueError: 'http://127.0.0.1:7400' is not an endpoint: write quorate://host:port/Object

    Raises Unavailable when no majority answers in time, with `weak` when no node does, SessionInUse while
    another process has the session of the file open, NotFound when there is no such object, and Refused when
    certificates or the file do not fit, saying what to try.
    """
    cls = check_class(cls, timeout)
    session = session_options(session_timeout, session_on_disconnect, resume, weak)
    paths = tls.paths if tls else None
    # The endpoint names the object; else the class does.
    client = _native.Client(endpoint, timeout, cls.__name__ if cls else None, session=session, tls=paths)
    origin = Origin(endpoint, timeout, tls, session_timeout, session_on_disconnect, weak)
    return Connection(client, cls, origin)


def check_class(cls: Any, timeout: Any = CONNECT_SECONDS) -> type | None:
    """Refuse what cannot be meant, and register the class, which may be one with arguments.

    >>> check_class(list[int])
    <class 'list'>
    """
    _check_number("timeout", timeout)
    if not 0 < timeout <= SECONDS_MAX:
        raise ValueError(f"timeout {timeout}: use seconds above 0 and at most {SECONDS_MAX:g}")
    found = _names.class_of(cls)
    if found is None:
        return None
    if not isinstance(found, type):
        raise TypeError(f"{cls!r} is not a class: give the one whose methods the object has")
    return _names.register(found)


def _check_number(name: str, seconds: Any) -> None:
    if isinstance(seconds, bool | str) or not hasattr(type(seconds), "__float__"):
        raise TypeError(f"{name} is a number of seconds, not {type(seconds).__name__}")


def options_of(weak: bool) -> Options:
    """How the first proxy of a connection calls.

    >>> options_of(weak=True).level
    'any'
    """
    return Options(level="any") if weak else Options()


def session_options(
    timeout: Any, on_disconnect: Any = None, resume: Any = None, weak: Any = False
) -> _native.SessionOptions:
    """What a connection asks of its session; refuses what no node grants.

    >>> session_options(0.1)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    ValueError: session_timeout 0.1: use 1 to 3600 seconds, longer than this process may pause, and as ...
    """
    _check_number("session_timeout", timeout)
    if not SESSION_SECONDS_MIN <= timeout <= SESSION_SECONDS_MAX:
        raise ValueError(
            f"session_timeout {timeout}: use {SESSION_SECONDS_MIN:g} to {SESSION_SECONDS_MAX:g} seconds, "
            "longer than this process may pause, and as short as others may wait for what it holds"
        )
    if not isinstance(weak, bool):
        raise TypeError(f"weak must be True or False, not {type(weak).__name__}")
    path = None if resume is None else os.fsdecode(resume)
    if on_disconnect is None:
        return _native.SessionOptions(expiry=float(timeout), resume=path, weak=weak)
    short = _seconds("session_on_disconnect", on_disconnect)
    if not SESSION_SECONDS_MIN <= short <= timeout:
        raise ValueError(
            f"session_on_disconnect {on_disconnect!r}: use {SESSION_SECONDS_MIN:g} to {timeout:g} seconds: "
            "at least what a client that lives needs to reach another node, at most its session_timeout"
        )
    return _native.SessionOptions(expiry=float(timeout), on_disconnect=short, resume=path, weak=weak)


def _seconds(name: str, span: Any) -> float:
    """Seconds of a number, or of text with a unit.

    >>> _seconds("span", "1500ms"), _seconds("span", "2s"), _seconds("span", 3)
    (1.5, 2.0, 3.0)
    >>> _seconds("span", "soon")
    Traceback (most recent call last):
    ...
    ValueError: span 'soon': write a number of seconds, or text as "2s" or "1500ms"
    """
    if not isinstance(span, str):
        _check_number(name, span)
        return float(span)
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s|min)", span)
    if found is None:
        raise ValueError(f'{name} {span!r}: write a number of seconds, or text as "2s" or "1500ms"')
    number = float(found[1])
    match found[2]:
        case "ms":
            # A product with 0.001 is not the number that a reader of "1001ms" expects.
            return number / 1000
        case "s":
            return number
        case _:
            return number * 60


class AsyncMethod(Method):
    """One method of one asyncio proxy."""

    __slots__ = ()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.begin_in_loop(args, kwargs)


class AsyncLabelledMethod(LabelledMethod, AsyncMethod):
    """A method that is given the label of the task that calls."""

    __slots__ = ()

    def _label(self) -> int | None:
        return _labels.label()


AsyncMethod._labelled = AsyncLabelledMethod


class AsyncProxy(Proxy):
    """Stands for an object; every method gives an awaitable."""

    __slots__ = ()

    _method_class = AsyncMethod
    _is_async = True

    def _quorate_read(self, name: str) -> Any:
        return AsyncAttribute(AsyncMethod(self._quorate_flow, name))


class AsyncAttribute(Pending):
    """The value of an attribute when it is awaited; when it is called, a method that the object has there."""

    __slots__ = ()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return AsyncMethod(self._method.flow, self._method.name.removeprefix("."))(*args, **kwargs)

    def telling(self, label: int | None) -> dict[str, Any]:
        """As of a method that takes no label: the class does not have it."""
        return {}


class AsyncConnection:
    """A session with a group, opened and closed by `async with`.

    >>> hasattr(AsyncConnection, "__aenter__")
    True
    """

    def __init__(
        self,
        endpoint: str,
        cls: type | None,
        timeout: float,
        tls: Tls | None,
        session: _native.SessionOptions,
        *,
        weak: bool = False,
    ) -> None:
        self._arguments = (endpoint, cls, timeout, tls, session)
        self._options = options_of(weak)
        self._cls = cls
        self._client: _native.Client | None = None

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            """What it lacks was meant for the object."""
            words = "the object is what `async with quorate.aconnect(...) as` gives"
            raise AttributeError(f"a connection has no {name!r}: {words}")

    async def __aenter__(self) -> Any:
        endpoint, cls, timeout, tls, session = self._arguments
        loop = asyncio.get_running_loop()
        opened = loop.create_future()
        paths = tls.paths if tls else None
        name = cls.__name__ if cls else None
        end = loop_end(loop)
        client = _native.Client.open(end, opened, endpoint, timeout, name, session=session, tls=paths)
        try:
            await opened
            client.find_object()
        except BaseException:
            client.close()
            raise
        self._client = client
        flow = Flow(client, self._cls, self._options)
        flow.ask()
        return AsyncProxy(flow)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._client is not None:
            self._client.close()


def aconnect(
    endpoint: str,
    cls: type | None = None,
    /,
    *,
    timeout: float = CONNECT_SECONDS,
    tls: Tls | None = None,
    session_timeout: float = SESSION_SECONDS,
    session_on_disconnect: float | str | None = None,
    resume: str | os.PathLike[str] | None = None,
    weak: bool = False,
) -> AsyncConnection:
    """The asyncio twin of `connect`: its methods give awaitables, for `await` and `asyncio.create_task`.

    What one turn of a loop calls is sent together. To cancel, as `asyncio.timeout` does, takes a call
    back that was not sent, and cancels one in the group that waits there. Of another one it ends the
    waiting: it may have been executed, or may be yet.

    >>> aconnect("quorate://127.0.0.1:7400/Account")  # doctest: +ELLIPSIS
    <quorate.AsyncConnection object at ...>
    """
    cls = check_class(cls, timeout)
    session = session_options(session_timeout, session_on_disconnect, resume, weak)
    return AsyncConnection(endpoint, cls, timeout, tls, session, weak=weak)


def submit(method: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
    """Call without waiting; futures of one connection are pipelined, and may be executed in any order.

    Calls are sent together: at once when somebody waits for one of them, else within a millisecond. `cancel`
    takes a call back that was not sent, and returns True; it is never executed. A call that was sent goes on.

    >>> submit(len, "abc")
    Traceback (most recent call last):
    ...
    TypeError: builtin_function_or_method is not a method of a replicated object
    """
    if not isinstance(method, Method):
        raise TypeError(f"{type(method).__name__} is not a method of a replicated object")
    return cast("Future[R]", method.begin(args, kwargs))


@overload
def gather(*futures: Future[R]) -> list[R]: ...
@overload
def gather(first: Future[R], second: Future[R2], /) -> tuple[R, R2]: ...
@overload
def gather(first: Future[R], second: Future[R2], third: Future[R3], /) -> tuple[R, R2, R3]: ...
@overload
def gather(
    first: Future[R], second: Future[R2], third: Future[R3], fourth: Future[R4], /
) -> tuple[R, R2, R3, R4]: ...
@overload
def gather(*futures: Future[Any]) -> list[Any]: ...
def gather(*futures: Future[Any]) -> Any:
    """Wait for all futures, and list their results in order; the first error is raised at the end.

    Type checkers see the types of up to four results that differ, as those of `asyncio.gather`.

    >>> done = Future()
    >>> done.set_result(1)
    >>> gather(done, done)
    [1, 1]
    """
    results = _native.gather_calls(futures)
    if results is not None:
        return results
    errors = [error for error in (future.exception() for future in futures) if error is not None]
    if errors:
        raise errors[0]
    return [future.result() for future in futures]


@overload
async def agather(first: Awaitable[R], second: Awaitable[R2], /) -> tuple[R, R2]: ...
@overload
async def agather(
    first: Awaitable[R], second: Awaitable[R2], third: Awaitable[R3], /
) -> tuple[R, R2, R3]: ...
@overload
async def agather(
    first: Awaitable[R], second: Awaitable[R2], third: Awaitable[R3], fourth: Awaitable[R4], /
) -> tuple[R, R2, R3, R4]: ...
@overload
async def agather(*calls: Awaitable[R]) -> list[R]: ...
async def agather(*calls: Awaitable[Any]) -> Any:
    """The asyncio twin of `gather`.

    >>> async def one() -> int:
    ...     return 1
    >>> asyncio.run(agather(one(), one()))
    [1, 1]
    """
    return list(await asyncio.gather(*calls))


for _class in (Connection, AsyncConnection):
    _class.__module__ = "quorate"
