"""What the objects of a group want done outside of them: asked for by messages, done by the leader's worker.

The outbox is an object of the group itself, as the directory is. So what is asked for outlives every machine,
and what came of it counts once: the first answer does. The worker is a client that calls `next`.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from quorate import _calling, _names, _native, _raised
from quorate._errors import CaptureFailed, Overloaded, Refused
from quorate._options import readonly
from quorate._timers import Timer, after, every

NUMBER = 2**32 - 3
"""The outbox's own number."""

TASKS_MAX = 10_000
"""Tasks that are kept; the messages to the outbox that are on their way come on top."""

BYTES_MAX = 64 << 20
"""Bytes of all tasks and what came of them."""

VALUE_BYTES_MAX = 60 << 10
"""Arguments of one task, or what came of it, encoded: each travels in a message."""

CAPTURES_MAX = 64
"""Values that one call may capture."""

DEALS_MAX = 5
"""How often a task is given to a worker that ends without an answer: it may be what ends them."""

TRIES_MAX = 8
"""How often an effect that raises is tried."""

FIRST_REST = 0.05
"""Seconds of agreed time before the second try; each further rest is twice as long."""

CAPTURE_SECONDS = 120.0
"""Agreed time after which a value that nobody captured is given up."""

IDLE_MAX = 1_024
"""Calls of workers that wait for a task."""

POKE_SECONDS = 0.1
"""Before something is sent again to an object to which too many messages are on their way."""

TASK_BYTES = 256
"""What a task takes beside its arguments and its value."""

ASKED_MIN = 64
"""Calls whose values are kept before those are looked for that wait no more."""


class Task:
    """A function that is to be called outside, for a call that waits for its value, or as an effect."""

    def __init__(self, id: int, number: int, path: str, args: bytes) -> None:
        self.id = id
        self.number = number
        """Of the object that asked."""
        self.path = path
        self.args = args
        self.call: tuple[int, int] | None = None
        """Session and sequence of the call that waits; None of an effect."""
        self.key: str | None = None
        self.then: str | None = None
        self.deals = 0
        self.tries = 0
        self.rests = False
        """Whether it waits for its next try."""
        self.limit: Timer | None = None
        self.answer: tuple[bool, bytes] | None = None
        """Whether it raised, and what or which error came of it, encoded."""

    @property
    def bytes(self) -> int:
        """What it takes."""
        return TASK_BYTES + len(self.path) + len(self.args) + len(self.answer[1] if self.answer else b"")


class Outbox:
    """Keeps what is to be done outside. The worker of the node that leads calls it."""

    _sweeper: Timer | None = None
    """Looks now and then for calls that wait no more. A state may be kept without it."""

    def __init__(self) -> None:
        self._last = 0
        self._bytes = 0
        self._open: dict[int, Task] = {}
        """Not answered yet, by number."""
        self._ready: deque[int] = deque()
        """Those that no worker has."""
        self._asked: dict[tuple[int, int], dict[int, Task]] = {}
        """What calls that wait have asked for: the first, the second, ..."""
        self._room = ASKED_MIN
        self._worker: int | None = None
        """Its session."""
        self._idle: deque[_calling.Caller] = deque()

    def next(self, finished: list[Any] | None, is_first: bool = False) -> Any:
        """Take what came of a task, and return the next one; wait for it.

        `finished` is [number, whether it raised, encoded value or error]. A worker that says that it comes
        for the first time takes over from the one before, with all that this one had.
        """
        if finished is not None:
            self._take_answer(*_checked(finished))
        caller = _calling.caller()
        if is_first and caller.session != self._worker:
            self._release()
            self._worker = caller.session
        if caller.session != self._worker:
            raise Refused("another worker does what is to be done outside of this group's objects")
        task = self._deal()
        if task is not None:
            return task
        if len(self._idle) >= IDLE_MAX:
            self._idle = deque(each for each in self._idle if each.is_waiting)
        if len(self._idle) >= IDLE_MAX:
            raise Overloaded(f"{IDLE_MAX} calls wait for something to do outside of this group's objects")
        parked = _calling.park()
        self._idle.append(caller)
        return parked

    @readonly
    def load(self) -> list[int]:
        """Return how many tasks are to be done, for how many calls values are kept, and the bytes of both."""
        return [len(self._open), len(self._asked), self._bytes]

    @property
    def is_pristine(self) -> bool:
        """Whether nothing was ever asked for."""
        return not self._last and self._worker is None

    @property
    def has_room(self) -> bool:
        """Whether it takes one more task."""
        return len(self._open) < TASKS_MAX and self._bytes < BYTES_MAX

    def _value_of(self, call: tuple[int, int], ordinal: int, path: str, args: bytes) -> Any:
        """What came of what a call asked for: whether it raised, and the encoded rest; None as yet."""
        task = self._asked.get(call, {}).get(ordinal)
        return task.answer if task is not None and (task.path, task.args) == (path, args) else None

    def _go_on(self) -> None:
        """After it was restored: what was to be done still is."""
        if self._open:
            _native.tell_outside()

    def _ask(self, number: int, call: list[int], ordinal: int, path: str, args: bytes) -> None:
        """A call waits for a value from outside. It asks again at each try."""
        session, sequence = call
        if not _native.waits_at(number, session, sequence):
            return
        if self._sweeper is None:
            # One that repeats outlives a tick that is left out; a tick drops the others that are due in it.
            self._sweeper = every(CAPTURE_SECONDS, "_sweep")
        asked = self._asked.setdefault((session, sequence), {})
        task = asked.get(ordinal)
        if task is not None and (task.path, task.args) == (path, args):
            return
        if task is not None:
            # It may take the whole entry of the call along.
            self._forget_task(task)
            asked = self._asked.setdefault((session, sequence), asked)
        task = asked[ordinal] = self._add(number, path, args)
        task.call = (session, sequence)
        task.limit = after(CAPTURE_SECONDS, "_give_up", task.id)
        if len(self._asked) >= self._room:
            self._leave_out_gone()
        self._hand_out()

    def _act(self, number: int, path: str, args: bytes, key: str, then: str | None) -> None:
        """Something was decided that is to be done outside."""
        task = self._add(number, path, args)
        task.key, task.then = key, then
        self._hand_out()

    def _forget(self, session: int, sequence: int) -> None:
        """A call has taken effect, and needs what it asked for no more."""
        for task in self._asked.pop((session, sequence), {}).values():
            self._forget_task(task)

    def _give_up(self, id: int) -> None:
        """Nobody has captured the value in time."""
        if id in self._open:
            told = (
                f"nobody captured the value within {CAPTURE_SECONDS:g} s: see the log of the node that leads"
            )
            self._take_answer(id, True, _error(told))

    def _again(self, id: int) -> None:
        """An effect that raised has rested."""
        task = self._open.get(id)
        if task is not None:
            task.rests = False
            self._ready.append(id)
            self._hand_out()

    def _poke(self, number: int) -> None:
        """Have the calls that wait at an object go on, if they can."""
        self._send(number, "", ())

    def _send(self, number: int, method: str, args: tuple[Any, ...]) -> None:
        if _native.object_of(number) is None:
            return
        try:
            _native.send_message(number, _native.dump_call(method, args, {}))
        except Overloaded:
            after(POKE_SECONDS, "_send", number, method, args)

    def _add(self, number: int, path: str, args: bytes) -> Task:
        self._last += 1
        task = Task(self._last, number, path, args)
        self._open[task.id] = task
        if len(self._ready) > len(self._open) + ASKED_MIN:
            # Of those that were given up while there was no worker.
            self._ready = deque(id for id in self._ready if id in self._open)
        self._ready.append(task.id)
        self._bytes += task.bytes
        _native.tell_outside()
        return task

    def _hand_out(self) -> None:
        """Give the tasks that are ready to those who wait for one."""
        while self._ready and self._idle:
            idle = self._idle.popleft()
            if not idle.is_waiting:
                continue
            task = self._deal()
            if task is None:
                self._idle.appendleft(idle)
                return
            idle.wake(task)

    def _deal(self) -> list[Any] | None:
        """The next task, as the worker is told of it."""
        while self._ready:
            task = self._open.get(self._ready.popleft())
            if task is None:
                continue
            if task.call is not None and not _native.waits_at(task.number, *task.call):
                self._forget_task(task)
                continue
            if task.deals >= DEALS_MAX:
                told = f"{task.path} was given to {DEALS_MAX} workers, and all of them ended"
                self._finish(task, True, _error(f"{told}: see the nodes' logs"))
                continue
            task.deals += 1
            return [task.id, task.path, task.args, task.key]
        return None

    def _take_answer(self, id: int, is_error: bool, value: bytes) -> None:
        task = self._open.get(id)
        if task is None:
            return  # another answer was faster, or nobody waits any more
        task.tries += 1
        if is_error and task.call is None and task.tries < TRIES_MAX:
            task.deals, task.rests = 0, True
            after(FIRST_REST * 2 ** (task.tries - 1), "_again", id)
        else:
            self._finish(task, is_error, value)

    def _finish(self, task: Task, is_error: bool, value: bytes) -> None:
        self._close(task)
        if task.call is not None:
            self._bytes -= task.bytes
            task.answer = (is_error, value)
            self._bytes += task.bytes
            self._poke(task.number)
            return
        self._bytes -= task.bytes
        if task.then is not None:
            self._send(task.number, task.then, (task.key, *_plain(is_error, value)))

    def _forget_task(self, task: Task) -> None:
        """It is needed no more; what a worker says of it later counts for nothing."""
        self._close(task)
        self._bytes -= task.bytes
        if task.call is not None:
            asked = self._asked.get(task.call, {})
            for ordinal in [ordinal for ordinal, each in asked.items() if each is task]:
                del asked[ordinal]
            if not asked:
                self._asked.pop(task.call, None)

    def _close(self, task: Task) -> None:
        self._open.pop(task.id, None)
        if task.limit is not None:
            task.limit.cancel()
            task.limit = None

    def _release(self) -> None:
        """The worker has ended, or another one has come."""
        for idle in self._idle:
            if idle.is_waiting:
                idle.fail(Refused("another worker has taken over"))
        self._idle.clear()
        self._worker = None
        self._ready = deque(id for id, task in self._open.items() if not task.rests)

    def _leave_out_gone(self) -> None:
        """Forget what was asked for by calls that wait no more."""
        for call, asked in list(self._asked.items()):
            task = next(iter(asked.values()), None)
            if task is None or not _native.waits_at(task.number, *call):
                self._forget(*call)
        self._room = max(ASKED_MIN, 2 * len(self._asked))

    def _sweep(self) -> None:
        """Few calls can hold many bytes, and when these are full nobody asks any more."""
        self._leave_out_gone()
        if not self._asked and self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None


def _error(told: str) -> bytes:
    return _native.dumps(list(_raised.describe(CaptureFailed(told))))


def _plain(is_error: bool, value: bytes) -> tuple[Any, str | None]:
    """What an effect returned, and as a text what it raised."""
    try:
        found = _native.loads(value)
    except ValueError as error:
        return None, f"what it returned is not known here: {error}"
    return (None, f"{found[0]}: {found[1]}") if is_error else (found, None)


def _checked(finished: Any) -> tuple[int, bool, bytes]:
    """Whoever answers may be another client."""
    if isinstance(finished, list) and len(finished) == 3:
        id, is_error, value = finished
        is_answer = type(id) is int and type(is_error) is bool and type(value) is bytes
        if is_answer and len(value) <= VALUE_BYTES_MAX:
            return id, is_error, value
    raise Refused(f"an answer is [number, whether it raised, at most {VALUE_BYTES_MAX} bytes]")


# Their package is not one whose classes are kept.
_names.keep(Outbox)
_names.keep(Task)
