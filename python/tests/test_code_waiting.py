"""A change of an object's code, while calls wait at the object and timers of it are to come."""

from __future__ import annotations

import contextlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from patience import PATIENCE_S, until
from test_code import Place

import quorate

BELL = """
import quorate

class Bell:
    def __init__(self):
        self.waiting = []
        self.rung = []

    def begin(self):
        quorate.every(0.5, self._strike)
        self.far = quorate.after(3600, self._strike)

    def wait(self, name):
        self.waiting.append((name, quorate.caller()))
        return quorate.park()

    def names(self):
        return [name for name, caller in self.waiting if caller.is_waiting]

    def struck(self):
        return self.rung

    def ring(self):
        name, caller = self.waiting.pop(0)
        caller.wake(["old", name])

    def _strike(self):
        self.rung.append("old")
"""

NEW_BELL = BELL.replace('self.rung.append("old")', 'self.rung.append("new")\n        self._end()').replace(
    'caller.wake(["old", name])', 'caller.wake(["new", name])'
)
NEW_BELL += """
    def _end(self):
        if len(self.waiting) > 1:
            name, caller = self.waiting.pop()
            caller.wake(["struck", name])

    def end(self):
        return self.far.is_set, self.far.cancel(), self.far.is_set
"""


class BellPlace(Place):
    """A directory with the module of a bell."""

    CLASS = "tally:Bell"


def test_calls_that_wait_and_timers_survive_a_change_of_the_code(tmp_path: Path) -> None:
    """Claim rp-114."""
    place = BellPlace(tmp_path, BELL)
    with ThreadPoolExecutor(3) as threads, contextlib.ExitStack() as block:
        with place.start() as ready:
            # The same client goes on, so its session must outlive the stop.
            connection = quorate.connect(ready["endpoint"], timeout=PATIENCE_S, session_timeout=600)
            bell: Any = block.enter_context(connection)
            bell.begin()
            waiting = {}
            for name in "abc":
                waiting[name] = threads.submit(bell.wait, name)
                until(lambda: bell.names()[-1:] == [name])  # noqa: B023
            until(lambda: "old" in bell.struck())
            assert bell.ring() is None and waiting.pop("a").result(PATIENCE_S) == ["old", "a"]
        place.write(NEW_BELL)
        assert "--accept-code" in place.refused()
        assert not any(call.done() for call in waiting.values())
        with place.start("--accept-code") as ready:
            # The timer of the old code calls the method of the new one, which wakes the last that waits.
            assert waiting["c"].result(PATIENCE_S) == ["struck", "c"]
            assert "new" in bell.struck() and "old" in bell.struck()
            rung = len(bell.struck())
            until(lambda: len(bell.struck()) > rung)
            assert (bell.names(), waiting["b"].done()) == (["b"], False)
            bell.ring()
            assert waiting["b"].result(PATIENCE_S) == ["new", "b"]
            with pytest.raises(IndexError):
                bell.ring()
            assert bell.names() == []
            with quorate.group(ready["endpoint"]) as group:
                assert group.describe("Bell")["waiting"] == []
            assert bell.end() == (True, True, False)
