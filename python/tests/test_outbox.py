"""What the outbox keeps of calls that have gone."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from quorate import Overloaded, _outbox
from quorate._outbox import VALUE_BYTES_MAX, Outbox

TIMERS_MAX = 10_000


class Surroundings:
    """What the outbox sees of its group: which calls wait, and its timers."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.waiting: set[tuple[int, int]] = set()
        self.once: dict[int, str] = {}
        self.repeated: dict[int, str] = {}
        self._last = 0
        native = SimpleNamespace(
            waits_at=lambda _number, *call: call in self.waiting,
            tell_outside=lambda: None,
            object_of=lambda _number: None,
        )
        monkeypatch.setattr(_outbox, "_native", native)
        monkeypatch.setattr(_outbox, "after", lambda _, method, *__: self._set(self.once, method))
        monkeypatch.setattr(_outbox, "every", lambda _, method: self._set(self.repeated, method))

    def _set(self, timers: dict[int, str], method: str) -> Any:
        if len(self.once) + len(self.repeated) >= TIMERS_MAX:
            raise Overloaded(f"{TIMERS_MAX} timers")
        number = self._last = self._last + 1
        timers[number] = method
        return SimpleNamespace(cancel=lambda: timers.pop(number, None))

    def run(self, outbox: Outbox) -> None:
        """Time passes: what repeats runs once."""
        for method in list(self.repeated.values()):
            getattr(outbox, method)()

    def leave_out_tick(self) -> None:
        """A tick at which hosts died is left out, with all that was due in it but not set for ever."""
        self.once.clear()


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


def test_few_calls_that_are_gone_do_not_keep_the_outbox_full(around: Surroundings) -> None:
    """They are too few to be looked for because of their number, and a full outbox is asked for nothing."""
    outbox = full(around)
    around.waiting = {(1, 1)}
    around.run(outbox)
    assert outbox.has_room
    assert outbox.load()[:2] == [64, 1], "what is waited for stays"
    around.waiting.clear()
    around.run(outbox)
    assert outbox.load() == [0, 0, 0]
    assert not around.repeated, "nothing is left to look for"
    outbox._ask(7, [1, 1], 0, "m:f", b"")
    assert not around.repeated, "a call that is gone asks for nothing"
    around.waiting.add((1, 1))
    outbox._ask(7, [1, 1], 0, "m:f", b"")
    assert list(around.repeated.values()) == ["_sweep"]


def test_a_tick_that_is_left_out_does_not_keep_the_outbox_full(around: Surroundings) -> None:
    """Nobody asks a full outbox for anything that would begin the search anew."""
    outbox = full(around)
    around.waiting.clear()
    around.leave_out_tick()
    around.run(outbox)
    assert outbox.load() == [0, 0, 0]


def test_calls_are_looked_for_once_there_is_a_timer_again(around: Surroundings) -> None:
    """All timers may be those of effects that rest."""
    outbox = Outbox()
    for number in range(TIMERS_MAX):
        outbox._act(7, "m:f", b"", str(number), None)
    for id in list(outbox._open):
        outbox._take_answer(id, True, b"")
    around.waiting = {(1, 1)}
    with pytest.raises(Overloaded):
        outbox._ask(7, [1, 1], 0, "m:f", b"")
    assert outbox.load()[1] == 0, "nothing is half done"
    around.once.clear()
    outbox._ask(7, [1, 1], 0, "m:f", b"")
    assert list(around.repeated.values()) == ["_sweep"]
