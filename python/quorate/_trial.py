"""A process of `quorate check`: it makes an object as a host would, calls it, and tells what came of it.

Started as ``python -m quorate._trial``. A request comes on standard input, and answers leave on what was
standard output. It has the agreed environment of a host, and refuses what a host refuses.
"""

from __future__ import annotations

import gc
import os
import random
import signal
import struct
import sys
import types
from typing import Any, BinaryIO

from quorate import _environment, _guesses, _host, _making, _names, _native, _places, _reads, _undo
from quorate._errors import QuorateError, UnsupportedValue

CALL_SECONDS = 2.0
"""After that a call is taken for endless."""

IMAGES_BYTES_MAX = 32 << 20
"""Of kept images, which name the attribute that differs; beyond it only digests are compared."""

CALLS, UNDOES = "calls", "undoes"
"""What is said before code of the class runs: of a method, or of how it is undone."""

ENDLESS_UNDO = "it does not end within two seconds"

ALIASES_MAX = 100
"""Containers that are watched; one is enough to say it."""

REACHED_MAX = 20_000
"""Objects of the state in which a returned container is looked for."""

START_NS = 1_700_000_000_000_000_000

Answer = dict[str, Any]


class _Endless(BaseException):
    """Raised by the alarm inside a call."""


def send(stream: BinaryIO, message: Any) -> None:
    """Write a message with its length."""
    data = _native.dumps(message)
    stream.write(struct.pack("<I", len(data)) + data)
    stream.flush()


def receive(stream: BinaryIO) -> Any:
    """Read a request; None when the stream has ended."""
    head = stream.read(4)
    if len(head) < 4:
        return None
    return _native.loads(stream.read(struct.unpack("<I", head)[0]))


class Trial:
    """One object, and the calls that are made on it."""

    def __init__(self, request: Any, answers: BinaryIO) -> None:
        self._request, self._answers = request, answers
        self._describer = _host.Host(-1)
        self._images_left = IMAGES_BYTES_MAX
        self._unkept = ""
        self._returned_earlier: dict[int, tuple[Any, bytes]] = {}
        self._without: set[str] = set()
        """Methods whose undo was found to be wrong: it is not tried again."""
        self.cls: type = object
        self.target: Any = None
        self.refused = ""

    def make(self) -> None:
        """The class, and an instance: made, or restored from an image. Raises Unfit."""
        request = self._request
        self.find()
        stir(request["stir"])
        self.construct()
        self.refused = _making.unfit_state({1: self.target}, self.cls) or ""
        if request["image"] is not None:
            # A host makes its objects too before it restores them.
            self.restore(request["image"])

    def find(self) -> None:
        """The class, and what it may keep. Raises Unfit."""
        request = self._request
        self._describer._places = _places.Places.of_this_process(request["paths"])
        sys.path[:0] = request["paths"]
        for package in request["allow"]:
            _making.allow([package])
        self.cls = _making.find_class(request["class"], request["paths"])
        _names.register(self.cls)

    def construct(self) -> None:
        """An instance. Raises Unfit."""
        request = self._request
        _native.set_environment(START_NS, 1, 0, 1)
        args, kwargs = request["args"], request["kwargs"]
        if request["guess_arguments"]:
            guesser = _guesses.Guesser(request["seed"])
            try:
                args, kwargs = guesser.arguments(self.cls, is_constructor=True)
            except _guesses.NoGuess as error:
                raise _making.Unfit("constructor", f"{error}: see --args and --kwargs") from error
        self.target = _making.construct(self.cls, args, kwargs)

    def restore(self, image: bytes) -> None:
        """An instance from an image."""
        with _names.restoring():
            self.target = _native.load_state(image)

    def say(self, word: str, content: Any) -> None:
        """Tell the other side what happens: it ends this process when nothing does."""
        send(self._answers, [word, content])

    def image(self) -> bytes | None:
        """The state, None when it cannot be encoded."""
        try:
            return _native.dump_state(self.target)
        except Exception as error:
            self._unkept = _making.cut(str(error)) or type(error).__name__
            return None

    def methods(self) -> list[Answer]:
        """What is known of each method before it is called."""
        told = []
        for name in self._names():
            finding = _reads.find(self.target, name)
            file, line = _place(getattr(self.cls, name))
            hook = finding.hook
            told.append(
                {"name": name, "kind": finding.kind, "why": finding.reason, "file": file, "line": line}
                | {"why_file": finding.file, "why_line": finding.line}
                | {"hook": [hook.name, hook.file, hook.line] if hook is not None else None}
            )
        return told

    def _names(self) -> list[str]:
        """Public methods, and the special ones that are undone: nobody else calls those here."""
        public = _reads.public_methods(self.cls)
        return public + [name for name in _undo.undos_of(self.cls) if name not in public]

    def step(self, index: int, method: str, payload: bytes) -> Answer:
        """One call, and what came of it."""
        # As a batch of its own: time rises, and chance is that of the call.
        place = (START_NS + (index + 1) * 1_000_000_007, 99, index + 1, 0)
        unlike = self._try_undo(place, method, payload)
        self.say(CALLS, method)
        _native.set_environment(*place)
        return {"payload": payload, "undo": unlike} | self.perform(method, *_native.loads(payload))

    def _try_undo(self, place: tuple[int, int, int, int], method: str, payload: bytes) -> list[Any]:
        """What is wrong with how a call is undone, and where that stands; nothing if nothing is."""
        undo = _undo.undos_of(self.cls).get(method) if method not in self._without else None
        image = self.image() if undo is not None and self._request["does"] == "explore" else None
        if undo is None or image is None:
            return []
        target, part = self.target, "undo"

        def enter(next_part: _undo.Part) -> None:
            nonlocal part
            part = next_part
            self.say(UNDOES if part == "undo" else CALLS, method)
            signal.setitimer(signal.ITIMER_REAL, CALL_SECONDS, 0.1)

        self.restore(image)
        _native.set_environment(*place)
        _environment.refuse_effects(True)
        try:
            args, kwargs = _native.loads(payload)
            given: Any = _native.loads(payload)
            wrong = _undo.try_on(self.target, method, given, lambda: self._call(method, args, kwargs), enter)
        except _Endless:
            wrong = ENDLESS_UNDO if part == "undo" else ""
        except BaseException as error:
            wrong = f"it raised {_making.one_line(error)}" if part == "undo" else ""
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            _environment.refuse_effects(False)
            self.target = target
        if not wrong:
            return []
        self._without.add(method)
        return [wrong, undo.__name__, *_place(undo)]

    def perform(self, method: str, args: list[Any], kwargs: dict[str, Any]) -> Answer:
        """One call in the environment that there is."""
        told: Answer = {"method": method, "alias": False}
        signal.setitimer(signal.ITIMER_REAL, CALL_SECONDS, 0.1)
        _environment.refuse_effects(True)
        try:
            # What an iterator raises while it is sent is what the call raised.
            told |= self._returned(self._call(method, args, kwargs))
        except _Endless:
            told |= {"how": "endless", "outcome": b"", "shown": ""}
        except BaseException as error:
            signal.setitimer(signal.ITIMER_REAL, 0)
            name, text, arguments = self._describer.describe(error)[:3]
            told |= {
                "how": "raised",
                "outcome": _outcome([name, text, arguments]),
                "shown": f"{name}: {text}"[:200],
            }
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            _environment.refuse_effects(False)
        self.say("called", method)
        image = self.image()
        told["digest"] = _native.digest(image) if image is not None else b""
        told["unkept"] = self._unkept if image is None else ""
        told["image"] = b""
        if image is not None and self._request["keeps_images"] and len(image) <= self._images_left:
            self._images_left -= len(image)
            told["image"] = image
        return told

    def _call(self, method: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        way = self._describer.way_of(self.cls, method)
        result = way(self.target, *args, **kwargs) if way else getattr(self.target, method)(*args, **kwargs)
        if isinstance(result, types.CoroutineType | types.AsyncGeneratorType):
            return self._describer.finish(self.target, method, result)
        return result

    def _returned(self, result: Any) -> Answer:
        try:
            outcome = _native.dumps(result)
        except UnsupportedValue as error:
            return {"how": "untold", "outcome": b"", "shown": str(error)[:300]}
        alias = isinstance(result, list | dict | set | bytearray) and self._is_alias(result, outcome)
        return {"how": "returned", "outcome": outcome, "shown": _shown(result), "alias": alias}

    def _is_alias(self, container: Any, outcome: bytes) -> bool:
        """Whether the object returns what it changes later; what it only keeps for a client is harmless."""
        earlier = self._returned_earlier.get(id(container))
        if earlier is None and len(self._returned_earlier) < ALIASES_MAX and self._holds(container):
            # Kept, so that no other container gets its address.
            self._returned_earlier[id(container)] = (container, outcome)
        return earlier is not None and earlier[1] != outcome

    def _holds(self, container: Any) -> bool:
        """Whether a container that was returned is a part of the state."""
        seen: set[int] = {id(self.target)}
        waiting: list[Any] = [self.target]
        while waiting and len(seen) < REACHED_MAX:
            for inner in gc.get_referents(waiting.pop()):
                if inner is container:
                    return True
                if id(inner) not in seen and not isinstance(
                    inner, type | types.ModuleType | types.FunctionType
                ):
                    seen.add(id(inner))
                    waiting.append(inner)
        return False

    def explore(self) -> Answer:
        """Given calls first, then guessed ones."""
        request = self._request
        self._without.update(request["without_undo"])
        guesser = _guesses.Guesser(request["seed"])
        steps = [
            self.step(index, method, payload) for index, (method, payload) in enumerate(request["calls"])
        ]
        names = [name for name in self._names() if name not in request["without"]]
        unguessed: dict[str, str] = {}
        chooser = random.Random(request["seed"])
        while len(steps) < request["count"] and len(unguessed) < len(names):
            method = chooser.choice([name for name in names if name not in unguessed])
            try:
                args, kwargs = guesser.arguments(getattr(self.target, method))
                payload = _native.dumps([args, kwargs])
            except Exception as error:
                unguessed[method] = str(error)
                continue
            steps.append(self.step(len(steps), method, payload))
            guesser.ended(
                not steps[-1]["shown"].startswith(("builtins.TypeError", "builtins.AttributeError"))
            )
            if steps[-1]["how"] == "returned":
                guesser.saw(_native.loads(steps[-1]["outcome"]))
            if steps[-1]["how"] == "endless":
                break
        return {"steps": steps, "unguessed": unguessed}

    def replay(self) -> Answer:
        """The calls of another process; ends where the state differs."""
        steps = []
        for index, (method, payload, digest, image) in enumerate(
            self._request["calls"], self._request["from"]
        ):
            told = self.step(index, method, payload)
            told["attribute"] = ""
            steps.append(told)
            if self._request["compares_states"] and told["digest"] != digest:
                told["attribute"] = _host._changed_attribute(self.target, image) if image else "its state"
                break
        return {"steps": steps, "unguessed": {}}


def _outcome(parts: list[Any]) -> bytes:
    try:
        return _native.dumps(parts)
    except QuorateError:
        return _native.dumps(parts[:2])


def _shown(value: Any) -> str:
    try:
        return repr(value)[:200]
    except Exception:
        return f"a {type(value).__name__}"


def _place(method: Any) -> tuple[str, int]:
    while hasattr(method, "__wrapped__"):
        method = method.__wrapped__
    code = getattr(method, "__code__", None)
    return (code.co_filename, code.co_firstlineno) if code else ("", 0)


def stir(seed: int, count: int = 200) -> None:
    """Make memory untidy, so that addresses have another order than in the other processes."""
    if not seed:
        return
    chance = random.Random(seed)
    blocks: list[Any] = [bytes(size) for size in range(0, 500, 8) for _ in range(count)]
    blocks += [[] for _ in range(500)]
    blocks += [{} for _ in range(500)]
    chance.shuffle(blocks)
    del blocks[::2]
    chance.shuffle(blocks)
    _kept.extend(blocks[::3])


_kept: list[Any] = []


def ring(_signal: int, _frame: Any) -> None:
    """The alarm of a call that takes too long."""
    raise _Endless


def main() -> None:
    """Answer one request."""
    answers = os.fdopen(os.dup(1), "wb")
    requests = os.fdopen(os.dup(0), "rb")
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    signal.signal(signal.SIGALRM, ring)
    _environment.install()
    request = receive(requests)
    # Not even a loop in C is left behind by a check that was ended.
    _native.die_with_parent(request["parent"])
    trial = Trial(request, answers)
    try:
        trial.make()
    except _making.Unfit as unfit:
        trial.say("answer", {"unfit": list(unfit.args)})
        return
    told: Answer = {"first": trial.image() or b"", "unfit": None}
    if request["does"] == "explore":
        trial.say("methods", trial.methods())
        told["state"] = trial.refused
        told |= trial.explore()
    else:
        told |= trial.replay()
    trial.say("answer", told)


if __name__ == "__main__":
    main()
