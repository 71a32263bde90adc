"""What the objects of a group want done outside of them: asked for by messages, done by the leader's worker.

The outbox is an object of the group itself, as the directory is. So what is asked for outlives every machine,
and what came of it counts once: the first answer does. The worker is a client that calls `next`.
"""

from __future__ import annotations

import heapq
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
"""How often a task is given to workers that do not answer: it may be what ends them."""

DEAL_SECONDS = 75.0
"""Agreed time after which a task that was given to a worker is given again: it has given up what takes longer
than 60 seconds, and a value that is captured is waited for a little longer."""

SWEEP_SECONDS = 15.0
"""Agreed time between two looks at what has been waited for too long."""

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

RESULT = b"\x01"
"""Stands before the call of a message with the result of an effect: a tick that is left out puts it off."""

TASK_BYTES = 256
"""What a task takes beside its arguments and its value."""

ASKED_MIN = 64
"""Calls whose values are kept before those are looked for that wait no more."""


class Task:
    """A function that is to be called outside, for a call that waits for its value, or as an effect."""

    # A state of an earlier build is kept without these.
    deal = 0
    """The number of the deal with which a worker has it; 0 while none has it."""
    dealt_ns = 0
    asked_ns = 0
    limit: Timer | None = None
    """Of an earlier build: when it would be given up."""

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
        """How often it was given to a worker since one has answered."""
        self.tries = 0
        self.rests = False
        """Whether it waits for its next try."""
        self.asked_ns = _native.agreed_time_ns()
        self.answer: tuple[bool, bytes] | None = None
        """Whether it raised, and what or which error came of it, encoded."""

    @property
    def bytes(self) -> int:
        """What it takes."""
        return TASK_BYTES + len(self.path) + len(self.args) + len(self.answer[1] if self.answer else b"")


class Outbox:
    """Keeps what is to be done outside. The worker of the node that leads calls it."""

    # A state of an earlier build is kept without these.
    _sweeper: Timer | None = None
    """Looks now and then for what has been waited for too long."""
    _deals = 0
    """The number of the newest deal."""
    _alarm: Timer | None = None
    """The next time at which something is to be tried again; the sweeper finds what it misses."""
    _alarm_ns = 0
    _again_at: list[tuple[int, int]] | None = None
    """When which tasks have rested; 0 stands for the messages that are not sent. A heap."""
    _unsent: list[tuple[int, bytes]] | None = None
    """Messages to objects to which too many are on their way."""

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
        """Take what came of a task, and return the next one with the number of this deal; wait for it.

        `finished` is [number, whether it raised, encoded value or error, deal]. A worker that says that it
        comes for the first time takes over from the one before, with all that this one had.
        """
        if finished is not None:
            self._take_answer(*_checked(finished))
        caller = _calling.caller()
        if is_first and caller.session != self._worker:
            self._release()
            self._worker = caller.session
            if self._open:
                self._sweep_from_now()
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

    def settle(self, finished: list[Any]) -> None:
        """Take what came of a task that the worker had given up."""
        self._take_answer(*_checked(finished))

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
        return len(self._open) + len(self._unsent or ()) < TASKS_MAX and self._bytes < BYTES_MAX

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
        self._sweep_from_now()
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
        if len(self._asked) >= self._room:
            self._leave_out_gone()
        self._hand_out()

    def _act(self, number: int, path: str, args: bytes, key: str, then: str | None) -> None:
        """Something was decided that is to be done outside."""
        self._sweep_from_now()
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
            self._finish(self._open[id], True, _error(told))

    def _again(self, id: int) -> None:
        """An effect that raised has rested."""
        task = self._open.get(id)
        if task is not None and task.rests:
            task.rests = False
            self._ready.append(id)
            self._hand_out()

    def _poke(self, number: int) -> None:
        """Have the calls that wait at an object go on, if they can."""
        self._send(number, _native.dump_call("", (), {}))

    def _send(self, number: int, call: bytes) -> None:
        if _native.object_of(number) is None:
            return
        try:
            _native.send_message(number, call)
        except Overloaded:
            if not self._unsent:
                self._unsent = []
                self._ring_in(POKE_SECONDS, 0)
            self._unsent.append((number, call))
            self._bytes += len(call)

    def _ring_in(self, seconds: float, id: int) -> None:
        """Have a task tried again, or with 0 what is unsent, after some agreed time."""
        if self._again_at is None:
            self._again_at = []
        heapq.heappush(self._again_at, (_native.agreed_time_ns() + int(seconds * 1e9), id))
        self._set_alarm()

    def _set_alarm(self, is_over: bool = False) -> None:
        """One timer for all: an object has few, and messages to it are timers too."""
        first_ns = self._again_at[0][0] if self._again_at else 0
        if self._alarm is not None and first_ns == self._alarm_ns and not is_over:
            return
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        if not first_ns:
            return
        try:
            self._alarm = after(max(0, first_ns - _native.agreed_time_ns()) / 1e9, "_ring")
            self._alarm_ns = first_ns
        except Overloaded:
            return  # the sweeper comes

    def _ring(self) -> None:
        """What has rested is tried again."""
        now = _native.agreed_time_ns()
        while self._again_at and self._again_at[0][0] <= now:
            _, id = heapq.heappop(self._again_at)
            if id:
                self._again(id)
            else:
                self._send_again()
        # The one that rang is over, or a tick that was left out has dropped it.
        self._set_alarm(is_over=True)

    def _send_again(self) -> None:
        unsent, self._unsent = self._unsent or [], None
        for number, call in unsent:
            self._bytes -= len(call)
            self._send(number, call)

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
            if task is None or task.deal or task.rests:
                continue
            if task.call is not None and not _native.waits_at(task.number, *task.call):
                self._forget_task(task)
                continue
            if task.deals >= DEALS_MAX:
                told = f"{task.path} was given to workers {DEALS_MAX} times, and none of them answered"
                self._finish(task, True, _error(f"{told}: see the nodes' logs"))
                continue
            task.deals += 1
            task.deal = self._deals = self._deals + 1
            task.dealt_ns = _native.agreed_time_ns()
            return [task.id, task.path, task.args, task.key, task.deal]
        return None

    def _take_answer(self, id: int, is_error: bool, value: bytes, deal: int | None) -> None:
        """A success counts whoever tells it; an error only if nobody else has the task meanwhile."""
        task = self._open.get(id)
        if task is None:
            return  # another answer was faster, or nobody waits any more
        if not is_error:
            self._finish(task, False, value)
            return
        if (deal is not None and deal != task.deal) or task.rests:
            return
        task.tries += 1
        task.deal = 0
        if task.call is None and task.tries < TRIES_MAX:
            task.deals, task.rests = 0, True
            self._ring_in(FIRST_REST * 2 ** (task.tries - 1), id)
        else:
            self._finish(task, True, value)

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
            told = _native.dump_call(task.then, (task.key, *_plain(is_error, value)), {})
            self._send(task.number, RESULT + told)

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
        for task in self._open.values():
            task.deal = 0

    def _leave_out_gone(self) -> None:
        """Forget what was asked for by calls that wait no more."""
        for call, asked in list(self._asked.items()):
            task = next(iter(asked.values()), None)
            if task is None or not _native.waits_at(task.number, *call):
                self._forget(*call)
        self._room = max(ASKED_MIN, 2 * len(self._asked))

    def _sweep_from_now(self) -> None:
        # A timer that repeats outlives ticks that are left out; others are put off once.
        if self._sweeper is None:
            self._sweeper = every(SWEEP_SECONDS, "_sweep")

    def _sweep(self) -> None:
        """Few calls can hold many bytes, and when these are full nobody asks any more."""
        self._leave_out_gone()
        now = _native.agreed_time_ns()
        for task in list(self._open.values()):
            task.asked_ns = task.asked_ns or now
            if task.call is not None and now - task.asked_ns >= CAPTURE_SECONDS * 1e9:
                self._give_up(task.id)
            elif task.deal and now - task.dealt_ns >= DEAL_SECONDS * 1e9:
                # Its answer is lost, or the deal was.
                task.deal = 0
                self._ready.append(task.id)
        self._ring()
        self._hand_out()
        if not self._asked and not self._open and not self._unsent and self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None


def _error(told: str) -> bytes:
    return _native.dumps(list(_raised.describe(CaptureFailed(told))))


def _plain(is_error: bool, value: bytes) -> tuple[Any, str | None]:
    """What an effect returned, and as a text what it raised."""
    try:
        found = _native.loads(value)
        return (None, f"{found[0]}: {found[1]}") if is_error else (found, None)
    except (ValueError, TypeError, LookupError) as error:
        return None, f"what came of it is not known here: {error}"


def _checked(finished: Any) -> tuple[int, bool, bytes, int | None]:
    """Whoever answers may be another client; a log may have answers of earlier builds, without a deal."""
    if isinstance(finished, list) and len(finished) in {3, 4}:
        id, is_error, value, *deals = finished
        is_answer = type(id) is int and type(is_error) is bool and type(value) is bytes
        if is_answer and len(value) <= VALUE_BYTES_MAX and all(type(each) is int and each for each in deals):
            return id, is_error, value, deals[0] if deals else None
    raise Refused(f"an answer is [number, whether it raised, at most {VALUE_BYTES_MAX} bytes, deal]")


# Their package is not one whose classes are kept.
_names.keep(Outbox)
_names.keep(Task)
