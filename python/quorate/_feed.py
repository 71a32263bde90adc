"""What the objects of a group publish, kept for those who watch.

The feed is an object of the group itself, as the directory is. To publish is to send it a message, and to
watch is a call that waits there: so both go on wherever those do.
"""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import Any

from quorate import _calling, _names, _native, _outbox
from quorate._call_stream import CallStream
from quorate._errors import CallsLost, NotFound, ObjectDropped, Overloaded, Refused
from quorate._options import readonly
from quorate._timers import Timer, every

NUMBER = 2**32 - 2
"""The feed's own number."""

CHANGES_MAX = 1024
"""Changes of one object that are kept."""

OBJECT_BYTES_MAX = 1 << 20
"""Bytes of one object's changes."""

FEED_BYTES_MAX = 32 << 20
"""Bytes of all changes; beyond it, of the object that has most the oldest go."""

CHANGE_BYTES = 64
"""What a change takes beside its topic and its value."""

TOPICS_MAX = 64
"""Topics that one call watches."""

TOPIC_BYTES_MAX = 255

WAKES_BYTES_MAX = 64 << 20
"""Bytes that are told in one step, where many watch: who is left is told in the next."""

FOLLOWED_MAX = 64
"""Objects whose calls are followed at one time."""

FOLLOW_SECONDS = 600.0
"""Agreed time for which calls are kept although nobody asks for them."""

SWEEP_SECONDS = 15.0
"""Agreed time between two looks at the calls that are kept, and at who waits for them."""

WATCHING_MIN = 64
"""Calls that are kept for one object before those are looked for that wait no more."""


def is_topic(topic: object) -> bool:
    """Whether it names a topic."""
    return isinstance(topic, str) and 1 <= len(topic.encode(errors="replace")) <= TOPIC_BYTES_MAX


class Stream:
    """The newest changes of one object, each with its number, and who watches for more."""

    def __init__(self) -> None:
        self.last = 0
        self.bytes = 0
        self.kept: deque[tuple[int, str, bytes]] = deque()
        self.watching: list[tuple[_calling.Caller, list[str], int]] = []
        self.room = WATCHING_MIN

    def add(self, topic: str, value: bytes) -> int:
        """Keep one more. Returns how many bytes more there are."""
        self.last += 1
        self.kept.append((self.last, topic, value))
        added = _bytes_of(topic, value)
        self.bytes += added
        while len(self.kept) > CHANGES_MAX or self.bytes > OBJECT_BYTES_MAX:
            added += self.forget_oldest()
        return added

    def forget_oldest(self) -> int:
        """Keep one less. Returns how many bytes more there are."""
        _, topic, value = self.kept.popleft()
        taken = _bytes_of(topic, value)
        self.bytes -= taken
        return -taken

    def told_since(self, seen: int, topics: list[str]) -> list[Any] | None:
        """The last number, how many are lost, and those that are kept; None when there is nothing to tell."""
        lost = max(0, self.last - len(self.kept) - seen)
        newest = islice(reversed(self.kept), min(len(self.kept), self.last - seen))
        found = [list(each) for each in newest if not topics or each[1] in topics][::-1]
        return [self.last, lost, found] if lost or found else None

    def leave_out_gone(self) -> None:
        """Forget those who wait no more, when many have come since the last time."""
        if len(self.watching) >= self.room:
            self.watching = [each for each in self.watching if each[0].is_waiting]
            self.room = max(WATCHING_MIN, 2 * len(self.watching))


class Feed:
    """Keeps what objects publish. Clients call it through `quorate.watch`."""

    _late: dict[tuple[str, int], None] | None = None
    """Methods and objects for which no message had room. A state may be kept without it."""
    _sweeper: Timer | None = None
    """Runs while calls are followed. A state may be kept without it."""

    def __init__(self) -> None:
        self._streams: dict[int, Stream] = {}
        self._calls: dict[int, CallStream] = {}
        self._bytes = 0

    def watch(self, number: int, topics: list[str], seen: int | None) -> Any:
        """Return what an object published after a change that was seen; wait for it.

        Who has seen none asks with None, and is told at once where the stream stands.
        """
        _check(number, topics, seen)
        if _native.object_of(number) is None:
            raise NotFound(f"this group has no object number {number} any more")
        stream = self._streams.setdefault(number, Stream())
        if seen is None:
            return [stream.last, 0, []]
        if seen > stream.last:
            raise Refused(
                f"the object has published {stream.last} changes, and number {seen} is of another one, "
                "perhaps of one that was dropped: watch from the beginning with after=0, or without it"
            )
        told = stream.told_since(seen, topics)
        if told is not None:
            return told
        parked = _calling.park()
        stream.leave_out_gone()
        stream.watching.append((_calling.caller(), topics, seen))
        return parked

    def follow(self, number: int, seen: int | None, after: int | None = None) -> Any:
        """Return the calls of an object behind a place that was seen; wait for them.

        Who has seen none asks with None, and is told at once the place at which the calls begin: here, or
        behind the slot `after`.
        """
        _check(number, [], seen)
        _check(number, [], after)
        if _native.object_of(number) is None:
            raise NotFound(f"this group has no object number {number} any more")
        caller = _calling.caller()
        stream = self._calls.get(number)
        if stream is None:
            stream = self._begin(number, caller.token, after if seen is None else seen)
        stream.is_asked = True
        if seen is None:
            return stream.place_behind(caller.token, after)
        told = stream.told_since(seen)
        if told is not None:
            return told
        parked = _calling.park()
        stream.leave_out_gone()
        stream.waiting.append((caller, seen))
        return parked

    def _go_on(self) -> None:
        """After it was restored: those are followed that were."""
        _native.follow_calls(set(self._calls))

    def _record(self, number: int, slot: int, time_ns: int, call: bytes) -> None:
        """Keep a call of an object that is followed; on every replica in the step in which it took effect."""
        stream = self._calls[number]
        stream.add(slot, time_ns, call)
        if stream.waiting and not stream.is_telling:
            self._tell_soon(number, stream)

    def _tell_soon(self, number: int, stream: CallStream) -> None:
        stream.is_telling = True
        self._send("_tell_calls", number)

    def _send(self, method: str, number: int) -> None:
        """Go on in the next step."""
        try:
            _native.send_message(NUMBER, _native.dump_call(method, (number,), {}))
        except Overloaded:
            # So there are messages to come, and what they do goes on with this.
            if self._late is None:
                self._late = {}
            self._late[method, number] = None

    def _catch_up(self) -> None:
        """Do what was to be done in a step for which no message had room."""
        late, self._late = self._late, None
        for method, number in late or ():
            getattr(self, method)(number)

    @readonly
    def watching(self, number: int) -> int:
        """Return how many calls wait for what an object publishes next."""
        stream = self._streams.get(number)
        if stream is None:
            return 0
        waiting = {(session, sequence) for session, sequence, _ in _native.waiting_at(NUMBER)}
        return sum((caller.session, caller.sequence) in waiting for caller, _, _ in stream.watching)

    @readonly
    def follows_waiting(self, number: int) -> int:
        """Return how many calls wait for the next call of an object."""
        stream = self._calls.get(number)
        return 0 if stream is None else len(stream.waiting)

    def on_session_end(self, session: int) -> None:
        """Whoever it was watches no more."""
        for stream in self._streams.values():
            stream.watching = [each for each in stream.watching if each[0].session != session]
        for calls in self._calls.values():
            calls.waiting = [each for each in calls.waiting if each[0].session != session]

    def _add(self, number: int, topic: str, value: bytes) -> None:
        """An object has published something."""
        stream = self._streams.setdefault(number, Stream())
        self._bytes += stream.add(topic, value)
        while self._bytes > FEED_BYTES_MAX:
            largest = max(self._streams.values(), key=lambda each: each.bytes)
            # Not one by one: so it is looked for seldom.
            for _ in range((len(largest.kept) + 1) // 2):
                self._bytes += largest.forget_oldest()
        self._tell(number)
        self._catch_up()

    def _tell(self, number: int) -> None:
        """Wake who waits for what there is now."""
        stream = self._streams.get(number)
        if stream is None:
            return
        before, stream.watching = stream.watching, []
        told_bytes = 0
        for at, (caller, topics, seen) in enumerate(before):
            if told_bytes > WAKES_BYTES_MAX:
                stream.watching += before[at:]
                self._send("_tell", number)
                return
            if not caller.is_waiting:
                continue
            told = stream.told_since(seen, topics)
            if told is None:
                # What passed was not for it, and is not lost when it goes.
                stream.watching.append((caller, topics, stream.last))
            else:
                caller.wake(told)
                told_bytes += sum(_bytes_of(topic, value) for _, topic, value in told[2])

    def _begin(self, number: int, token: int, wanted: int | None) -> CallStream:
        """From here on the calls of an object are kept."""
        if wanted is not None:
            raise CallsLost("nobody followed the object's calls for a while, and they are kept no more")
        if len(self._calls) >= FOLLOWED_MAX:
            raise Overloaded(f"the calls of {FOLLOWED_MAX} objects of this group are followed already")
        # First, for it may find no room.
        self._sweep_from_now()
        stream = self._calls[number] = CallStream(token)
        _native.follow_calls(set(self._calls))
        return stream

    def _tell_calls(self, number: int) -> None:
        """Wake who waits for the calls that there are now."""
        stream = self._calls.get(number)
        if stream is None:
            return
        stream.is_telling = False
        before, stream.waiting = stream.waiting, []
        told_bytes = 0
        for at, (caller, seen) in enumerate(before):
            if told_bytes > WAKES_BYTES_MAX:
                stream.waiting += before[at:]
                self._tell_soon(number, stream)
                return
            if not caller.is_waiting:
                continue
            try:
                told = stream.told_since(seen)
            except CallsLost as lost:
                caller.fail(lost)
                continue
            if told is None:
                stream.waiting.append((caller, seen))
            else:
                caller.wake(told)
                told_bytes += sum(CHANGE_BYTES + len(call) for _, _, call in told)

    def _sweep_from_now(self) -> None:
        if self._sweeper is None:
            self._sweeper = every(SWEEP_SECONDS, "_sweep")

    def _sweep(self) -> None:
        """Keep the calls of an object no more if nobody has asked for them for long.

        Who waits is told anew what is to be told: the message that did may be lost with a step that ended
        hosts.
        """
        self._catch_up()
        now = _native.agreed_time_ns()
        for number, stream in list(self._calls.items()):
            if stream.is_telling:
                self._tell_soon(number, stream)
            if stream.is_asked or any(caller.is_waiting for caller, _ in stream.waiting):
                stream.is_asked, stream.asked_ns = False, now
            stream.asked_ns = stream.asked_ns or now
            if now - stream.asked_ns >= FOLLOW_SECONDS * 1e9:
                self._end(number)
        if not self._calls and self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None

    def _rest(self, _number: int) -> None:
        """An earlier build had a timer for each object, which comes from its states."""
        self._catch_up()
        self._sweep_from_now()

    def _end(self, number: int) -> None:
        del self._calls[number]
        _native.follow_calls(set(self._calls))

    def _drop(self, number: int) -> None:
        """An object was dropped."""
        self._catch_up()
        if number in self._calls:
            for caller, _ in self._calls[number].waiting:
                if caller.is_waiting:
                    caller.fail(ObjectDropped("the object whose calls this one follows was dropped"))
            self._end(number)
        stream = self._streams.pop(number, None)
        if stream is None:
            return
        self._bytes -= stream.bytes
        for caller, _, _ in stream.watching:
            if caller.is_waiting:
                caller.fail(ObjectDropped("the object that this call watches was dropped"))

    @property
    def is_pristine(self) -> bool:
        """Whether nothing was ever published or watched."""
        return not self._streams and not self._calls


def _bytes_of(topic: str, value: bytes) -> int:
    return CHANGE_BYTES + len(topic.encode(errors="replace")) + len(value)


def _check(number: Any, topics: Any, seen: Any) -> None:
    """Whoever asks may have another client."""
    if not isinstance(topics, list) or len(topics) > TOPICS_MAX or not all(map(is_topic, topics)):
        raise Refused(f"watch names {TOPICS_MAX} topics at most, of 1 to {TOPIC_BYTES_MAX} bytes each")
    if type(number) is not int or not 0 <= number < _outbox.NUMBER:
        raise NotFound(f"this group has no object number {number!r:.80}")
    if seen is not None and (type(seen) is not int or seen < 0):
        raise Refused(f"{seen!r:.80} is no number of a change")


# Their package is not one whose classes are kept.
_names.keep(Feed)
_names.keep(Stream)
_names.keep(CallStream)
