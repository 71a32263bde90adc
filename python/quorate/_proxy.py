"""The typed proxy of an object: methods, attributes and special methods look local, and ask the object."""

from __future__ import annotations

import contextlib
import dataclasses
import dis
import inspect
import weakref
from concurrent.futures import Future
from types import EllipsisType
from typing import Any, ClassVar, Self, TypeVar, cast

from quorate import _data_model as names
from quorate import _labels, _native, _special
from quorate._errors import NoSuchMethod, QuorateError, StoredMethod
from quorate._options import Freshness, Level, Options, Tls

T = TypeVar("T")


_WHICH_READ = "__quorate_reads__"
"""A read of this name asks the host which methods are reads; no public method has it."""


@dataclasses.dataclass(frozen=True, slots=True)
class Origin:
    """What a connection was made from: enough to make it again in another process."""

    endpoint: str
    timeout: float
    tls: Tls | None
    session_timeout: float
    session_on_disconnect: float | str | None = None
    weak: bool = False


class Flow:
    """The path of every call, whether a thread, a future or an event loop waits for it.

    The host is asked once which methods change nothing, and nobody waits for its answer: until it comes, and
    when it does not, only declared methods are read.
    """

    __slots__ = ("client", "cls", "kind", "options", "origin", "proven", "proxy", "route")

    def __init__(
        self,
        client: _native.Client,
        cls: type | None,
        options: Options,
        origin: Origin | None = None,
        proven: set[str] | None = None,
    ) -> None:
        self.client = client
        self.cls = cls
        self.options = options
        self.origin = origin
        self.proven: set[str] = set() if proven is None else proven
        # A proxy without a connection shows its methods all the same.
        self.route = self._route(options) if client else None
        # The proxy of this flow, which stands in the place of results that are the object itself.
        self.proxy: weakref.ref[Proxy] | None = None
        self.kind: type[Proxy] = Proxy

    def _route(self, options: Options) -> _native.Route:
        timeout, retry, session = options.timeout, options.retry, options.session
        return _native.Route(self.client, timeout, retry, session, self.proven)

    def beside(self, options: Options) -> Flow:
        """Another path through the same session."""
        return Flow(self.client, self.cls, options, self.origin, self.proven)

    def ask(self) -> None:
        """Ask which methods are reads."""

        def answered(future: Future[Any]) -> None:
            # Nodes of earlier builds have no such list for objects in Rust.
            if not future.cancelled() and future.exception() is None and isinstance(future.result(), list):
                self.proven.update(future.result())

        # On a route of its own: it says nothing about the freshness of what the user reads.
        route = _native.Route(self.client, None, True, None, set())
        with contextlib.suppress(QuorateError):
            _native.Method(route, _WHICH_READ, "any").begin((), None).add_done_callback(answered)

    def level_of(self, method: str) -> Level | None:
        """The level of a method; None: it is called, or read while the host says that it is a read."""
        if self.options.level is None and names.is_readonly(self.cls, method):
            return cast(Level, self.client.reads) if self.client else "confirmed"
        return self.options.level

    def call(self, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call and wait."""
        return Method(self, method)(*args, **kwargs)

    @property
    def freshness(self) -> Freshness:
        """Slot and age of the newest read."""
        slot, age = self.route.freshness() if self.route else (0, 0)
        return Freshness(slot, age / 1e9)

    def itself(self) -> Proxy:
        """The proxy; another one if nobody holds it any more."""
        proxy = self.proxy() if self.proxy is not None else None
        return self.kind(self) if proxy is None else proxy


class Method(_native.Method):
    """One method of one proxy: called, it waits."""

    __slots__ = ("flow",)

    flow: Flow
    _labelled: ClassVar[type[Method]]

    def __new__(cls, flow: Flow, name: str) -> Self:
        """The method of that name, at the level at which it is called."""
        takes_label = _labels.parameter_of(flow.cls, name) is not None
        kind = cast(type[Self], cls._labelled) if takes_label else cls
        method = super().__new__(kind, flow.route, name, flow.level_of(name))
        method.flow = flow
        return method

    def itself(self) -> Proxy:
        """What the caller gets where the method returned the object."""
        return self.flow.itself()

    def telling(self, label: int | None) -> dict[str, Any]:
        """The arguments that tell the object who calls: none, unless the method takes a label."""
        return {}

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


class LabelledMethod(Method):
    """A method that is given the label of the thread that calls, unless the call names another one."""

    __slots__ = ()

    def telling(self, label: int | None) -> dict[str, Any]:
        """The label, under the name of its parameter."""
        return {cast(str, _labels.parameter_of(self.flow.cls, self.name)): label}

    def _label(self) -> int | None:
        return _labels.thread_label()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return super().__call__(*args, **{**self.telling(self._label()), **kwargs})

    def begin(self, args: tuple[Any, ...], kwargs: dict[str, Any] | None) -> Any:
        """As of every method."""
        return super().begin(args, {**self.telling(self._label()), **(kwargs or {})})


Method._labelled = LabelledMethod


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
        return sorted(object.__dir__(self) if cls is None else {*_names_of(cls), *names.special_of(cls)})

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
    proxy: Any = connect(
        origin.endpoint,
        *classes,
        timeout=origin.timeout,
        tls=origin.tls,
        session_timeout=origin.session_timeout,
        session_on_disconnect=origin.session_on_disconnect,
        weak=origin.weak,
    ).proxy
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


def options(
    proxy: T,
    *,
    timeout: float | EllipsisType | None = ...,
    level: Level | EllipsisType | None = ...,
    retry: bool | EllipsisType = ...,
) -> T:
    """A proxy of the same object whose calls have other options; what is not named stays as it is.

    `timeout` is in seconds, None for that of the connection. `level` makes calls reads (see `reading`), None
    makes them calls. With `retry=False` a call is sent once: a refusal for the moment, or the loss of its
    connection, ends it at once instead of at its timeout.

    >>> options(7, timeout=0.5)
    Traceback (most recent call last):
    ...
    TypeError: int is not a replicated object: use what quorate.connect gives

    Raises ValueError and TypeError for options that do not exist.
    """
    named = {"timeout": timeout, "level": level, "retry": retry}
    changed: dict[str, Any] = {name: value for name, value in named.items() if value is not ...}
    return with_options(proxy, dataclasses.replace(flow_of(proxy).options, **changed))


def reading(proxy: T, *, level: Level = "confirmed") -> T:
    """A proxy whose calls are reads: one replica executes them, and they must change nothing.

    Of the linearizable levels `confirmed` shares its messages with other reads, `broadcast` takes one
    message delay less, because the client tells every node of each read, and `lease` asks nobody while
    clocks are good.

    >>> reading(7, level="broadcast")
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
