"""The typed proxy of an object: its methods look local, and call the replicated object."""

from __future__ import annotations

import contextlib
import dataclasses
from concurrent.futures import Future
from typing import Any, TypeVar, cast

from quorate import _native
from quorate._errors import NoSuchMethod, NotReadOnly, QuorateError
from quorate._options import Freshness, Level, Options, is_readonly

T = TypeVar("T")


_WHICH_READ = "__quorate_reads__"
"""A read of this name asks the host which methods are reads; no public method has it."""


class Flow:
    """The path of every call, whether a thread, a future or an event loop waits for it.

    The host is asked once which methods change nothing, and nobody waits for its answer: until it comes, and
    when it does not, only declared methods are read.
    """

    __slots__ = ("client", "cls", "freshness", "options", "proven")

    def __init__(
        self, client: _native.Client, cls: type | None, options: Options, proven: set[str] | None = None
    ) -> None:
        self.client = client
        self.cls = cls
        self.options = options
        self.freshness = Freshness(0, 0.0)
        self.proven: set[str] = set() if proven is None else proven

    def ask(self) -> None:
        """Ask which methods are reads."""

        def answered(value: Any, error: BaseException | None, _slot: int, _age: int) -> None:
            # Objects in Rust, and nodes of earlier builds, have no such list.
            if error is None and isinstance(value, list):
                self.proven.update(value)

        with contextlib.suppress(QuorateError):
            self.client.begin(_WHICH_READ, (), {}, "any", answered)

    def level_of(self, method: str) -> Level | None:
        """The level at which a method is called."""
        if self.options.level is None and (method in self.proven or is_readonly(self.cls, method)):
            return "confirmed"
        return self.options.level

    def is_taken_back(self, method: str, level: Level | None, error: BaseException | None) -> bool:
        """Whether the host no longer takes for a read what was called as one for its word only."""
        is_at_its_word = (
            level is not None and self.options.level is None and not is_readonly(self.cls, method)
        )
        if not isinstance(error, NotReadOnly) or not is_at_its_word:
            return False
        self.proven.discard(method)
        return True

    def call(self, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call and wait."""
        level = self.level_of(method)
        try:
            value, slot, age = self.client.call(method, args, kwargs, level)
        except NotReadOnly as error:
            if not self.is_taken_back(method, level, error):
                raise
            return self.client.call(method, args, kwargs, None)[0]
        if level is not None:
            self.freshness = Freshness(slot, age / 1e9)
        return value

    def begin(self, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Future[Any]:
        """Call without waiting."""
        future: Future[Any] = Future()
        future.set_running_or_notify_cancel()

        level = self.level_of(method)

        def done(value: Any, error: BaseException | None, slot: int, age: int) -> None:
            if self.is_taken_back(method, level, error):
                try:
                    self.client.begin(method, args, kwargs, None, ended)
                except Exception as failed:
                    future.set_exception(failed)
            else:
                ended(value, error, slot, age)

        def ended(value: Any, error: BaseException | None, slot: int, age: int) -> None:
            if error is not None:
                future.set_exception(error)
            else:
                if slot:
                    self.freshness = Freshness(slot, age / 1e9)
                future.set_result(value)

        self.client.begin(method, args, kwargs, level, done)
        return future


class Method:
    """One method of one proxy."""

    __slots__ = ("flow", "name")

    def __init__(self, flow: Flow, name: str) -> None:
        self.flow = flow
        self.name = name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.flow.call(self.name, args, kwargs)

    def begin(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Future[Any]:
        """Call without waiting."""
        return self.flow.begin(self.name, args, kwargs)

    def __repr__(self) -> str:
        return f"<replicated method {self.name}>"


class Proxy:
    """Stands for an object; every public name is a method of it."""

    __slots__ = ("_quorate_flow", "_quorate_methods")

    _method_class: type[Method] = Method

    def __init__(self, flow: Flow) -> None:
        object.__setattr__(self, "_quorate_flow", flow)
        object.__setattr__(self, "_quorate_methods", {})

    def __getattr__(self, name: str) -> Any:
        method = self._quorate_methods.get(name)
        if method is None:
            flow: Flow = self._quorate_flow
            check_method(flow.cls, name)
            method = self._quorate_methods[name] = self._method_class(flow, name)
        return method

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{name}: call a method to change a replicated object")

    def __repr__(self) -> str:
        cls = self._quorate_flow.cls
        return f"<replicated {cls.__name__ if cls else 'object'}>"


def check_method(cls: type | None, name: str) -> None:
    """Refuse a method that can never be called, before anything is sent."""
    shown = cls.__name__ if cls else "the object"
    if name.startswith("_"):
        raise NoSuchMethod(f"`{name}` of {shown} is private: only public methods can be called")
    if cls is not None and not callable(getattr(cls, name, None)):
        kind = "is not a method" if hasattr(cls, name) else "does not exist"
        raise NoSuchMethod(f"{shown}.{name} {kind}: only public methods can be called")


def flow_of(proxy: object) -> Flow:
    """The flow behind a proxy."""
    if not isinstance(proxy, Proxy):
        raise TypeError(f"{type(proxy).__name__} is not a replicated object: use what quorate.connect gives")
    return cast(Flow, proxy._quorate_flow)


def with_options(proxy: T, options: Options) -> T:
    """Another proxy of the same object."""
    flow = flow_of(proxy)
    return cast(T, type(cast(Any, proxy))(Flow(flow.client, flow.cls, options, flow.proven)))


def reading(proxy: T, *, level: Level = "confirmed") -> T:
    """A proxy whose calls are reads: one replica executes them, and they must change nothing.

    >>> reading(7)
    Traceback (most recent call last):
    ...
    TypeError: int is not a replicated object: use what quorate.connect gives
    """
    return with_options(proxy, dataclasses.replace(flow_of(proxy).options, level=level))


def weak(proxy: T) -> T:
    """A proxy whose calls read the state of the connected replica, possibly stale: see `freshness`.

    >>> weak(7)
    Traceback (most recent call last):
    ...
    TypeError: int is not a replicated object: use what quorate.connect gives
    """
    return reading(proxy, level="any")


def freshness(proxy: object) -> Freshness:
    """Slot and age of the newest read through this proxy.

    >>> freshness(7)
    Traceback (most recent call last):
    ...
    TypeError: int is not a replicated object: use what quorate.connect gives
    """
    return flow_of(proxy).freshness
