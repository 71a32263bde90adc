"""Random calls on host processes, one of which is replaced by a fresh one from its image."""

from __future__ import annotations

import importlib
import random
from dataclasses import dataclass, field

import quorate
from quorate import _host, _names, _native

from .hosts import Host, Outcome
from .kinds import Value
from .subject import Subject

SHOWN = 8
"""Calls that a difference shows, the last ones."""

UNSENT = "what does not travel"

End = tuple[str, Value]
"""How a call ended: "returned" and the value's bytes, or the class of an exception and its text."""


class Differs(AssertionError):
    """Two that should be equal are not."""


@dataclass
class Story:
    """The calls of a round, for who has to understand a difference."""

    path: str
    calls: list[str] = field(default_factory=list)

    def differs(self, who: str, one: object, other: object) -> Differs:
        """Say what differs after which calls."""
        tail = "; ".join(self.calls[-SHOWN:])
        return Differs(
            f"{self.path}: {who} after {len(self.calls)} calls: ...{tail}\n{one}\n{other}"
        )


def local_twin(subject: Subject) -> Value:
    """Make a plain instance in this process."""
    module, _, name = subject.path.partition(":")
    found = getattr(importlib.import_module(module), name)
    _names.register(found)
    for package in subject.allow:
        _names.allow_package(package)
    return found(*subject.args, **subject.kwargs)


def drive(subject: Subject, calls: int, seed: int, restores: int = 1) -> None:
    """Compare a host that stays, one that is restored again and again, and a plain instance."""
    chance = random.Random(f"{subject.path} {seed}")
    story = Story(subject.path)
    stayed, restored = Host(subject), Host(subject)
    try:
        twin = None if subject.is_timed else local_twin(subject)
        for slot in range(1, calls + 1):
            method, args, kwargs = subject.draw(chance)
            story.calls.append(f"{method}{args}{kwargs or ''}")
            outcome = stayed.call(slot, method, args, kwargs)
            again = restored.call(slot, method, args, kwargs)
            if outcome != again:
                raise story.differs("the restored one differs", outcome, again)
            if twin is not None:
                given = _native.loads(_native.dumps((args, kwargs)))
                expected = end_of(twin, method, *given)
                if not is_alike(expected, _end(outcome)):
                    raise story.differs("the local twin differs", expected, outcome)
            if slot * (restores + 1) // calls != (slot - 1) * (restores + 1) // calls:
                restored = _replaced(subject, story, stayed, restored, is_last=slot == calls)
    finally:
        stayed.end()
        restored.end()


def _replaced(subject: Subject, story: Story, stayed: Host, old: Host, *, is_last: bool) -> Host:
    image = stayed.image()
    if image != old.image():
        raise story.differs("the image of the restored one differs", *_where(image, old.image()))
    if is_last:
        return old
    old.end()
    fresh = Host(subject)
    fresh.restore(image)
    if image != fresh.image():
        raise story.differs(
            "the image is another one after a restore", *_where(image, fresh.image())
        )
    return fresh


def _where(one: bytes, other: bytes) -> tuple[bytes, bytes]:
    pairs = enumerate(zip(one, other, strict=False))
    place = next((at for at, (this, that) in pairs if this != that), min(len(one), len(other)))
    around = slice(max(0, place - 150), place + 150)
    return one[around], other[around]


def end_of(callee: Value, method: str, args: Value, kwargs: Value) -> End:
    """Call an instance or a proxy."""
    try:
        result = getattr(callee, method)(*args, **kwargs)
        if hasattr(result, "__next__"):
            # What is drawn one by one is sent as a list.
            result = list(result)
    except quorate.RemoteError as error:
        return error.type_name, _clean(str(error).removeprefix(f"{error.type_name}: "))
    except BaseException as error:
        return _names.name_of(type(error)), _clean(str(error))
    try:
        return "returned", UNSENT if result is callee else _native.dumps(result)
    except Exception:
        return "returned", UNSENT


def _end(outcome: Outcome) -> End:
    if outcome.is_returned:
        return "returned", outcome.data
    kind, text, *_ = _native.loads(outcome.data)
    return kind, text


def is_alike(expected: End, told: End) -> bool:
    """Whether this is what a plain instance answers, or why its answer cannot be sent."""
    if told[0].endswith("UnsupportedResult"):
        # An attribute that cannot be called is asked for first, and cannot be sent either.
        return expected == ("returned", UNSENT) or "is not callable" in str(expected[1])
    if told[0].endswith("NoSuchMethod"):
        return expected[0].endswith(("AttributeError", "TypeError"))
    return expected == told or (expected == ("returned", UNSENT) and told[0] == "returned")


def _clean(text: str) -> str:
    """Leave out addresses, as hosts do."""
    return _host._ADDRESS.sub("", text)
