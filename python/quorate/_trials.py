"""The other end of `_trial`: a process that is heard while it works, and ended when it does not go on.

The alarm inside the process ends a loop in Python. A loop in C hears no signal, and what catches every
exception catches the alarm too: only the end of the process ends those.
"""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import Any, BinaryIO, cast

from quorate import _native
from quorate._trial import CALL_SECONDS, CALLS, UNDOES, send

CALL_SECONDS_MAX = CALL_SECONDS + 1.0
"""For a call: the alarm inside is to ring first, because it leaves what the calls before have shown."""

STEP_SECONDS_MAX = 60.0
"""For what is no call: an import, a constructor, the image of a large state."""

READ_BYTES = 1 << 20

ENDLESS = "does not end, and no signal ends it: it loops in C, or catches every exception"


class NoAnswer(Exception):
    """A process has ended before it answered, or it does not go on and must be ended."""

    def __init__(self, *, is_stuck: bool) -> None:
        super().__init__("it does not go on" if is_stuck else "it has ended")
        self.is_stuck = is_stuck


class Answers:
    """What comes from one process: what it does meanwhile, and its answers."""

    def __init__(
        self,
        descriptor: int,
        *,
        call_seconds: float = CALL_SECONDS_MAX,
        step_seconds: float = STEP_SECONDS_MAX,
    ) -> None:
        self._descriptor = descriptor
        self._call_seconds, self._step_seconds = call_seconds, step_seconds
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLIN)
        self._held = bytearray()
        self.said: dict[str, Any] = {}
        """The newest content of each word that is no answer: `methods`, `pid`, `calls`."""
        self.is_calling = False
        self.is_undoing = False

    @property
    def method(self) -> str:
        """The method that was called last."""
        return str(self.said.get(UNDOES if self.is_undoing else CALLS, ""))

    def next(self) -> Any:
        """The next answer; raises NoAnswer."""
        while True:
            limit = self._call_seconds if self.is_calling else self._step_seconds
            word, content = self._message(time.monotonic() + limit)
            self.is_calling, self.is_undoing = word in (CALLS, UNDOES), word == UNDOES
            if word == "answer":
                return content
            self.said[word] = content

    def _message(self, deadline: float) -> tuple[str, Any]:
        size = int.from_bytes(self._take(4, deadline), "little")
        word, content = _native.loads(self._take(size, deadline))
        return word, content

    def _take(self, count: int, deadline: float) -> bytes:
        while len(self._held) < count:
            if not self._poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
                raise NoAnswer(is_stuck=True)
            try:
                got = os.read(self._descriptor, READ_BYTES)
            except ConnectionError:
                got = b""
            if not got:
                raise NoAnswer(is_stuck=False)
            self._held += got
        taken = bytes(self._held[:count])
        del self._held[:count]
        return taken


@dataclass(frozen=True, slots=True)
class Reply:
    """What came of a request.

    >>> Reply(None, [], "total", is_calling=True, is_stuck=True).rule
    'endless'
    """

    answer: dict[str, Any] | None
    """None if the process ended, or was ended, before."""
    methods: list[dict[str, Any]]
    """What is known of each method before it is called."""
    method: str
    """The method that was called last."""
    is_calling: bool = False
    """Whether the call had not returned."""
    is_stuck: bool = False
    """Whether the process did not go on."""
    is_undoing: bool = False
    """Whether what undoes that call ran, and not the method itself."""

    @property
    def rule(self) -> str:
        """The rule of what kept the process from its answer."""
        return "endless" if self.is_stuck else "ends"

    @property
    def words(self) -> str:
        """What the method that was called last did, without its name."""
        if not self.is_stuck:
            return "ends the process that executes it"
        if self.is_calling:
            return ENDLESS
        return f"leaves a state that is not taken within {STEP_SECONDS_MAX:.0f} seconds"

    @property
    def reason(self) -> str:
        """What kept the process from its answer."""
        if self.method:
            return f"`{self.method}` {self.words}"
        if self.is_stuck:
            return f"the object is not made within {STEP_SECONDS_MAX:.0f} seconds"
        return "the process that makes the object ended"

    @property
    def fix(self) -> str:
        """What to do."""
        return "bound its loops" if self.is_stuck else "raise an exception instead"


def ask(request: dict[str, Any], hash_seed: int) -> Reply:
    """Start a process, ask it, and end it."""
    environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed), "TZ": "UTC", "LC_ALL": "C.UTF-8"}
    package = os.path.dirname(os.path.dirname(__file__))
    paths = [package, os.environ.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    process = subprocess.Popen(
        [sys.executable, "-m", "quorate._trial"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        # A process that has ended before it has read is seen by its missing answer.
        with contextlib.suppress(BrokenPipeError):
            send(cast(BinaryIO, process.stdin), {**request, "parent": os.getpid()})
        return _reply(Answers(process.stdout.fileno()))
    finally:
        process.kill()
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
        process.stdout.close()
        process.wait()


def _reply(answers: Answers) -> Reply:
    answer, is_stuck = None, False
    try:
        answer = answers.next()
    except NoAnswer as why:
        is_stuck = why.is_stuck
    methods = answers.said.get("methods", [])
    return Reply(answer, methods, answers.method, answers.is_calling, is_stuck, answers.is_undoing)
