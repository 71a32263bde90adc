"""The worker: a process beside the node that leads, which calls what objects capture and effect.

The node starts it, tells it on its standard input where the group is, and ends it by closing that. It is a
client of the group, and is not confined as the objects' host is.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any

from quorate import _capturing, _names, _native, _outbox, _raised
from quorate._connect import CONNECT_SECONDS, session_options
from quorate._errors import CaptureFailed, Overloaded, QuorateError, Refused, StorageFull, Unavailable
from quorate._options import Options
from quorate._proxy import Flow, Proxy

THREADS = 16
"""Tasks that are done side by side."""

TASK_SECONDS = 60.0
"""How long one may take; the thread of one that takes longer is replaced."""

STUCK_MAX = 64
"""Threads that may be stuck before the worker ends, to be started anew."""

LOOKS_SECONDS = 1.0
"""Between two looks at the threads."""

LEAVE_SECONDS = 2.0
"""How long it may take to take leave of the group."""

SESSION_SECONDS = 5.0


REFUSED = frozenset([*sys.stdlib_module_names, "__main__", "quorate"])
"""Packages whose functions are not called: what takes over an object's host does not so get out of it."""


class Worker:
    """Threads, each of which asks for a task, does it, and tells what came of it with its next question."""

    def __init__(self, outbox: Any) -> None:
        self._outbox = outbox
        self._since: dict[int, tuple[float, int]] = {}
        """By deal: since when which task is being done."""
        self._stuck: set[int] = set()
        """Deals that were given up, and whose threads have not come back."""
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._why = ""

    def run(self) -> str:
        """Work, and say why there is an end of it."""
        first = self._ask(None, is_first=True)
        for at in range(THREADS):
            self._begin(first if at == 0 else None, None)
        while not self._over.wait(LOOKS_SECONDS):
            self._give_up_stuck()
        return self._why

    def _begin(self, task: Any, finished: list[Any] | None) -> None:
        threading.Thread(target=self._work, args=(task, finished), daemon=True).start()

    def _work(self, task: Any, finished: list[Any] | None) -> None:
        try:
            while True:
                id, path, args, key, deal = self._ask(finished) if task is None else task
                with self._lock:
                    self._since[deal] = time.monotonic(), id
                is_error, value = done(path, args, key)
                task, finished = None, [id, is_error, value, deal]
                with self._lock:
                    self._stuck.discard(deal)
                    if self._since.pop(deal, None) is None:
                        break  # it was given up, and another thread has this one's place
            if not is_error:
                self._settle(finished)
        except Refused:
            self._end("another worker has taken over")
        except Exception as error:
            self._end(f"the group cannot be asked: {error}")

    def _ask(self, finished: list[Any] | None, *, is_first: bool = False) -> Any:
        while True:
            try:
                return self._outbox.next(finished, is_first)
            except (Unavailable, Overloaded, StorageFull):
                # Nothing was done with it, and it has waited for as long as clients do. It is no reason to
                # leave what the other threads do to another worker, which would do it again.
                if self._over.wait(LOOKS_SECONDS):
                    raise

    def _settle(self, finished: list[Any]) -> None:
        """What was done after all need not be done again."""
        try:
            self._outbox.settle(finished)
        except QuorateError as error:
            sys.stderr.write(f"that a task is done after all cannot be told: {error}\n")

    def _give_up_stuck(self) -> None:
        now = time.monotonic()
        with self._lock:
            stuck = {deal: id for deal, (since, id) in self._since.items() if now - since > TASK_SECONDS}
            for deal in stuck:
                del self._since[deal]
            self._stuck.update(stuck)
            count = len(self._stuck)
        if count > STUCK_MAX:
            self._end(f"{count} tasks take longer than {TASK_SECONDS:g} s")
            return
        error = CaptureFailed(f"it took longer than {TASK_SECONDS:g} s")
        for deal, id in stuck.items():
            self._begin(None, [id, True, _native.dumps(list(_raised.describe(error))), deal])

    def _end(self, why: str) -> None:
        self._why = self._why or why
        self._over.set()


def done(path: str, args: bytes, key: str | None) -> tuple[bool, bytes]:
    """Call a function: whether it raised, and what it returned or raised, encoded.

    >>> from quorate import _native
    >>> is_error, value = done("os:system", _native.dumps(["true"]), None)
    >>> is_error, _native.loads(value)[0]
    (True, 'quorate.Refused')
    """
    try:
        return False, _fitting(_called(path, args, key))
    except BaseException as error:
        sys.stderr.write(f"{path} raised:\n{traceback.format_exc()[-2000:]}")
        sys.stderr.flush()
        try:
            return True, _fitting(list(_raised.describe(error)))
        except Exception:
            return True, _native.dumps(list(_raised.describe_briefly(error)))


def _called(path: str, args: bytes, key: str | None) -> Any:
    top = path.partition(":")[0].partition(".")[0]
    function = None if top in REFUSED else _capturing.function_at(path)
    if function is None:
        raise Refused(f"{path} is no function that the worker calls: it must be defined in a module of yours")
    # The classes of its package may be among its arguments.
    _names.allow_package(top)
    with _names.restoring():
        given = _native.loads(args)
    named = {"key": key} if key is not None and _takes_key(function) else {}
    found = function(*given, **named)
    return asyncio.run(found) if inspect.iscoroutine(found) else found


def _takes_key(function: Callable[..., Any]) -> bool:
    try:
        return "key" in inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False


def _fitting(value: Any) -> bytes:
    encoded = _native.dumps(value)
    if len(encoded) > _outbox.VALUE_BYTES_MAX:
        raise CaptureFailed(
            f"what came of it takes {len(encoded)} bytes, and may take {_outbox.VALUE_BYTES_MAX}: leave the "
            "large thing outside, and return its place"
        )
    return encoded


def _leave_at_the_end(client: _native.Client) -> None:
    """Take leave when the node closes the standard input, or is gone."""
    while sys.stdin.buffer.read(4096):
        pass
    threading.Timer(LEAVE_SECONDS, os._exit, (0,)).start()
    client.close()
    os._exit(0)


def main() -> None:
    """Work for the node that started this process."""
    # A Ctrl-C at the terminal is the node's to handle. What functions print goes where the node logs.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.dup2(2, 1)
    task = json.loads(sys.stdin.buffer.readline())
    sys.path[:0] = task["paths"]
    session = session_options(SESSION_SECONDS)
    client = _native.Client(task["endpoint"], CONNECT_SECONDS, None, session=session, tls=task["tls"])
    threading.Thread(target=_leave_at_the_end, args=(client,), daemon=True).start()
    flow = Flow(client.beside(_outbox.NUMBER), _outbox.Outbox, Options())
    why = Worker(Proxy(flow)).run()
    sys.stderr.write(f"the worker ends: {why}\n")
    sys.stderr.flush()
    # Threads that are stuck would have it wait.
    os._exit(0)


if __name__ == "__main__":
    main()
