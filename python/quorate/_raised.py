"""Exceptions of methods: raised in their own class if that is known here, else as RemoteError."""

from __future__ import annotations

import builtins
from typing import Any

from quorate import _errors, _names


def exception_of(parts: list[Any]) -> BaseException:
    """The exception described by [class, message, args, traceback]; nothing is imported for it."""
    class_name, message, args, traceback = parts
    cls = _class_of(class_name)
    exception: BaseException | None = None
    if cls is not None:
        try:
            exception = cls(*args)
        except BaseException:
            exception = None
    if exception is None or _text(exception) != message:
        # Made from its message alone where its own arguments did not travel or do not fit.
        exception = _from_message(cls, class_name, message, traceback)
    if traceback:
        exception.add_note(f"raised by the replicated object:\n{traceback}")
    return exception


def _from_message(
    cls: type[Exception] | None, class_name: str, message: str, traceback: str
) -> BaseException:
    if cls is not None:
        try:
            exception = cls(message)
        except BaseException:
            return _errors.RemoteError(class_name, message, traceback)
        if _text(exception) == message or isinstance(exception, KeyError):
            return exception
    return _errors.RemoteError(class_name, message, traceback)


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
    try:
        return str(exception)
    except BaseException:
        return None
