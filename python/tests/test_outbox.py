"""What the outbox keeps of calls that have gone."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from quorate import _outbox
from quorate._outbox import VALUE_BYTES_MAX, Outbox


class Surroundings:
    """What the outbox sees of its group: which calls wait, and what it wants done later."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.waiting: set[tuple[int, int]] = set()
        self.later: list[tuple[str, tuple[Any, ...]]] = []
        native = SimpleNamespace(
            waits_at=lambda _number, *call: call in self.waiting,
            tell_outside=lambda: None,
            object_of=lambda _number: None,
        )
        monkeypatch.setattr(_outbox, "_native", native)
        monkeypatch.setattr(_outbox, "after", self._after)

    def _after(self, _seconds: float, method: str, *args: Any) -> SimpleNamespace:
        self.later.append((method, args))
        return SimpleNamespace(cancel=lambda: None)

    def sweep(self, outbox: Outbox) -> None:
        """The time has come that the outbox asked for."""
        assert [method for method, _ in self.later].count("_sweep") == 1
        self.later = [due for due in self.later if due[0] != "_sweep"]
        outbox._sweep()


def test_few_calls_that_are_gone_do_not_keep_the_outbox_full(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are too few to be looked for because of their number, and a full outbox is asked for nothing."""
    around = Surroundings(monkeypatch)
    outbox = Outbox()
    sequence = 0
    while outbox.has_room:
        sequence += 1
        around.waiting.add((1, sequence))
        for ordinal in range(64):
            outbox._ask(7, [1, sequence], ordinal, "m:f", b"x" * VALUE_BYTES_MAX)
    around.waiting = {(1, sequence)}
    around.sweep(outbox)
    assert outbox.has_room
    assert outbox.load()[:2] == [64, 1], "what is waited for stays"
    around.waiting.clear()
    around.sweep(outbox)
    assert outbox.load() == [0, 0, 0]
    assert "_sweep" not in [method for method, _ in around.later], "nothing is left to look for"
    outbox._ask(7, [1, 1], 0, "m:f", b"")
    assert "_sweep" not in [method for method, _ in around.later], "a call that is gone asks for nothing"
    around.waiting.add((1, 1))
    outbox._ask(7, [1, 1], 0, "m:f", b"")
    around.sweep(outbox)
