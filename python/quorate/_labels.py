"""Labels of the threads and tasks of a process: by them an object tells apart the callers of one session.

A class names the parameter of its methods that takes a label by `__quorate_label__`. Where a call does not
give it, the proxy does. Numbers of threads are none: the system gives them again when a thread has ended.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import itertools
import threading
import weakref
from typing import Any

from quorate import _native

PARAMETER = "__quorate_label__"
"""The attribute of a class that names the parameter."""

METHODS_MAX = 4096
"""Methods of which it is known whether they take a label."""

_numbers = itertools.count(1 << 30)
"""They begin where no labels are that somebody gives by hand."""


class _Thread(threading.local):
    def __init__(self) -> None:
        self.number = next(_numbers)


_thread = _Thread()
_tasks: weakref.WeakKeyDictionary[asyncio.Task[Any], int] = weakref.WeakKeyDictionary()


def label() -> int | None:
    """Return the label of this asyncio task, or where none runs of this thread: a number that no other has.

    Proxies give it to methods whose class names a parameter for it by `__quorate_label__`. It is the same for
    as long as the thread or task lives, and in this process never given again; another process of the same
    session, by `connect(resume=)`, counts anew, and is told apart by `Caller.tenancy`. Inside a method that
    replicas execute it is None: there the label is what came with the call.

    ::

        class Desk:
            __quorate_label__ = "clerk"

            def take(self, *, clerk=None):
                self.owner = quorate.caller().session, clerk

    >>> label() == label()
    True
    """
    if _native.running_number() is not None:
        return None
    try:
        task = asyncio.current_task()
    except RuntimeError:  # no loop runs in this thread
        task = None
    if task is None:
        return thread_label()
    number = _tasks.get(task)
    if number is None:
        number = _tasks[task] = next(_numbers)
    return number


def thread_label() -> int:
    """The label of this thread, whichever task runs in it.

    >>> thread_label() == label()
    True
    """
    return _thread.number


@functools.lru_cache(METHODS_MAX)
def parameter_of(cls: type | None, method: str) -> str | None:
    """The parameter of a method that takes the label of who calls, if its class has named one.

    >>> class Desk:
    ...     __quorate_label__ = "clerk"
    ...     def take(self, *, clerk=None): ...
    ...     def look(self): ...
    >>> parameter_of(Desk, "take"), parameter_of(Desk, "look")
    ('clerk', None)
    """
    name = getattr(cls, PARAMETER, None)
    if not isinstance(name, str):
        return None
    member = getattr(cls, method, None)
    if not callable(member):
        return None
    try:
        found = inspect.signature(member).parameters.get(name)
    except (TypeError, ValueError):
        return None
    return name if found is not None and found.kind is found.KEYWORD_ONLY else None
