"""What of an object is reached by name, beside public methods: attributes and special methods of its class.

Host and proxy both ask here. Special methods are those of this list and no others: whatever leads to the
class, its functions or the interpreter (`__class__`, `__dict__`, `__init__`, `__reduce__`) is not on it.
A name that begins with a dot, `.balance`, asks for the attribute's value.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any, Literal

from quorate import _native, _options
from quorate._errors import NoSuchMethod, NotReadOnly, StoredMethod

COMPARISONS = frozenset({"__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"})

_OPERATORS = (
    *("add", "sub", "mul", "matmul", "truediv", "floordiv", "mod", "divmod", "pow"),
    *("lshift", "rshift", "and", "xor", "or"),
)

OPERATORS = frozenset(f"__{side}{name}__" for name in _OPERATORS for side in ("", "r"))

IN_PLACE = frozenset(f"__i{name}__" for name in _OPERATORS if name != "divmod")

UNARY = frozenset({"__neg__", "__pos__", "__abs__", "__invert__"})

CONVERSIONS = frozenset(
    f"__{name}__"
    for name in (
        *("bool", "int", "float", "complex", "index", "round", "trunc", "floor", "ceil"),
        *("str", "format", "bytes", "len", "length_hint"),
    )
)

CONTAINER = frozenset(
    f"__{name}__"
    for name in ("getitem", "setitem", "delitem", "contains", "iter", "next", "reversed", "call")
)

BLOCKS = frozenset({"__enter__", "__exit__", "__aenter__", "__aexit__", "__aiter__"})

SPECIAL = COMPARISONS | OPERATORS | IN_PLACE | UNARY | CONVERSIONS | CONTAINER | BLOCKS

Kind = Literal["method", "plain", "computed"]

ON_SESSION_END = "on_session_end"
"""What an object does when the session of a caller that it knows is over. No caller may name it."""


def defines(cls: type, name: str) -> bool:
    """Whether the class, or one that it extends, defines a special method that can be called.

    >>> defines(list, "__len__"), defines(int, "__len__"), defines(list, "__class__")
    (True, False, False)
    """
    if name not in SPECIAL:
        return False
    if name == "__iter__" and not _found(cls, "__iter__")[0]:
        # What has places has an order.
        return _found(cls, "__getitem__")[1] is not None
    return _found(cls, name)[1] is not None


def special_of(cls: type) -> list[str]:
    """The special methods that objects of the class have."""
    return [name for name in sorted(SPECIAL) if defines(cls, name)]


def computed_of(cls: type) -> list[str]:
    """The properties of the class, as they are asked for."""
    names = [name for name in dir(cls) if not name.startswith("_")]
    return [f".{name}" for name in names if isinstance(_found(cls, name)[1], property)]


def _found(cls: type, name: str) -> tuple[bool, Any]:
    """Whether the class has the name, and what it has; what every object has does not count."""
    for base in cls.__mro__:
        if base is not object and name in vars(base):
            return True, vars(base)[name]
    return False, None


def kind_of(cls: type, name: str) -> Kind:
    """What a public name of an object stands for, as far as its class tells.

    >>> kind_of(complex, "conjugate"), kind_of(complex, "real"), kind_of(Exception, "balance")
    ('method', 'plain', 'plain')
    """
    has, member = _found(cls, name)
    asks_code = isinstance(_found(cls, "__getattribute__")[1], types.FunctionType)
    if not has:
        return "computed" if asks_code or _found(cls, "__getattr__")[0] else "plain"
    if not isinstance(member, type) and callable(getattr(cls, name, None)):
        return "method"
    is_stored = isinstance(member, types.MemberDescriptorType | types.GetSetDescriptorType)
    is_computed = hasattr(type(member), "__get__") and not is_stored
    return "computed" if is_computed or asks_code else "plain"


def is_readonly(cls: type | None, name: str) -> bool:
    """Whether it is known that a method, or what computes an attribute, changes nothing."""
    if not name.startswith("."):
        return _options.is_readonly(cls, name)
    if cls is None:
        return False
    if kind_of(cls, name[1:]) == "plain":
        return True
    member = _found(cls, name[1:])[1]
    # A cached property writes what it has computed.
    return isinstance(member, property) and _options.is_readonly(cls, name[1:])


def way_of(cls: type, name: str) -> Callable[..., Any] | None:
    """What to call, with the object first, for a name that a caller sent; None for a method of that name.

    >>> way_of(list, "__class__")
    Traceback (most recent call last):
    ...
    quorate.NoSuchMethod: list has no public method `__class__`
    """
    if name.startswith("."):
        return _reader_of(cls, name[1:])
    if name == "__iter__" and defines(cls, name):
        return iter
    if name in ("__exit__", "__aexit__") and defines(cls, name):
        return _leaver(name)
    if defines(cls, name):
        return None
    has, member = _found(cls, name)
    is_private = name.startswith("_") or name == ON_SESSION_END
    if is_private or not name.isidentifier() or isinstance(member, type):
        raise NoSuchMethod(f"{cls.__name__} has no public method `{name}`")
    return None if has and kind_of(cls, name) == "method" else _caller_of(cls, name)


def not_read(target: Any, name: str) -> NoSuchMethod | NotReadOnly:
    """Why a name is not read: what it stands for may change the object, or is no method and was called."""
    cls = type(target)
    kind = "method" if name.startswith(".") else kind_of(cls, name)
    # What computes an attribute may change the object, so it is not asked.
    if isinstance(_found(cls, name)[1], property):
        return NoSuchMethod(f"`{name}` of {cls.__name__} is a property: read it, in a shell as `.{name}`")
    if kind == "plain" and not hasattr(target, name):
        return NoSuchMethod(f"{cls.__name__} has no public method `{name}`")
    if kind == "plain" and not callable(getattr(target, name)):
        return NoSuchMethod(_not_called(cls, name))
    told = f"`{name}` of {cls.__name__} is not declared read-only, and not shown to be"
    told += " (`quorate check` says why)"
    if name.startswith("."):
        return NotReadOnly(f"{told}: read it without a level, or mark its property with @quorate.readonly")
    way_out = "call it instead, or mark it with @quorate.readonly or name it in the class's __quorate_reads__"
    return NotReadOnly(f"{told}: {way_out} if it changes nothing")


def _not_called(cls: type, name: str) -> str:
    return f"`{name}` of {cls.__name__} is not a method: read the attribute, in a shell as `.{name}`"


def _caller_of(cls: type, name: str) -> Callable[..., Any]:
    """What calls a function that the instance has, or that an attribute gives: `machine.go()`."""

    def call(target: Any, /, *args: Any, **kwargs: Any) -> Any:
        member = _attribute(target, name, kind_of(cls, name), "method")
        if isinstance(member, type):
            raise NoSuchMethod(f"`{name}` of {cls.__name__} is not a method")
        if not callable(member):
            raise NoSuchMethod(_not_called(cls, name))
        return member(*args, **kwargs)

    return call


def _attribute(target: Any, name: str, kind: Kind, what: str) -> Any:
    try:
        return getattr(target, name)
    except AttributeError as error:
        if kind == "computed":
            raise
        raise NoSuchMethod(f"{type(target).__name__} has no public {what} `{name}`") from error


def _reader_of(cls: type, name: str) -> Callable[[Any], Any]:
    if name.startswith("_") or not name.isidentifier() or isinstance(_found(cls, name)[1], type):
        raise NoSuchMethod(f"{cls.__name__} has no public attribute `{name}`")
    kind = kind_of(cls, name)
    if kind == "method":
        raise NoSuchMethod(f"`{name}` of {cls.__name__} is a method, not an attribute: call it")

    def read(target: Any) -> Any:
        value = _attribute(target, name, kind, "method or attribute")
        if callable(value) and _is_called(value):
            raise StoredMethod(f"`{name}` of {cls.__name__} is a method, not an attribute: call it")
        return value

    return read


def _is_called(value: Any) -> bool:
    """Whether a callable thing is there to be called and not to be sent."""
    if isinstance(value, type):
        return False
    try:
        _native.dumps(value)
    except Exception:
        return True
    return False


def _leaver(name: str) -> Callable[..., Any]:
    def leave(target: Any, error: Any = None, *_: Any, **label: Any) -> Any:
        """Ends a `with` block. Of the error of the block only the exception travels."""
        kind = type(error) if isinstance(error, BaseException) else None
        return getattr(target, name)(kind, error if kind else None, None, **label)

    return leave
