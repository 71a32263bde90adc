"""A class that reaches outside, and functions there, which note in a folder that they were called."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import quorate
from quorate import _native, _outbox


def note(folder: str, what: object) -> str:
    """Leave a file that says what was done: wholly, or not at all."""
    name = f"{time.time_ns()}-{os.getpid()}-{threading.get_ident()}"
    hidden = Path(folder, f".{name}")
    hidden.write_text(str(what))
    hidden.rename(Path(folder, name))
    return str(what)


def noted(folder: str) -> list[str]:
    """What was done, in its order."""
    return [path.read_text() for path in sorted(Path(folder).glob("[!.]*"))]


def pid(folder: str) -> int:
    """The number of the process, which every process has for itself."""
    note(folder, "pid")
    return os.getpid()


def fails(folder: str, text: str) -> None:
    """It does not go well."""
    note(folder, text)
    raise LookupError(text)


def large(size: int) -> bytes:
    """So many bytes."""
    return bytes(size)


def travels_not() -> object:
    """Something that cannot be sent."""
    return object()


def same(value: int) -> int:
    """What it was."""
    return value


async def later(value: int) -> int:
    """It may be `async`."""
    return value + 1


def pay(folder: str, amount: int, key: str) -> str:
    """What has a key for the service."""
    note(folder, f"{key} {amount}")
    return f"paid {amount}"


def ends_its_process_once(folder: str, key: str) -> str:
    """The first time, the worker is killed while it does this."""
    note(folder, key)
    if len(noted(folder)) == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return "done"


def ends_its_process(folder: str) -> None:
    """Each time."""
    note(folder, "begun")
    os.kill(os.getpid(), signal.SIGKILL)


def waits_for(path: str) -> str:
    """Until there is a file of that name."""
    ends = time.monotonic() + 20
    while not os.path.exists(path):
        if time.monotonic() > ends:
            raise TimeoutError(path)
        time.sleep(0.01)
    return path


class Reacher:
    """Reaches outside."""

    def __init__(self) -> None:
        self.tries = 0
        self.found: list[Any] = []
        self.told: list[Any] = []
        self.items: list[Any] = []

    def capture_pid(self, folder: str) -> int:
        """Keep the number of the process outside, and return it."""
        self.tries += 1
        self.found.append(quorate.capture(pid, folder))
        return int(self.found[-1])

    def capture_two(self, folder: str, first: str, second: str) -> list[str]:
        """Two values."""
        return [quorate.capture(note, folder, first), quorate.capture(note, folder, second)]

    def capture_after_wait(self, folder: str) -> Any:
        """Waits for an item, and for a value that depends on it."""
        quorate.wait_until(lambda: self.items)
        item = self.items[0]
        value = quorate.capture(note, folder, item)
        self.items.pop(0)
        return value

    def put(self, item: object) -> None:
        """Something to wait for."""
        self.items.append(item)

    def capture_later(self, value: int) -> int:
        """From an async function."""
        return quorate.capture(later, value)

    def capture_failing(self, folder: str, text: str) -> str:
        """The function raises; the method goes on."""
        self.tries += 1
        try:
            quorate.capture(fails, folder, text)
        except LookupError as error:
            return f"caught {error}"
        return "nothing was raised"

    def capture_raised(self, folder: str, text: str) -> None:
        """The function raises, and so does the method."""
        quorate.capture(fails, folder, text)

    def capture_large(self, size: int) -> int:
        """A value of some size."""
        return len(quorate.capture(large, size))

    def capture_odd(self) -> object:
        """A value that does not travel."""
        return quorate.capture(travels_not)

    def capture_local(self) -> object:
        """A function that no module has by its name."""
        return quorate.capture(lambda: 7)

    def capture_many(self, count: int) -> int:
        """So many values by one call."""
        return sum(quorate.capture(same, at) for at in range(count))

    def capture_poison(self, folder: str) -> None:
        """Whoever captures it is killed."""
        quorate.capture(ends_its_process, folder)

    def capture_waiting(self, path: str) -> str:
        """Waits outside for a file."""
        return quorate.capture(waits_for, path)

    def capture_of_others(self) -> int:
        """A function of the standard library."""
        return quorate.capture(os.system, "true")

    def ask_for(self, path: str) -> Any:
        """As a class would that goes around what `capture` checks."""
        waiting = _native.current_call()
        assert waiting is not None
        encoded = _native.dumps(["true"])
        outbox: Any = _native.object_of(_outbox.NUMBER)
        found = outbox._value_of(waiting[:2], 0, path, encoded)
        if found is not None:
            return _native.loads(found[1])[:2]
        asked = (_native.running_number(), list(waiting[:2]), 0, path, encoded)
        _native.send_message(_outbox.NUMBER, _native.dump_call("_ask", asked, {}), True)
        quorate.wait_until(lambda: False)
        return None

    def pay(self, folder: str, amount: int, key: str | None = None) -> str:
        """An effect with a result."""
        return quorate.effect(pay, folder, amount, key=key, then=self.paid)

    def paid(self, key: str, value: Any, error: str | None) -> None:
        """What came of it."""
        self.told.append([key, value, error])

    def fail_outside(self, folder: str, text: str) -> str:
        """An effect that raises."""
        return quorate.effect(fails, folder, text, then="paid")

    def end_worker(self, folder: str) -> str:
        """An effect that kills the worker the first time."""
        return quorate.effect(ends_its_process_once, folder, then="paid")

    def effect_to(self, then: str) -> str:
        """Where the result goes."""
        return quorate.effect(later, 1, then=then)

    def effects(self, folder: str, count: int) -> None:
        """Many at once."""
        for at in range(count):
            quorate.effect(pay, folder, at, then=self.paid)

    def effect_by_timer(self, folder: str) -> None:
        """Nobody calls then."""
        quorate.after(0, self._act_and_capture, folder)

    def _act_and_capture(self, folder: str) -> None:
        quorate.effect(pay, folder, 1, then=self.paid)
        try:
            quorate.capture(same, 1)
        except quorate.NotInCall as error:
            self.found.append(str(error))

    def effect_and_end_hosts(self, folder: str) -> str:
        """Both are due in one tick, which is left out because every host ends in it."""
        quorate.after(0, self._end_host)
        return quorate.effect(pay, folder, 1, then=self.paid)

    def publish_and_end_hosts(self, value: object) -> None:
        """The same of what is told to those who watch and follow."""
        quorate.after(0, self._end_host)
        quorate.publish("said", value)

    def publish_as_much_as_there_is_room_for(self) -> int:
        """No message to the feed has room behind these."""
        count = 0
        with contextlib.suppress(quorate.Overloaded):
            while True:
                quorate.publish("said", count)
                count += 1
        return count

    def effect_while_hosts_end(self, folder: str) -> str:
        """A timer ends every host again and again, until this is told what came of the effect."""
        self.ends = quorate.every(0.01, self._end_host)
        return quorate.effect(pay, folder, 1, then=self._paid_at_last)

    def _paid_at_last(self, key: str, value: Any, error: str | None) -> None:
        self.ends.cancel()
        self.paid(key, value, error)

    def _end_host(self) -> None:
        os._exit(3)

    def effect_and_wait(self, folder: str) -> None:
        """Tries that leave no trace have no effect."""
        quorate.effect(note, folder, "effect")
        quorate.wait_until(lambda: self.items)
        self.items.pop(0)
