"""Processes of `quorate.testing.simulate`: one has imported a class, and forks a process for each life.

Started as ``python -m quorate._replica_process`` with a socket as standard input. A life begins as a host
that was just started: nothing of what earlier lives left in modules is there, and its addresses are its own.
It has the agreed environment of a host and refuses what a host refuses.
"""

from __future__ import annotations

import os
import signal
import socket
from typing import Any, BinaryIO, cast

from quorate import _data_model, _environment, _host, _making, _native, _reads, _trial
from quorate._trial import receive, send

REQUEST_BYTES_MAX = 160 << 10
"""Of the request with the class and its arguments, which travels in one packet."""

STIR_COUNT = 24
"""Blocks of memory of each size with which addresses are stirred: a run begins some twenty lives."""


class ReplicaTrial(_trial.Trial):
    """The object of one life."""

    def __init__(self, request: Any) -> None:
        super().__init__(request, cast(BinaryIO, None))
        self._proofs = _reads.Reads()
        self._watches = request["watches_aliases"]
        self._makes_up = False

    def begin(self, stream: BinaryIO) -> None:
        """What is said from here on goes to the other side."""
        self._answers = stream
        super().say("pid", _environment.real_pid())

    def say(self, word: str, content: Any) -> None:
        """The other side knows which calls it asks for; it does not know those that are made up here."""
        if self._makes_up:
            super().say(word, content)

    def answer(self, message: list[Any]) -> Any:
        """What the other side asks for: a word, and what belongs to it."""
        word, *rest = message
        return getattr(self, f"_on_{word}")(*rest)

    def _on_make(self, stir: int, image: bytes | None) -> str | None:
        """A host makes its objects before it restores them."""
        _trial.stir(stir, STIR_COUNT)
        try:
            self.construct()
            _environment.refuse_effects(True)
            _making.test_states({1: self.target})
        except _making.Unfit as unfit:
            return str(unfit.args[1])
        finally:
            _environment.refuse_effects(False)
        return None if image is None else self._on_restore(image)

    def _on_restore(self, image: bytes) -> str | None:
        try:
            self.restore(image)
        except Exception as error:
            return f"its image cannot be restored: {type(error).__name__}: {error}"
        return None

    def _on_call(self, place: list[int], payload: bytes) -> dict[str, Any]:
        _native.set_environment(*place)
        method, args, kwargs = _native.loads(payload)
        return self.perform(method, args, kwargs)

    def _on_read(self, wall_ns: int, payload: bytes) -> dict[str, Any]:
        method, args, kwargs = _native.loads(payload)
        if not self.kind(method):
            return {"how": "no read", "outcome": b"", "shown": "", "wrote": ""}
        before = self.image()
        _native.set_environment(wall_ns, 0, 0, 0)
        told = self.perform(method, args, kwargs)
        is_changed = before is not None and told["digest"] != _native.digest(before)
        told["wrote"] = _host._changed_attribute(self.target, before or b"") if is_changed else ""
        return told

    def _on_image(self) -> bytes | str:
        try:
            return _native.dump_state(self.target)
        except Exception as error:
            return f"its state cannot be encoded: {error}"

    def _on_kinds(self) -> dict[str, str]:
        return {name: self.kind(name) for name in _reads.public_methods(self.cls)}

    def _on_changed(self, image: bytes) -> str:
        return _host._changed_attribute(self.target, image)

    def _on_explore(self, seed: int, count: int) -> list[bytes]:
        """Calls that are made up."""
        self._request |= {"does": "make up", "seed": seed, "count": count, "calls": [], "without": []}
        self._request["without_undo"] = []
        self._makes_up = True
        payloads = []
        for step in self.explore()["steps"]:
            args, kwargs = _native.loads(step["payload"])
            payloads.append(_native.dump_call(step["method"], tuple(args), kwargs))
        return payloads

    def kind(self, method: str) -> str:
        """Whether a method is a read now."""
        if _data_model.is_readonly(self.cls, method):
            return "declared"
        return self._proofs.kind(self.target, method)

    def construct(self) -> None:
        """An instance, with arguments that it shares with no other life."""
        encoded = self._request["arguments"]
        if encoded is not None:
            self._request["args"], self._request["kwargs"] = _native.loads(encoded)
        super().construct()

    def _is_alias(self, container: Any, outcome: bytes) -> bool:
        return self._watches and super()._is_alias(container, outcome)


def _live(trial: ReplicaTrial, connection: socket.socket) -> None:
    """Answers until the other side closes the connection."""
    stream = cast(BinaryIO, connection.makefile("rwb"))
    trial.begin(stream)
    while (message := receive(stream)) is not None:
        send(stream, ["answer", trial.answer(message)])


def main() -> None:
    """Import the class, and fork a life whenever a connection comes."""
    control = socket.socket(fileno=os.dup(0))
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGALRM, _trial.ring)
    # Lives that end leave nothing to wait for.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    _environment.install()
    trial = ReplicaTrial(_native.loads(control.recv(REQUEST_BYTES_MAX + 1024)))
    try:
        trial.find()
    except _making.Unfit as unfit:
        control.send(_native.dumps(str(unfit.args[1])))
        return
    # What a host closes is closed here; what it refuses shows by what it does.
    _making.state_outside(trial.cls)
    control.send(_native.dumps(None))
    parent = _environment.real_pid()
    while True:
        word, descriptors, _, _ = socket.recv_fds(control, 16, 1)
        if not word:
            return
        if os.fork() == 0:
            control.close()
            try:
                _native.die_with_parent(parent)
                _live(trial, socket.socket(fileno=descriptors[0]))
            finally:
                os._exit(0)
        for descriptor in descriptors:
            os.close(descriptor)


if __name__ == "__main__":
    main()
