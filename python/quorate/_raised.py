"""Exceptions as values: told by the object's host, and made again by the caller in their own class if known.

Told are class, text, arguments, traceback, attributes, notes, causes and the exceptions of a group. They are
made again without their `__init__`, whose arguments are not known: some are named, some went into the text.
"""

from __future__ import annotations

import builtins
import os
from collections.abc import Callable
from typing import Any, TypeVar

from quorate import _errors, _names, _native

T = TypeVar("T")

CHAIN_MAX = 8
"""Causes and contexts that are told one behind the other."""

TOLD_MAX = 64
"""Exceptions that are told of one, with its causes and the members of groups: the first ones."""

BASES_MAX = 8
STAND_INS_MAX = 256

_MEMBERS: dict[type[BaseException], tuple[str, ...]] = {
    OSError: ("errno", "strerror", "filename", "filename2"),
    ImportError: ("name", "path"),
    AttributeError: ("name",),
    NameError: ("name",),
    StopIteration: ("value",),
    SyntaxError: ("msg", "filename", "lineno", "offset", "text", "end_lineno", "end_offset"),
}
"""What classes written in C keep outside of `__dict__` and `args`."""

_PLAIN = (str, int, float, bool, bytes, type(None))

clean: Callable[[str], str] = str
"""Leaves out of a text what differs between replicas; the host process sets it."""


class Told:
    """An exception inside another one, in parts."""

    __slots__ = ("parts",)

    def __init__(self, parts: tuple[Any, ...]) -> None:
        self.parts = parts


def describe(error: BaseException) -> tuple[Any, ...]:
    """[class, message, args, traceback, details] of an exception, all of which travels."""
    return _Teller().tell(error, CHAIN_MAX)


def describe_briefly(error: BaseException) -> tuple[Any, ...]:
    """The same without arguments and details, and with the beginning of its text."""
    name, message, _, traceback, _ = _Teller(0).tell(error, 0)
    return name, message[:10_000], [], traceback, {}


class _Teller:
    def __init__(self, left: int = TOLD_MAX) -> None:
        self._left = left
        self._inside: set[int] = set()

    def tell(self, error: BaseException, chain: int) -> tuple[Any, ...]:
        """Whatever the exception's class raises when it is asked, it is told without that part."""
        args: list[Any] = []
        details: dict[str, Any] = {}
        if self._left > 0 and id(error) not in self._inside:
            self._left -= 1
            self._inside.add(id(error))
            args = _attempt(lambda: self._parts(list(error.args), chain), [])
            details = _attempt(lambda: self._details(error, chain), {})
            self._inside.discard(id(error))
        return (
            _attempt(lambda: _plain(_names.name_of(type(error))), "builtins.Exception"),
            _attempt(lambda: clean(_plain(str(error))), "(its text could not be made)"),
            args,
            _attempt(lambda: _plain(_where(error)), ""),
            details,
        )

    def _parts(self, parts: list[Any], chain: int) -> list[Any]:
        told = [self._part(part, chain) for part in parts]
        # Arguments have meanings by their places: all of them, or none.
        return told if all(map(_travels, told)) else []

    def _part(self, part: Any, chain: int) -> Any:
        if type(part) is str:
            return clean(_plain(part))
        if isinstance(part, BaseException):
            return Told(self.tell(part, chain - 1)) if chain > 0 else None
        if type(part) in (list, tuple) and part and all(isinstance(item, BaseException) for item in part):
            return [self._part(item, chain) for item in part]
        return part

    def _details(self, error: BaseException, chain: int) -> dict[str, Any]:
        cls = type(error)
        details: dict[str, Any] = {}
        if cls.__module__ != "builtins":
            bases = [base for base in cls.__mro__[1:] if base not in (Exception, BaseException, object)]
            details["bases"] = [_plain(_names.name_of(base)) for base in bases[:BASES_MAX]]
        kept = {name: self._part(value, chain) for name, value in _attributes(error).items()}
        travels = {_plain(name): value for name, value in kept.items() if _travels(value)}
        if travels:
            details["attributes"] = travels
        if len(travels) < len(kept):
            details["left out"] = [_plain(name) for name, value in kept.items() if not _travels(value)]
        notes = getattr(error, "__notes__", None)
        if isinstance(notes, list) and notes:
            details["notes"] = [clean(_plain(str(note))) for note in notes[:TOLD_MAX]]
        if chain > 0:
            if error.__cause__ is not None:
                details["cause"] = self._part(error.__cause__, chain)
            elif error.__context__ is not None and not error.__suppress_context__:
                details["context"] = self._part(error.__context__, chain)
        return details


def _attributes(error: BaseException) -> dict[str, Any]:
    found = {name: value for name, value in vars(error).items() if name != "__notes__"}
    for base in type(error).__mro__:
        slots = vars(base).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if not name.startswith("__") and hasattr(error, name):
                found.setdefault(name, getattr(error, name))
        for name in _MEMBERS.get(base, ()):
            value = getattr(error, name, None)
            if value is not None:
                found.setdefault(name, value)
    return found


def _travels(value: Any) -> bool:
    if type(value) in _PLAIN:
        return True
    try:
        _native.dumps(value)
    except Exception:
        return False
    return True


def _where(error: BaseException) -> str:
    lines: list[str] = []
    trace = error.__traceback__
    while trace is not None and len(lines) < 20:
        code = trace.tb_frame.f_code
        lines.append(f"{os.path.basename(code.co_filename)}:{trace.tb_lineno} in {code.co_qualname}")
        trace = trace.tb_next
    return "\n".join(lines)


def _plain(text: str) -> str:
    """Text that can be sent: lone surrogates are written as escapes."""
    return str.encode(text, "utf-8", "backslashreplace").decode()


def _attempt(make: Callable[[], T], otherwise: T) -> T:
    """What the exception of a user's class makes of itself may raise anything, even the wish to exit."""
    try:
        return make()
    except BaseException:
        return otherwise


def exception_of(parts: list[Any], *, may_construct: bool = True) -> BaseException:
    """The exception of its parts; nothing is imported for it.

    `may_construct` allows to call its class where it cannot be made otherwise; a host does not, for a caller.
    """
    class_name, message, args, traceback, details = _checked(parts)
    cls = _class_of(class_name)
    made = None
    if cls is not None:
        ways = [_without_init, _by_class] if "left out" not in details else [_by_class, _without_init]
        for way in ways if may_construct else [_without_init]:
            made = _attempt(lambda way=way: way(cls, message, args, details), None)  # type: ignore[misc]
            if made is not None:
                break
    if made is None:
        made = stand_in(class_name, message, traceback, args, details)
    _attach(made, traceback, details)
    return made


def _checked(parts: list[Any]) -> tuple[str, str, list[Any], str, dict[str, Any]]:
    """The parts, without details that are of another kind than theirs."""
    match parts:
        case [str() as class_name, str() as message, list() as args, str() as traceback]:
            return class_name, message, args, traceback, {}
        case [str() as class_name, str() as message, list() as args, str() as traceback, dict() as told]:
            kinds: dict[str, type] = {"attributes": dict, "notes": list, "bases": list}
            details: dict[str, Any] = {
                name: value for name, value in told.items() if isinstance(value, kinds.get(name, object))
            }
            for name in ("notes", "bases"):
                if not all(isinstance(item, str) for item in details.get(name, ())):
                    del details[name]
            if not all(isinstance(name, str) for name in details.get("attributes", ())):
                del details["attributes"]
            return class_name, message, args, traceback, details
    raise _errors.MalformedValue("an exception has other parts than these")


def _without_init(
    cls: type[BaseException], message: str, args: list[Any], details: dict[str, Any]
) -> BaseException | None:
    made = _attempt(lambda: cls.__new__(cls, *args), None) or cls.__new__(cls)
    built_in = next(base for base in cls.__mro__ if base.__module__ == "builtins")
    _attempt(lambda: built_in.__init__(made, *args), None)  # type: ignore[misc]
    made.args = tuple(args)
    _set_attributes(made, details)
    if _text(made) == message:
        return made
    # Its arguments did not travel, or say something else: the text alone.
    made.args = (message,)
    return made if _text(made) == message or isinstance(made, KeyError) else None


def _by_class(
    cls: type[BaseException], message: str, args: list[Any], details: dict[str, Any]
) -> BaseException | None:
    made = _attempt(lambda: cls(*args), None)
    if made is None or _text(made) != message:
        made = cls(message)
        if _text(made) != message and not isinstance(made, KeyError):
            return None
    _set_attributes(made, details)
    return made if _text(made) == message or isinstance(made, KeyError) else None


def _set_attributes(made: BaseException, details: dict[str, Any]) -> None:
    members = {name for base in type(made).__mro__ for name in _MEMBERS.get(base, ())}
    for name, value in details.get("attributes", {}).items():
        if name in members or not hasattr(made, "__dict__"):
            _attempt(lambda name=name, value=value: setattr(made, name, value), None)  # type: ignore[misc]
        else:
            made.__dict__[name] = value


def _attach(made: BaseException, traceback: str, details: dict[str, Any]) -> None:
    for note in details.get("notes", ()):
        BaseException.add_note(made, note)
    if traceback:
        BaseException.add_note(made, f"raised by the replicated object:\n{traceback}")
    if isinstance(details.get("cause"), BaseException):
        made.__cause__ = details["cause"]
    elif isinstance(details.get("context"), BaseException):
        made.__context__ = details["context"]


_stand_ins: dict[tuple[str, type[BaseException] | None], type[_errors.RemoteError]] = {}


def stand_in(
    class_name: str, message: str, traceback: str, args: list[Any], details: dict[str, Any]
) -> _errors.RemoteError:
    """An exception in place of one whose class is not known here: named like it, below a base that is."""
    bases = (_class_of(name) for name in details.get("bases", ()))
    cls = _stand_in_class(class_name, next((base for base in bases if base is not None), None))
    made: Any = _attempt(lambda: cls.__new__(cls, *args), None) or cls.__new__(cls)
    made.type_name, made.message, made.remote_traceback = class_name, message, traceback
    made.args = tuple(args) if args else (message,)
    made.details = details
    _set_attributes(made, details)
    return made  # type: ignore[no-any-return]


def _stand_in_class(class_name: str, base: type[BaseException] | None) -> type[_errors.RemoteError]:
    known = _stand_ins.get((class_name, base))
    if known is not None:
        return known
    module, _, name = class_name.rpartition(".")
    kinds = (_errors.RemoteError,) if base is None else (_errors.RemoteError, base)
    namespace = {"__module__": module or "quorate"}
    made: Any = _attempt(lambda: type(name, kinds, dict(namespace)), None) or _errors.RemoteError
    if len(_stand_ins) < STAND_INS_MAX:
        _stand_ins[class_name, base] = made
    return made  # type: ignore[no-any-return]


def _class_of(name: str) -> type[Exception] | None:
    module, _, rest = name.rpartition(".")
    if module == "builtins":
        found = getattr(builtins, rest, None)
    elif module == "quorate":
        found = getattr(_errors, rest, None)
    else:
        found = _names.find(name)
    return found if isinstance(found, type) and issubclass(found, Exception) else None


def _text(exception: BaseException) -> str | None:
    """What the exception says; None if its class raises instead, whatever that is."""
    return _attempt(lambda: str(exception), None)
