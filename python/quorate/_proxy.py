"""The typed proxy of an object: methods, attributes and special methods look local, and ask the object."""

from __future__ import annotations

import contextlib
import dataclasses
import dis
import inspect
import weakref
from concurrent.futures import Future
from typing import Any, ClassVar, TypeVar, cast

from quorate import _data_model as names
from quorate import _native, _special
from quorate._errors import NoSuchMethod, NotReadOnly, QuorateError, StoredMethod
from quorate._options import Freshness, Level, Options, Tls
from quorate._rare_values import ITSELF

T = TypeVar("T")


_WHICH_READ = "__quorate_reads__"
"""A read of this name asks the host which methods are reads; no public method has it."""


@dataclasses.dataclass(frozen=True, slots=True)
class Origin:
    """What a connection was made from: enough to make it again in another process."""

    endpoint: str
    timeout: float
    tls: Tls | None


class Flow:
    """The path of every call, whether a thread, a future or an event loop waits for it.

    The host is asked once which methods change nothing, and nobody waits for its answer: until it comes, and
    when it does not, only declared methods are read.
    """

    __slots__ = ("client", "cls", "freshness", "kind", "options", "origin", "proven", "proxy")

    def __init__(
        self, client: _native.Client, cls: type | None, options: Options, origin: Origin | None = None
    ) -> None:
        self.client = client
        self.cls = cls
        self.options = options
        self.origin = origin
        self.freshness = Freshness(0, 0.0)
        self.proven: set[str] = set()
        # The proxy of this flow, which stands in the place of results that are the object itself.
        self.proxy: weakref.ref[Proxy] | None = None
        self.kind: type[Proxy] = Proxy

    def beside(self, options: Options) -> Flow:
        """Another path through the same session."""
        flow = Flow(self.client, self.cls, options, self.origin)
        flow.proven = self.proven
        return flow

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
        if self.options.level is None and (method in self.proven or names.is_readonly(self.cls, method)):
            return "confirmed"
        return self.options.level

    def is_taken_back(self, method: str, level: Level | None, error: BaseException | None) -> bool:
        """Whether the host no longer takes for a read what was called as one for its word only."""
        is_at_its_word = (
            level is not None and self.options.level is None and not names.is_readonly(self.cls, method)
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
            level = None
            value, slot, age = self.client.call(method, args, kwargs, None)
        if level is not None:
            self.freshness = Freshness(slot, age / 1e9)
        return self.itself() if value is ITSELF else value

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
                if isinstance(error, StopIteration) and self.kind._is_async:
                    # No future of asyncio takes the other one.
                    error = StopAsyncIteration(error.value)
                future.set_exception(error)
            else:
                if slot:
                    self.freshness = Freshness(slot, age / 1e9)
                future.set_result(self.itself() if value is ITSELF else value)

        self.client.begin(method, args, kwargs, level, done)
        return future

    def itself(self) -> Proxy:
        """The proxy; another one if nobody holds it any more."""
        proxy = self.proxy() if self.proxy is not None else None
        return self.kind(self) if proxy is None else proxy


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

    # What editors and `help` ask for is told as the class has it.

    @property
    def __name__(self) -> str:
        return self.name

    @property
    def __doc__(self) -> str | None:  # type: ignore[override]
        return getattr(getattr(self.flow.cls, self.name, None), "__doc__", None)

    @property
    def __signature__(self) -> inspect.Signature:
        cls = self.flow.cls
        member = inspect.getattr_static(cls, self.name, None) if cls is not None else None
        if member is None:
            raise AttributeError("the class is not known")
        bind = getattr(type(member), "__get__", None)
        return inspect.signature(member if bind is None else bind(member, object(), cls))


class Proxy:
    """Stands for an object: its public names, and the special methods that its class defines."""

    __slots__ = ("__weakref__", "_quorate_flow", "_quorate_methods")

    _quorate_flow: Flow
    _quorate_methods: dict[str, Method]
    _method_class: ClassVar[type[Method]] = Method
    _is_async: ClassVar[bool] = False

    def __new__(cls, flow: Flow) -> Proxy:
        """Of a class of its own for each replicated class, which has the special methods."""
        return object.__new__(_special.class_for(cls, flow.cls))

    def __init__(self, flow: Flow) -> None:
        object.__setattr__(self, "_quorate_flow", flow)
        object.__setattr__(self, "_quorate_methods", {})
        flow.proxy, flow.kind = weakref.ref(self), type(self)
        for name in getattr(type(self), "_quorate_special", ()):
            vars(self)[name] = self._method_class(flow, name)

    def __getattr__(self, name: str) -> Any:
        method = self._quorate_methods.get(name)
        if method is None:
            flow = self._quorate_flow
            check_name(flow.cls, name)
            if flow.cls is not None and not name.startswith("_"):
                member = inspect.getattr_static(flow.cls, name, None)
                if isinstance(member, type):
                    return member
                if names.kind_of(flow.cls, name) != "method":
                    try:
                        return self._quorate_read("." + name)
                    except StoredMethod:
                        pass
            method = self._quorate_methods[name] = self._method_class(flow, name)
        return method

    def _quorate_read(self, name: str) -> Any:
        """The value of an attribute: of a plain one as a read, of a property as its class declares it."""
        return self._quorate_flow.call(name, (), {})

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(_not_assigned(self._quorate_flow.cls, name))

    def __delattr__(self, name: str) -> None:
        raise AttributeError(_not_assigned(self._quorate_flow.cls, name))

    def __dir__(self) -> list[str]:
        cls = self._quorate_flow.cls
        return sorted(object.__dir__(self) if cls is None else {*_names_of(cls), *_special_of(cls)})

    def __copy__(self) -> Proxy:
        flow = self._quorate_flow
        return type(self)(flow.beside(flow.options))

    def __deepcopy__(self, memo: dict[int, Any]) -> Proxy:
        return self.__copy__()

    def __reduce__(self) -> tuple[Any, ...]:
        flow = self._quorate_flow
        if self._is_async or flow.origin is None:
            raise TypeError(f"{self!r} cannot be pickled: send its endpoint, and connect there")
        return _reconnected, (flow.origin, flow.cls, flow.options)

    def __repr__(self) -> str:
        cls = self._quorate_flow.cls
        return f"<replicated {cls.__name__ if cls else 'object'}>"


def _reconnected(origin: Origin, cls: type | None, options: Options) -> Any:
    """A proxy that was pickled: a session of its own with the same object."""
    from quorate._connect import connect  # noqa: PLC0415  (it needs this module)

    classes: list[Any] = [] if cls is None else [cls]
    proxy: Any = connect(origin.endpoint, *classes, timeout=origin.timeout, tls=origin.tls).proxy
    return with_options(proxy, options)


def _not_assigned(cls: type | None, name: str) -> str:
    way = f"set_{name}"
    if cls is not None and not hasattr(cls, way):
        way = f"def {way}(self, {name})"
    return (
        f"`{name}` of a replicated object cannot be assigned here, for all replicas must change it in the "
        f"same order: call a method that does it, such as `{way}`"
    )


def _names_of(cls: type) -> set[str]:
    """Public names of the class, with the attributes that it declares or that its `__init__` assigns."""
    found = {name for base in cls.__mro__ for name in (*vars(base), *vars(base).get("__annotations__", ()))}
    code = getattr(vars(cls).get("__init__"), "__code__", None)
    if code is not None:
        found |= {step.argval for step in dis.get_instructions(code) if step.opname == "STORE_ATTR"}
    return {name for name in found if not name.startswith("_")}


def _special_of(cls: type) -> set[str]:
    return {name for name in names.SPECIAL if names.defines(cls, name)}


def check_name(cls: type | None, name: str) -> None:
    """Refuse a name that can never be called or read, before anything is sent."""
    if name.startswith("_") and (cls is not None or name not in names.SPECIAL):
        shown = cls.__name__ if cls else "the object"
        raise NoSuchMethod(f"`{name}` of {shown} is private: only public methods can be called")


def flow_of(proxy: object) -> Flow:
    """The flow behind a proxy."""
    if not isinstance(proxy, Proxy):
        raise TypeError(f"{type(proxy).__name__} is not a replicated object: use what quorate.connect gives")
    return proxy._quorate_flow


def with_options(proxy: T, options: Options) -> T:
    """Another proxy of the same object."""
    flow = flow_of(proxy)
    return cast(T, type(cast(Any, proxy))(flow.beside(options)))


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
