"""All objects of a group: created and dropped while it runs, and found by name, over one session."""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
import os
import sys
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar, cast, overload

from quorate import _names, _native, _spans
from quorate._connect import CONNECT_SECONDS, SESSION_SECONDS, AsyncProxy, check_class, session_options
from quorate._directory import NUMBER, Directory
from quorate._errors import OtherClass, QuorateError
from quorate._futures import loop_end
from quorate._local import class_path
from quorate._options import Level, Options, Tls, level_of
from quorate._proxy import Flow, Origin, Proxy

T = TypeVar("T")
P = ParamSpec("P")


@dataclasses.dataclass(frozen=True, slots=True)
class Creation:
    """How objects are created; see `Group.creating`."""

    ttl: float | None = None
    readonly: tuple[str, ...] = ()
    reads: Level = "confirmed"

    @classmethod
    def of(cls, ttl: float | None, readonly: Sequence[str], reads: Level) -> Creation:
        """These, if they can be meant."""
        if ttl is not None:
            _spans.nanoseconds("ttl", ttl)
        if isinstance(readonly, str) or not all(isinstance(name, str) for name in readonly):
            raise TypeError(f'readonly are names of methods, such as ["look"], not {readonly!r:.80}')
        return cls(ttl, tuple(readonly), level_of(reads))

    def by(self, create: Any, cls: Any, name: str, given: tuple[Any, Any], *, is_new: bool) -> Any:
        """Call `Directory.create` for a class or its MODULE:CLASS, and the arguments given to it."""
        path = cls if isinstance(cls, str) else class_path(_names.class_of(cls))
        args, kwargs = given
        arguments = _native.dumps([list(args), dict(kwargs)])
        options = {"readonly": list(self.readonly), "reads": self.reads, "ttl": self.ttl}
        return create(name, path, arguments, **options, is_new=is_new)


class Group:
    """The objects of a group. Made by `quorate.group`; its proxies share one session, which `close` ends.

    >>> Group.get_or_create.__doc__.splitlines()[0]
    'Return an object, created with these arguments if the group has none of that name.'
    """

    def __init__(self, client: _native.Client, origin: Origin, creation: Creation | None = None) -> None:
        self._client = client
        self._origin = origin
        self._creation = creation or Creation()
        self._directory = cast(Directory, Proxy(Flow(client.beside(NUMBER), Directory, Options())))

    def creating(
        self, *, ttl: float | None = None, readonly: Sequence[str] = (), reads: Level = "confirmed"
    ) -> Group:
        """Return this group, with other options for what is created through it.

        After `ttl` seconds of agreed time the object is dropped. `readonly` are methods that change nothing,
        which the class does not say. `reads` is the level at which they are read, and all others that change
        nothing, by clients that ask for no other one.
        """
        return Group(self._client, self._origin, Creation.of(ttl, readonly, reads))

    def create(self, cls: Callable[P, T], name: str, /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Create an object on all replicas, and return its proxy.

        The class must be importable on every node, from where the group was started. Names are paths, as
        `jobs/queue-1`. One command creates it: either all replicas have it, or nothing has changed.

        Raises NameTaken when there is one, NotReplicable when the class cannot be found, its constructor
        raises, or its state cannot be kept, and Overloaded when the group has 10,000.
        """
        return cast(T, self._create(cls, name, (args, kwargs), is_new=True))

    def get_or_create(self, cls: Callable[P, T], name: str, /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Return an object, created with these arguments if the group has none of that name.

        Raises NameTaken when that one was created otherwise.
        """
        return cast(T, self._create(cls, name, (args, kwargs), is_new=False))

    @overload
    def get(self, name: str, cls: type[T]) -> T: ...
    @overload
    def get(self, name: str) -> Any: ...
    def get(self, name: str, cls: type[Any] | None = None) -> Any:
        """Return the proxy of an object; `cls` gives editors and type checkers its methods.

        Raises NotFound when the group has none of that name, and OtherClass when it is not of that class.
        """
        found = self._directory.find(name)
        _expect(cls, found[1], name)
        return self._proxy(found, name, cls)

    def drop(self, name: str) -> None:
        """Drop an object with its state. Calls that wait at it raise ObjectDropped, later ones NotFound."""
        self._directory.drop(name)

    def objects(self) -> dict[str, str]:
        """Return the classes of all objects, as MODULE:CLASS, by name."""
        return {name: path for name, path in self._directory.names()}

    def describe(self, name: str) -> dict[str, Any]:
        """Return what is known of an object: class, methods, who holds what of it, and what waits at it.

        What an object says of its holders is its method `__quorate_holders__`, which returns a list of
        `Holder`; the locks and such of `quorate.objects` have one.
        """
        return self._directory.describe(name)

    def close(self) -> None:
        """End the session."""
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _create(self, cls: Any, name: str, given: tuple[Any, Any], *, is_new: bool) -> Any:
        found = self._creation.by(self._directory.create, cls, name, given, is_new=is_new)
        return self._proxy(found, name, None if isinstance(cls, str) else cls)

    def _proxy(self, found: Sequence[Any], name: str, cls: Any) -> Any:
        origin = dataclasses.replace(self._origin, endpoint=f"{self._origin.endpoint}/{name}")
        number, _, _, reads = found
        flow = Flow(self._client.beside(number, reads), check_class(cls), Options(), origin)
        flow.ask()
        return Proxy(flow)


def group(
    endpoint: str,
    /,
    *,
    timeout: float = CONNECT_SECONDS,
    tls: Tls | None = None,
    session_timeout: float = SESSION_SECONDS,
    session_on_disconnect: float | str | None = None,
    resume: str | os.PathLike[str] | None = None,
) -> Group:
    """Connect to a group, to create, find and drop its objects. The options are those of `connect`.

    ::

        with quorate.group("quorate://127.0.0.1:7400") as group:
            jobs = group.get_or_create(Queue, "jobs/queue-1")
            jobs.put("wash")

    >>> group("127.0.0.1:7400")
    Traceback (most recent call last):
    ...
    ValueError: '127.0.0.1:7400' is not an endpoint: write quorate://host:port/Object
    """
    session = session_options(session_timeout, session_on_disconnect, resume)
    check_class(None, timeout)
    client = _native.Client(endpoint, timeout, None, session=session, tls=tls.paths if tls else None)
    origin = Origin(_of_group(endpoint), timeout, tls, session_timeout, session_on_disconnect)
    return Group(client, origin)


class AsyncGroup:
    """The asyncio twin of `Group`; made by `quorate.agroup`, opened and closed by `async with`.

    >>> hasattr(AsyncGroup, "get_or_create")
    True
    """

    def __init__(
        self, endpoint: str, timeout: float, tls: Tls | None, session: _native.SessionOptions
    ) -> None:
        self._arguments = (endpoint, timeout, tls, session)
        self._creation = Creation()
        self._client: _native.Client | None = None
        self._open: Any = None

    def creating(
        self, *, ttl: float | None = None, readonly: Sequence[str] = (), reads: Level = "confirmed"
    ) -> AsyncGroup:
        """Return this group, with other options for what is created through it; see `Group.creating`."""
        other = AsyncGroup(*self._arguments)
        other._creation = Creation.of(ttl, readonly, reads)
        other._client, other._open = self._client, self._open
        return other

    async def create(self, cls: Any, name: str, /, *args: Any, **kwargs: Any) -> Any:
        """Create an object on all replicas, and return its proxy; see `Group.create`."""
        return await self._create(cls, name, (args, kwargs), is_new=True)

    async def get_or_create(self, cls: Any, name: str, /, *args: Any, **kwargs: Any) -> Any:
        """Return an object, created with these arguments if the group has none of that name."""
        return await self._create(cls, name, (args, kwargs), is_new=False)

    async def get(self, name: str, cls: type | None = None) -> Any:
        """Return the proxy of an object; see `Group.get`."""
        found = await self._directory.find(name)
        _expect(cls, found[1], name)
        return self._proxy(found, cls)

    async def drop(self, name: str) -> None:
        """Drop an object with its state; see `Group.drop`."""
        await self._directory.drop(name)

    async def objects(self) -> dict[str, str]:
        """Return the classes of all objects, as MODULE:CLASS, by name."""
        return {name: path for name, path in await self._directory.names()}

    async def describe(self, name: str) -> dict[str, Any]:
        """Return what is known of an object; see `Group.describe`."""
        described: dict[str, Any] = await self._directory.describe(name)
        return described

    async def __aenter__(self) -> Self:
        endpoint, timeout, tls, session = self._arguments
        loop = asyncio.get_running_loop()
        opened = loop.create_future()
        paths = tls.paths if tls else None
        end = loop_end(loop)
        client = _native.Client.open(end, opened, endpoint, timeout, None, session=session, tls=paths)
        try:
            await opened
            self._open = AsyncProxy(Flow(client.beside(NUMBER), Directory, Options()))
        except BaseException:
            client.close()
            raise
        self._client = client
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._client is not None:
            self._client.close()

    async def _create(self, cls: Any, name: str, given: tuple[Any, Any], *, is_new: bool) -> Any:
        found = await self._creation.by(self._directory.create, cls, name, given, is_new=is_new)
        return self._proxy(found, None if isinstance(cls, str) else cls)

    @property
    def _directory(self) -> Any:
        if self._open is None:
            raise QuorateError("the group is not open: use it inside of `async with quorate.agroup(...)`")
        return self._open

    def _proxy(self, found: Sequence[Any], cls: Any) -> Any:
        assert self._client is not None, "the directory was asked"
        number, _, _, reads = found
        flow = Flow(self._client.beside(number, reads), check_class(cls), Options())
        flow.ask()
        return AsyncProxy(flow)


def agroup(
    endpoint: str,
    /,
    *,
    timeout: float = CONNECT_SECONDS,
    tls: Tls | None = None,
    session_timeout: float = SESSION_SECONDS,
    session_on_disconnect: float | str | None = None,
    resume: str | os.PathLike[str] | None = None,
) -> AsyncGroup:
    """Return the asyncio twin of `group`.

    ::

        async with quorate.agroup("quorate://127.0.0.1:7400") as group:
            jobs = await group.get_or_create(Queue, "jobs/queue-1")
            await jobs.put("wash")

    >>> agroup("quorate://127.0.0.1:7400")  # doctest: +ELLIPSIS
    <quorate.AsyncGroup object at ...>
    """
    check_class(None, timeout)
    session = session_options(session_timeout, session_on_disconnect, resume)
    return AsyncGroup(endpoint, timeout, tls, session)


def _expect(cls: Any, path: str, name: str) -> None:
    """Raise OtherClass unless an object of the class at `path`, MODULE:CLASS, may be meant by `cls`.

    Meant by its name is the class itself, and one that `quorate proxy` wrote of it. An abstract class, a
    protocol and a base class of a class that is imported here say what the object can do.
    """
    asked = _names.class_of(cls)
    module, _, given = path.partition(":")
    qualified = given.partition("[")[0]
    if not isinstance(asked, type) or module == "rust" or asked.__name__ == qualified.rpartition(".")[2]:
        return
    found: Any = sys.modules.get(module)
    for step in qualified.split("."):
        found = getattr(found, step, None)
    is_one = isinstance(found, type) and asked in found.__mro__
    if is_one or inspect.isabstract(asked) or getattr(asked, "_is_protocol", False):
        return
    told = f"the object {name!r} is a {path}, and no {asked.__module__}:{asked.__qualname__}"
    told += f": give its own class, or none; import {module} before if that derives it"
    raise OtherClass(told if found is None else told.partition("; import")[0])


def _of_group(endpoint: str) -> str:
    """An endpoint without the name of an object."""
    scheme, mark, rest = endpoint.partition("://")
    return f"{scheme}{mark}{rest.partition('/')[0]}"


for _class in (Group, AsyncGroup):
    _class.__module__ = "quorate"
