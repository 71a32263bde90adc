"""What the outbox does about what is lost: answers, deals, workers, timers, and calls that have gone."""

from __future__ import annotations

import heapq
from types import SimpleNamespace
from typing import Any

import pytest

from quorate import Overloaded, Refused, _native, _outbox
from quorate._outbox import VALUE_BYTES_MAX, Outbox

TIMERS_MAX = 10_000
LONG_S = 150.0
"""Longer than anything is waited for."""


class Surroundings:
    """What the outbox sees of its group: the time, which calls wait, its timers, and its workers."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_ns = 1
        self.waiting: set[tuple[int, int]] = set()
        self.timers: dict[int, tuple[int, int, str]] = {}
        """By number: when, and then again after how long, which method."""
        self.room = TIMERS_MAX
        self.session = 1
        self.parked: dict[tuple[int, int], Any] = {}
        self.sent: list[tuple[int, Any]] = []
        self.is_full = False
        self._last = 0
        native = SimpleNamespace(
            waits_at=lambda _number, *call: call in self.waiting,
            tell_outside=lambda: None,
            object_of=lambda _number: self,
            agreed_time_ns=lambda: self.now_ns,
            send_message=self._send,
            dump_call=lambda method, args, _: _native.dumps([method, list(args)]),
            dumps=_native.dumps,
            loads=_native.loads,
        )
        monkeypatch.setattr(_outbox, "_native", native)
        monkeypatch.setattr(_outbox, "after", lambda after_s, method, *_: self._set(after_s, 0, method))
        monkeypatch.setattr(_outbox, "every", lambda every_s, method: self._set(every_s, every_s, method))
        monkeypatch.setattr(_outbox, "_calling", SimpleNamespace(caller=self._caller, park=lambda: "parked"))

    def _send(self, number: int, call: bytes) -> bool:
        if self.is_full:
            raise Overloaded("too many messages")
        self.sent.append((number, _native.loads(call.removeprefix(_outbox.RESULT))))
        return True

    def _set(self, after_s: float, every_s: float, method: str) -> Any:
        if len(self.timers) >= self.room:
            raise Overloaded(f"{TIMERS_MAX} timers")
        number = self._last = self._last + 1
        self.timers[number] = self.now_ns + int(after_s * 1e9), int(every_s * 1e9), method
        return SimpleNamespace(cancel=lambda: self.timers.pop(number, None) is not None)

    def _caller(self) -> Any:
        self._last += 1
        call = (self.session, self._last)
        self.parked[call] = None
        return SimpleNamespace(
            session=self.session, is_waiting=True, wake=lambda task: self.parked.update({call: task})
        )

    def pass_time(self, outbox: Outbox, seconds: float) -> None:
        """Timers that are due run, one after the other."""
        until = self.now_ns + int(seconds * 1e9)
        while True:
            due = [(at, number) for number, (at, _, _) in self.timers.items() if at <= until]
            if not due:
                break
            heapq.heapify(due)
            self.now_ns, number = due[0][0], due[0][1]
            _, every_ns, method = self.timers.pop(number)
            if every_ns:
                self.timers[number] = self.now_ns + every_ns, every_ns, method
            getattr(outbox, method)()
        self.now_ns = until

    def leave_out_tick(self) -> None:
        """A tick at which hosts died is left out, with all that was due in it but not set for ever."""
        self.timers = {number: timer for number, timer in self.timers.items() if timer[1]}


@pytest.fixture
def around(monkeypatch: pytest.MonkeyPatch) -> Surroundings:
    """What the outbox of a test sees."""
    return Surroundings(monkeypatch)


def full(around: Surroundings) -> Outbox:
    """An outbox that few calls have filled with large values."""
    outbox = Outbox()
    sequence = 0
    while outbox.has_room:
        sequence += 1
        around.waiting.add((1, sequence))
        for ordinal in range(64):
            outbox._ask(7, [1, sequence], ordinal, "m:f", b"x" * VALUE_BYTES_MAX)
    return outbox


def with_effect(then: str | None = None) -> Outbox:
    outbox = Outbox()
    outbox._act(7, "m:f", b"", "key", then)
    return outbox


def fails(deal: list[Any]) -> list[Any]:
    """The answer that the task of a deal has raised."""
    return [deal[0], True, _native.dumps(["builtins.ValueError", "no"]), deal[4]]


def does(deal: list[Any]) -> list[Any]:
    """The answer that the task of a deal is done."""
    return [deal[0], False, _native.dumps("done"), deal[4]]


def tries(outbox: Outbox) -> list[int]:
    return [task.tries for task in outbox._open.values()]


def test_few_calls_that_are_gone_do_not_keep_the_outbox_full(around: Surroundings) -> None:
    """They are too few to be looked for because of their number, and a full outbox is asked for nothing."""
    outbox = full(around)
    around.waiting = {(1, 1)}
    around.pass_time(outbox, 20)
    assert outbox.has_room
    assert outbox.load()[:2] == [64, 1], "what is waited for stays"
    around.waiting.clear()
    around.pass_time(outbox, 20)
    assert outbox.load() == [0, 0, 0]
    assert not around.timers, "nothing is left to look for"
    outbox._ask(7, [1, 1], 0, "m:f", b"")
    assert not around.timers, "a call that is gone asks for nothing"


def test_a_tick_that_is_left_out_does_not_keep_the_outbox_full(around: Surroundings) -> None:
    """Nobody asks a full outbox for anything that would begin the search anew."""
    outbox = full(around)
    around.waiting.clear()
    around.leave_out_tick()
    around.pass_time(outbox, 20)
    assert outbox.load() == [0, 0, 0]


def test_what_finds_no_room_for_a_timer_is_not_half_done(around: Surroundings) -> None:
    """Messages that are on their way to the outbox take all of them."""
    outbox = Outbox()
    around.room = 0
    around.waiting = {(1, 1)}
    with pytest.raises(Overloaded):
        outbox._ask(7, [1, 1], 0, "m:f", b"")
    with pytest.raises(Overloaded):
        outbox._act(7, "m:f", b"", "key", None)
    assert outbox.load() == [0, 0, 0]


def test_an_error_of_a_worker_that_was_replaced_is_no_try(around: Surroundings) -> None:
    """Claim rp-78."""
    outbox = with_effect()
    of_first = outbox.next(None, True)
    around.session = 2
    of_second = outbox.next(None, True)
    assert of_second[:4] == of_first[:4]
    assert of_second[4] > of_first[4]
    around.session = 1
    with pytest.raises(Refused, match="another worker"):
        outbox.next(fails(of_first))
    assert tries(outbox) == [0]
    assert not outbox._ready, "the second worker has it still"
    around.session = 2
    assert outbox.next(does(of_second)) == "parked"
    assert outbox.load() == [0, 0, 0]


def test_an_error_that_is_told_twice_is_one_try(around: Surroundings) -> None:
    outbox = with_effect()
    deal = outbox.next(None, True)
    outbox.next(fails(deal))
    outbox.next(fails(deal))
    assert tries(outbox) == [1]
    around.pass_time(outbox, 1)
    dealt = [task for task in around.parked.values() if task]
    assert len(dealt) == 1, "one rest, one next try"
    outbox.next(fails(deal))
    assert tries(outbox) == [1], "it is being tried again"


def test_a_success_counts_once_whoever_tells_it(around: Surroundings) -> None:
    outbox = with_effect("paid")
    late = outbox.next(None, True)
    around.session = 2
    newest = outbox.next(None, True)
    outbox.settle(does(late))
    assert outbox.next(fails(newest)) == "parked"
    assert outbox.next(does(newest)) == "parked"
    assert around.sent == [(7, ["paid", ["key", "done", None]])]
    assert outbox.load() == [0, 0, 0]


def test_a_deal_that_nobody_answers_is_dealt_again(around: Surroundings) -> None:
    """Claim rp-78: the worker has lost the answer of its question, and lives."""
    outbox = with_effect()
    lost = outbox.next(None, True)
    around.leave_out_tick()
    assert outbox.next(None) == "parked"
    around.pass_time(outbox, 74)
    assert not any(around.parked.values())
    around.pass_time(outbox, LONG_S - 74)
    (again,) = [task for task in around.parked.values() if task]
    assert again[:4] == lost[:4]
    assert again[4] != lost[4]


def test_a_value_whose_deal_is_lost_is_captured_all_the_same(around: Surroundings) -> None:
    """Claim rp-77: it is dealt again before it is given up."""
    outbox = Outbox()
    around.waiting = {(1, 1)}
    outbox._ask(7, [1, 1], 0, "m:f", b"")
    outbox.next(None, True)
    assert outbox.next(None) == "parked"
    around.pass_time(outbox, 100)
    (again,) = [task for task in around.parked.values() if task]
    outbox.next(does(again))
    around.pass_time(outbox, LONG_S)
    assert outbox._value_of((1, 1), 0, "m:f", b"") == (False, does(again)[2])


def test_an_effect_that_rests_outlives_a_tick_that_is_left_out(around: Surroundings) -> None:
    outbox = with_effect()
    outbox.next(fails(outbox.next(None, True)))
    around.leave_out_tick()
    around.pass_time(outbox, 30)
    assert any(around.parked.values())


def test_an_effect_that_rests_outlives_that_there_is_no_timer(around: Surroundings) -> None:
    """Timers and messages to the outbox share a bound."""
    outbox = with_effect()
    deal = outbox.next(None, True)
    around.room = 0
    outbox.next(fails(deal))
    around.pass_time(outbox, 30)
    assert any(around.parked.values())


def test_what_an_effect_returned_is_told_though_no_message_has_room_for_a_while(around: Surroundings) -> None:
    outbox = with_effect("paid")
    deal = outbox.next(None, True)
    around.is_full, around.room = True, 0
    outbox.next(does(deal))
    around.pass_time(outbox, 30)
    assert outbox.load()[0] == 0
    assert outbox.load()[2] > 0, "it counts until it is sent"
    around.is_full = False
    around.pass_time(outbox, 30)
    assert around.sent == [(7, ["paid", ["key", "done", None]])]
    assert outbox.load() == [0, 0, 0]
    assert not around.timers


def test_an_error_that_cannot_be_read_is_told_all_the_same(around: Surroundings) -> None:
    """Whoever answers may be another client."""
    outbox = with_effect("paid")
    for _ in range(_outbox.TRIES_MAX):
        deal = outbox.next(None, True)
        if deal == "parked":
            around.pass_time(outbox, 10)
            deal = next(task for task in around.parked.values() if task)
            around.parked.clear()
        outbox.settle([deal[0], True, _native.dumps(7), deal[4]])
    ((_, (method, (key, value, told))),) = around.sent
    assert (method, key, value) == ("paid", "key", None)
    assert told.startswith("what came of it is not known here")


def test_a_value_that_nobody_captures_is_given_up(around: Surroundings) -> None:
    outbox = Outbox()
    around.waiting = {(1, 1)}
    outbox._ask(7, [1, 1], 0, "m:f", b"")
    around.leave_out_tick()
    around.pass_time(outbox, LONG_S)
    found = outbox._value_of((1, 1), 0, "m:f", b"")
    assert found[0]
    assert "within 120 s" in _native.loads(found[1])[1]


def test_a_state_of_an_earlier_build_goes_on(around: Surroundings) -> None:
    """Its attributes are those of that build, and what its worker had was never numbered."""
    outbox = with_effect()
    around.waiting = {(1, 1)}
    outbox._ask(7, [1, 1], 0, "m:f", b"")
    outbox._ready.clear()
    of_now = {"deal", "dealt_ns", "asked_ns"}
    for task in outbox._open.values():
        task.__dict__ = {name: value for name, value in vars(task).items() if name not in of_now}
    of_now = {"_deals", "_alarm", "_alarm_ns", "_again_at", "_unsent", "_sweeper"}
    outbox.__dict__ = {name: value for name, value in vars(outbox).items() if name not in of_now}
    around.timers.clear()
    first, second = outbox.next(None, True), outbox.next(None)
    assert (first[3], second[3]) == ("key", None)
    outbox.next([first[0], True, _native.dumps(["builtins.ValueError", "no"])])
    assert tries(outbox) == [1, 0]
    around.pass_time(outbox, 30)
    assert any(around.parked.values())
    around.pass_time(outbox, LONG_S)
    assert outbox._value_of((1, 1), 0, "m:f", b"")[0]
