"""Special methods of proxies: `len(queue)`, `queue[0]`, `a < b`, `with lock:` ask the object.

The interpreter looks for them at the type, so each replicated class has a proxy class of its own, made on
first use. Results that the interpreter wants at once (`len`, `in`, `if`) cannot be awaited: proxies of
asyncio refuse these, and name the way that can be.
"""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Generator
from typing import TYPE_CHECKING, Any

from quorate import _data_model as names
from quorate._errors import UnsupportedValue

if TYPE_CHECKING:
    from quorate._proxy import Method, Proxy

CLASSES_MAX = 256
"""Proxy classes that are kept."""


def class_for(base: type[Proxy], cls: type | None) -> type[Proxy]:
    """The class of the proxies of a class.

    Proxies beside another one are of its class, also where that is kept no more, or where another thread
    has made a class too: the interpreter initialises none of an unrelated class.
    """
    if cls is not None and vars(base).get("_quorate_class") is cls:
        return base
    root: type[Proxy] = next(kind for kind in base.__mro__ if "_method_class" in vars(kind))
    made: Any = _made
    return root if cls is None else made(root, cls)


@functools.lru_cache(CLASSES_MAX)
def _made(root: Any, cls: type) -> Any:
    is_async = root._is_async
    defined = names.special_of(cls)
    special: dict[str, Any] = {name: (_awaited if is_async else _called)(name) for name in defined}
    if is_async:
        # Seen before those of the type by who asks for them by name, and never by the interpreter.
        special |= {"__slots__": ("__dict__",), "_quorate_special": tuple(defined)}
        if "__aiter__" in defined or "__iter__" in defined:
            special["__aiter__"] = _iterate_async
        if "__aenter__" in defined or "__enter__" in defined:
            special |= {"__aenter__": _enter_async, "__aexit__": _leave_async}
    space = {
        "__slots__": (),
        "_quorate_class": cls,
        "__doc__": cls.__doc__,
        "__module__": "quorate",
        "__hash__": object.__hash__,
        **{name: member for name, member in special.items() if member is not None},
    }
    return type(root)(f"{root.__name__} of {cls.__name__}", (root,), space)


def _called(name: str) -> Callable[..., Any] | None:
    """What a proxy does that waits for the answer."""
    if name in names.COMPARISONS | names.OPERATORS | names.IN_PLACE:
        return _operator(name)
    if name in ("__iter__", "__reversed__"):
        return _iterator(name)
    if name == "__exit__":
        return _leave
    if name in ("__aenter__", "__aexit__", "__aiter__"):
        return None

    def special(self: Proxy, /, *args: Any, **kwargs: Any) -> Any:
        return self._quorate_flow.call(name, args, kwargs)

    return _named(special, name)


def _operator(name: str) -> Callable[[Proxy, Any], Any]:
    def special(self: Proxy, other: Any, /, *rest: Any) -> Any:
        if other is self and name in ("__eq__", "__ne__"):
            return name == "__eq__"
        try:
            return self._quorate_flow.call(name, (other, *rest), {})
        except UnsupportedValue:
            # As an operator of the class would answer that does not know the other operand.
            return NotImplemented

    return _named(special, name)


def _iterator(name: str) -> Callable[[Proxy], Any]:
    def special(self: Proxy) -> Any:
        items = self._quorate_flow.call(name, (), {})
        # An object that is its own iterator goes on at the next call; all others give a copy.
        return items if items is self else iter(items)

    return _named(special, name)


def _leave(self: Proxy, kind: Any, error: BaseException | None, trace: Any) -> Any:
    return self._quorate_flow.call("__exit__", (error,), {})


def _named(special: Callable[..., Any], name: str) -> Callable[..., Any]:
    special.__name__ = special.__qualname__ = name
    return special


class Pending:
    """A call that is made when it is awaited."""

    __slots__ = ("_args", "_method")

    def __init__(self, method: Method, args: tuple[Any, ...] = ()) -> None:
        self._method = method
        self._args = args

    def __await__(self) -> Generator[Any, None, Any]:
        result: Generator[Any, None, Any] = self._method(*self._args).__await__()
        return result

    def __bool__(self) -> bool:
        raise TypeError(f"the answer of `{self._method.name}` is not there yet: write `await` before it")

    def __repr__(self) -> str:
        return f"<not awaited: {self._method.name}>"


_SHOWN = {
    **{"__len__": "len()", "__bool__": "a truth value", "__contains__": "`in`", "__iter__": "`for`"},
    **{"__setitem__": "assigning an item", "__delitem__": "`del`", "__enter__": "`with`"},
    **{"__reversed__": "reversed()", "__next__": "next()"},
}

_WAYS = {"__iter__": "`async for`", "__enter__": "`async with`", "__exit__": "`async with`"}


def _awaited(name: str) -> Callable[..., Any] | None:
    """What a proxy of asyncio does."""
    if name in ("__str__", "__format__", "__bytes__", "__aenter__", "__aexit__", "__aiter__"):
        return None
    is_awaitable = name in names.COMPARISONS | names.OPERATORS | names.UNARY or name in (
        "__getitem__",
        "__call__",
    )
    if not is_awaitable:
        return _refusal(name)

    def special(self: Proxy, /, *args: Any, **kwargs: Any) -> Any:
        method = self._method_class(self._quorate_flow, name)
        return method(*args, **kwargs) if name == "__call__" else Pending(method, args)

    return _named(special, name)


def _refusal(name: str) -> Callable[..., Any]:
    shown = _SHOWN.get(name, f"`{name}`")
    way = _WAYS.get(name, f"`await proxy.{name}({'...' if name in names.IN_PLACE else ''})`")

    def special(self: Proxy, /, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(f"{shown} cannot be awaited: use {way} with this proxy of asyncio")

    return _named(special, name)


async def _iterate_async(self: Proxy) -> AsyncIterator[Any]:
    name = "__iter__" if "__iter__" in vars(type(self))["_quorate_special"] else "__aiter__"
    items = await Pending(self._method_class(self._quorate_flow, name))
    if items is self:
        raise TypeError("an object that is its own iterator: use `await proxy.__next__()`")
    for item in items:
        yield item


async def _enter_async(self: Proxy) -> Any:
    name = "__aenter__" if "__aenter__" in vars(type(self))["_quorate_special"] else "__enter__"
    return await Pending(self._method_class(self._quorate_flow, name))


async def _leave_async(self: Proxy, kind: Any, error: BaseException | None, trace: Any) -> Any:
    name = "__aexit__" if "__aexit__" in vars(type(self))["_quorate_special"] else "__exit__"
    return await Pending(self._method_class(self._quorate_flow, name), (error,))
