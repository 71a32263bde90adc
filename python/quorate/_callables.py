"""Functions, bound methods and ways to make an instance, by the names under which allowed modules have them.

Loading calls only what is found here: a function or class of an allowed package, or one of a few of the
standard library.
"""

from __future__ import annotations

import copyreg
import enum
import importlib
import inspect
import io
import itertools
import random
import re
import sys
import types
from typing import Any

from quorate import _arrays, _constants, _content, _nameless, _names, _standard, _values
from quorate._errors import MalformedValue

Parts = tuple[str, tuple[Any, ...], Any]

METHODS: tuple[type, ...] = (
    *(types.MethodType, types.BuiltinMethodType, types.MethodWrapperType),
    # Methods in C that are told their class have a type without a name.
    type(re.compile("").match),
)
DESCRIPTORS = (
    *(types.MethodDescriptorType, types.WrapperDescriptorType, types.ClassMethodDescriptorType),
    *(types.GetSetDescriptorType, types.MemberDescriptorType),
)
_STREAMS = ("stdin", "stdout", "stderr", "__stdin__", "__stdout__", "__stderr__")
_FACTORIES: dict[str, type] = {
    cls.__name__: cls for cls in (int, float, str, bytes, bool, list, dict, set, tuple, frozenset)
}
_MORE_FACTORIES = {"deque", "Counter", "OrderedDict"}


def reference(value: Any) -> Parts | str:
    """A class or function by its name."""
    kind, short = "class" if isinstance(value, type) else "function", value.__name__
    if _FACTORIES.get(short) is value or (short in _MORE_FACTORIES and value.__module__ == "collections"):
        return kind, (short,), None
    name = f"{value.__module__}.{value.__qualname__}"
    if _found(name) is value:
        return kind, (name,), None
    nameless = _nameless.take_apart(value) if isinstance(value, types.FunctionType) else None
    if nameless is not None:
        return nameless
    what = "lambda" if short == "<lambda>" else f"{kind} {value.__qualname__}"
    return (
        f"{what} is not supported, for no allowed module has it by a name: define it at the top of its module"
    )


def find(name: str) -> Any:
    """The class or function of a reference."""
    found = _FACTORIES.get(name) or _found(f"collections.{name}" if name in _MORE_FACTORIES else name)
    if found is None:
        raise MalformedValue(f"{name} is gone: a snapshot still refers to it")
    return found


def _found(name: str) -> Any:
    return _names.find(name) or _standard.find_function(name) or _standard.find_reference(name)


def descriptor(value: Any) -> Parts | str:
    """A method that is bound to nothing, such as str.lower, or a field: its class, and its name there."""
    cls, name = value.__objclass__, value.__name__
    if vars(cls).get(name) is not value:
        return f"{type(value).__name__} {name} of {cls.__name__} is not supported"
    return "descriptor", (cls, name), None


def find_descriptor(cls: type, name: str) -> Any:
    """The method or field of a class."""
    found = vars(cls).get(name) if isinstance(cls, type) else None
    if not isinstance(found, DESCRIPTORS):
        raise MalformedValue(f"{cls} has no method {name} any more: a snapshot still refers to it")
    return found


def module(value: types.ModuleType) -> Parts | str:
    """A module by its name."""
    name = value.__name__
    if not _nameless.is_readable(name) or sys.modules.get(name) is not value:
        return f"module {name} is not supported"
    return "module", (name,), None


def find_module(name: str) -> Any:
    """The module of a reference."""
    if not _nameless.is_readable(name):
        raise MalformedValue(f"module {name} is not allowed: a snapshot refers to it")
    return importlib.import_module(name)


def member(value: enum.Enum) -> Parts | str:
    """A member of an enumeration of the standard library, by its name."""
    cls = type(value)
    name = _names.name_of(cls)
    if _standard.find_reference(name) is not cls:
        return f"{cls.__name__} is not supported"
    return "member", (name, _values.member_name(value)), None


def find_member(cls_name: str, name: str) -> Any:
    """The member of an enumeration."""
    cls = _standard.find_reference(cls_name)
    if not isinstance(cls, type) or not issubclass(cls, enum.Enum):
        raise MalformedValue(f"{cls_name} is gone: a snapshot still refers to it")
    try:
        return _values.member(cls, name)
    except (KeyError, ValueError) as error:
        raise MalformedValue(f"{cls_name}.{name} is gone: a snapshot still refers to it") from error


def stream(value: io.IOBase) -> Parts | None:
    """Where the process prints, which is its own on every replica."""
    for name in _STREAMS:
        if getattr(sys, name, None) is value:
            return "stream", (name,), None
    return None


def find_stream(name: str) -> Any:
    """A stream of this process."""
    if name not in _STREAMS:
        raise MalformedValue(f"a snapshot refers to a stream {name}")
    return getattr(sys, name)


def shared_random(value: Any) -> Parts | None:
    """A function of `random` that in a host is a method of the one generator that calls share."""
    name: str = value.__name__
    if value.__self__ is random._inst and getattr(random, name, None) == value:
        return "random", (name,), None
    return None


def find_random(name: str) -> Any:
    """The function of `random`."""
    if name not in random.__all__:
        raise MalformedValue(f"random has no function {name}")
    return getattr(random, name)


def method(value: Any) -> Parts | str:
    """A bound method: what it is bound to, and its name there."""
    bound = value.__self__
    name: str = value.__name__
    shared = shared_random(value)
    if shared is not None:
        return shared
    if _of(bound, name) == value:
        return "method", (bound, name), None
    function = getattr(value, "__func__", None)
    if function is not None:
        return "bound", (function, bound), None
    return f"{type(value).__name__} {name} is not supported"


def _of(bound: Any, name: str) -> Any:
    """The method of that name, found in the class: the instance may be without its state yet."""
    if isinstance(bound, type):
        return getattr(bound, name, None)
    cls = type(bound)
    for candidate in (name, *(f"_{base.__name__.lstrip('_')}{name}" for base in cls.__mro__)):
        found = inspect.getattr_static(cls, candidate, None)
        if hasattr(type(found), "__get__") and not isinstance(found, property):
            return found.__get__(bound, cls)
    return None


def make_method(bound: Any, name: str) -> Any:
    """The bound method again."""
    found = _of(bound, name)
    if not isinstance(found, METHODS):
        raise MalformedValue(f"{type(bound).__name__} has no method {name} any more")
    return found


def make_bound(function: Any, bound: Any) -> Any:
    """A function bound to something that does not have it as a method."""
    return types.MethodType(function, bound)


def reduction(value: Any) -> Parts | str | object | None:
    """How the class, or who registered it with copyreg, says it is made; COPIED if its fields say more."""
    cls = type(value)
    registered = copyreg.dispatch_table.get(cls)
    definer = None if registered else _definer(cls, "__reduce_ex__", "__reduce__")
    if not registered and definer is None and not _says_what_c_keeps(cls):
        return None
    if definer is not None and _names.package_of(cls) != _names.package_of(definer):
        # A subclass in another package: what it adds may not be in what its base says.
        if _content.root_of(cls) is not None:
            return None
        if _content.fields_of(value):
            return f"{cls.__name__} is not supported: __reduce__ of {definer.__name__} leaves out its fields"
    reduced = registered(value) if registered else value.__reduce_ex__(4)
    if isinstance(reduced, str):
        return global_value(value, f"{cls.__module__}.{reduced}")
    made_by, arguments, *rest = reduced
    if made_by is _reconstructor and _content.root_of(cls) is not None:
        # What `object.__reduce__` says by itself.
        return None
    if made_by is cls and may_be_copied(value):
        return COPIED
    kind = "reduce"
    if made_by is copyreg.__newobj__:  # type: ignore[attr-defined]
        kind, made_by, arguments = "new", arguments[0], arguments[1:]
    name = _call_name(made_by)
    known = _names.find(name) or _standard.find_reference(name) if kind == "new" else _callable_of(name)
    if known != made_by:
        return f"{cls.__name__} is not supported, for it is made by {name}, which is in no allowed package"
    more: list[Any] = [*rest, None, None, None]
    state, items, pairs = more[:3]
    if name.partition(".")[0] in _arrays.PACKAGES:
        arguments, state = _arrays.marked(tuple(arguments)), _arrays.marked(state)
    if state is None and items is None and pairs is None:
        return kind, (name, tuple(arguments)), None
    listed = [list(items or ()), [list(pair) for pair in pairs or ()]]
    return kind, (name, tuple(arguments)), [state, *listed, "by reduce"]


def _call_name(made_by: Any) -> str:
    owner = getattr(made_by, "__self__", None)
    if isinstance(owner, type):
        return f"{_names.name_of(owner)}.{made_by.__name__}"
    module = made_by.__module__
    return f"{_names.home_of(module) if isinstance(module, str) else module}.{made_by.__qualname__}"


def _callable_of(name: str) -> Any:
    """A class or function of an allowed package, or a class method of such a class."""
    found = _standard.safe_callable(name) or _names.find(name)
    if found is not None:
        return found
    prefix, _, short = name.rpartition(".")
    cls = _names.find(prefix)
    is_class_method = isinstance(cls, type) and isinstance(
        inspect.getattr_static(cls, short, None), classmethod
    )
    return getattr(cls, short) if is_class_method else None


_reconstructor: Any = vars(copyreg)["_reconstructor"]
COPIED = object()


class Trust(enum.Enum):
    """Whose word counts for the state of an instance whose fields can all be read."""

    FIELDS_BEFORE_REDUCE = "`__getstate__` counts, the fields count more than `__reduce__`"
    HOOKS = "what the class says counts"
    FIELDS = "the fields count"


trust = Trust.FIELDS_BEFORE_REDUCE
"""Chosen when an object is made, by its first state: the same in every process that has this object."""


def may_be_copied(value: Any) -> bool:
    """Whether an instance is better kept by its fields than by arguments for its class.

    A container that is made anew from its items loses what these do not tell, such as half of a change that
    an exception had cut off. What is hashable may be told apart by being it, or be put right by who holds it.
    """
    cls = type(value)
    is_readable = trust is not Trust.HOOKS and _content.root_of(cls) is not None
    is_container = cls.__hash__ is None
    return is_readable and is_container and all(map(_may_be_kept, _content.fields_of(value).values()))


def _may_be_kept(item: Any) -> bool:
    """Whether a field is of a kind that has a way into a state, as far as its type tells."""
    cls = type(item)
    return (
        item is None
        or cls in _PLAIN
        or cls in _standard.STANDARD
        or callable(item)
        or isinstance(item, types.ModuleType | enum.Enum)
        or _content.root_of(cls) is not None
        or cls in copyreg.dispatch_table
        or any(has_own(cls, hook) for hook in ("__reduce__", "__reduce_ex__", "__getstate__"))
    )


_PLAIN = frozenset((int, float, complex, str, bytes, bool, list, dict, set, tuple, frozenset))


def _says_what_c_keeps(cls: type) -> bool:
    """Whether the content in C that cannot be read is in what the class itself says of its state."""
    return _content.root_of(cls) is None and has_own(cls, "__getstate__") and has_own(cls, "__setstate__")


def _definer(cls: type, *hooks: str) -> type | None:
    """The class of an allowed package that has one of these methods, if no other class has it before."""
    for base in cls.__mro__:
        if any(hook in vars(base) for hook in hooks):
            return base if _names.is_allowed_module(base.__module__) else None
    return None


def says_its_state(cls: type, hook: str) -> bool:
    """Whether this method of a class counts for its state."""
    return trust is not Trust.FIELDS and has_own(cls, hook)


def has_own(cls: type, hook: str) -> bool:
    """Whether a class defines this method: one of an allowed package or of a harmless module."""
    for base in cls.__mro__:
        if hook in vars(base):
            is_ours = _names.is_allowed_module(base.__module__)
            return is_ours or (base not in _content.ROOTS and _standard.is_harmless_module(base.__module__))
    return False


def make_reduced(name: str, arguments: tuple[Any, ...]) -> Any:
    """Call what is allowed to be called."""
    made_by = _callable_of(name)
    if made_by is None:
        raise MalformedValue(f"{name} is not allowed or is gone: a snapshot has something that it made")
    return made_by(*arguments)


def make_new(name: str, arguments: tuple[Any, ...]) -> Any:
    """An instance of an allowed class by its __new__."""
    cls = _names.find(name) or _standard.find_reference(name)
    if not isinstance(cls, type):
        raise MalformedValue(f"class {name} is gone: a snapshot still holds instances of it")
    return cls.__new__(cls, *arguments)


def global_value(value: Any, name: str | None = None) -> Parts | str:
    """An instance that an allowed module has under a name, and that is told apart by being it."""
    # Some classes say that they lie where their documents show them.
    for found in itertools.chain([name] if name else [], _names.names_of(value)):
        if _is_named(value, found):
            return "global", (found,), None
    return f"{type(value).__name__} is not supported, for no allowed module has it by a name"


def _is_named(value: Any, name: str) -> bool:
    try:
        return _constants.find(name) is value
    except MalformedValue:
        return False
