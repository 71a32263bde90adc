"""The objects of a rehearsed group in this process: one instance for each node.

During a call this process has the agreed time and randomness of the call, and its own again afterwards. The
rest of what a host does is left out: what objects do to files and the network is not refused, and what Python
hashes by its address has the hashes of this process. Instances share what their modules hold.
"""

from __future__ import annotations

import contextlib
import random
import types
from collections.abc import Iterator
from typing import Any

from quorate import _data_model, _environment, _host, _names, _native, _reads, _time_limit, _undo, _waiting
from quorate._errors import NotReadOnly, UnsupportedValue

Place = tuple[int, int]
"""Slot and index of a call."""

OUTCOMES_MAX = 10_000
"""Outcomes that are kept for replicas that execute the calls later: a snapshot is due long before."""


class ReplicasDiffer(AssertionError):
    """Two replicas executed the same call on the same state, and it ended differently.

    >>> issubclass(ReplicasDiffer, AssertionError)
    True
    """


class OwnObjects:
    """An instance for each node that runs."""

    def __init__(self, cls: type, args: Any, kwargs: Any) -> None:
        _names.register(cls)
        self._cls = cls
        self._arguments = _native.dumps([list(args), dict(kwargs)])
        self._describer = _host.Host(-1)
        self._outcomes: dict[Place, tuple[int, bytes, tuple[bool, bytes]]] = {}
        self._replaced = _environment.randomness()
        self.reads = _reads.Reads()
        self.instances: dict[int, Any] = {}

    # ---- what a rehearsal asks ----

    def start(self, node: int, image: bytes | None) -> str | None:
        """A node starts with a new instance, as its host makes it and then restores it."""
        args, kwargs = _native.loads(self._arguments)
        with self._inside(0, 0, 0, 1):
            # What the constructor raises is the caller's.
            self.instances[node] = self._cls(*args, **kwargs)
        return None if image is None else self.restore(node, image)

    def restore(self, node: int, image: bytes) -> str | None:
        """A node's instance is made from an image."""
        try:
            with _names.restoring():
                self.instances[node] = _native.load_state(image)
        except Exception as error:
            return f"the image cannot be restored: {type(error).__name__}: {error}"
        return None

    def execute(
        self,
        node: int,
        who: tuple[int | None, int],
        place: Place,
        stamp: tuple[int, int],
        payload: bytes,
    ) -> tuple[bool, bytes]:
        """A call, and whether it raised."""
        if place not in self._outcomes:
            self._try_undo(node, place, stamp, payload)
        with self._inside(*stamp, *place):
            outcome = self._call(self.instances[node], payload)
        self._compare(node, place, payload, outcome)
        return outcome

    def query(self, node: int, wall_ns: int, payload: bytes) -> tuple[bool, bytes]:
        """A read, after which the state must be the same."""
        target = self.instances[node]
        method = _native.loads(payload)[0]
        kind = self._kind(target, method)
        if not kind:
            return self._raised(_data_model.not_read(target, method))
        before = _native.dump_state(target)
        with self._inside(wall_ns, 0, 0, 0):
            outcome = self._call(target, payload)
        if _native.dump_state(target) != before:
            self.restore(node, before)
            changed = _host._changed_attribute(target, before)
            return self._raised(
                NotReadOnly(f"`{method}` of {self._cls.__name__} is held for read-only and changes {changed}")
            )
        return outcome

    def image(self, node: int) -> bytes | str:
        """The image of a node's instance, or why there is none."""
        try:
            return _native.dump_state(self.instances[node])
        except Exception as error:
            return f"the state cannot be encoded: {error}"

    # ---- inside ----

    def _try_undo(self, node: int, place: Place, stamp: tuple[int, int], payload: bytes) -> None:
        """Make the call on a copy first, and undo it there, if the class says how."""
        method, args, kwargs = _native.loads(payload)
        own = _undo.undos_of(self._cls).get(method)
        image = self.image(node) if own is not None else ""
        if own is None or isinstance(image, str):
            return
        with _names.restoring():
            copy = _native.load_state(image)
        given = _native.loads(payload)[1:]
        part: _undo.Part = "undo"
        wrong = ""
        try:
            with _time_limit.Limit(_undo.TRIAL_SECONDS) as limit, self._inside(*stamp, *place):

                def enter(next_part: _undo.Part) -> None:
                    nonlocal part
                    part = next_part
                    limit.begin(is_limited=part == "undo")

                wrong = _undo.try_on(
                    copy, method, given, lambda: self._made(copy, method, args, kwargs), enter
                )
        except _time_limit.TimeIsUp:
            wrong = f"it does not end within {_undo.TRIAL_SECONDS} s"
        if wrong:
            told = f"`{own.__name__}` of {self._cls.__name__} does not undo `{method}`: {wrong}"
            raise _undo.NotUndone(f"{told}. Mend it, or remove @quorate.undoes")

    def _kind(self, target: Any, method: str) -> str:
        if _data_model.is_readonly(type(target), method):
            return "declared"
        return self.reads.kind(target, method)

    def _call(self, target: Any, payload: bytes) -> tuple[bool, bytes]:
        method, args, kwargs = _native.loads(payload)
        try:
            return False, _native.dump_result(self._made(target, method, args, kwargs), target)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            return self._raised(error)

    def _made(self, target: Any, method: str, args: Any, kwargs: Any) -> Any:
        way = _data_model.way_of(type(target), method)
        result = way(target, *args, **kwargs) if way else getattr(target, method)(*args, **kwargs)
        if isinstance(result, types.CoroutineType | types.AsyncGeneratorType):
            return _waiting.finish(result, f"{self._cls.__name__}.{method}")
        return result

    def _raised(self, error: BaseException) -> tuple[bool, bytes]:
        try:
            return True, _native.dumps(self._describer.describe(error))
        except UnsupportedValue:
            return True, _native.dumps(self._describer.describe(error, True))

    def _compare(self, node: int, place: Place, payload: bytes, outcome: tuple[bool, bytes]) -> None:
        first, _, theirs = self._outcomes.setdefault(place, (node, payload, outcome))
        if outcome != theirs:
            method = _native.loads(payload)[0]
            told = f"`{method}` {shown(outcome)} on node {node}, and {shown(theirs)} on node {first}"
            raise ReplicasDiffer(f"{told} (slot {place[0]})")
        if len(self._outcomes) > OUTCOMES_MAX:
            del self._outcomes[next(iter(self._outcomes))]

    @contextlib.contextmanager
    def _inside(self, wall_ns: int, entropy: int, slot: int, index: int) -> Iterator[None]:
        """The environment of a call, for its length."""
        _native.set_environment(wall_ns, entropy, slot, index)
        # Whoever imported `random.random` itself draws from this one.
        shared: random.Random = random._inst
        state = shared.getstate()
        shared.seed(int.from_bytes(_native.agreed_bytes(8), "big"))
        real = [(owner, name, getattr(owner, name)) for owner, name, _ in self._replaced]
        for owner, name, value in self._replaced:
            setattr(owner, name, value)
        _native.swap_agreed_clock(True)
        try:
            yield
        finally:
            _native.swap_agreed_clock(False)
            for owner, name, value in real:
                setattr(owner, name, value)
            shared.setstate(state)


def shown(outcome: tuple[bool, bytes]) -> str:
    """How a call ended, for people.

    >>> shown((False, _native.dumps([1])))
    'returned [1]'
    """
    is_raised, value = outcome
    told = _native.loads(value)
    if is_raised:
        return f"raised {told[0].rpartition('.')[2]}: {told[1]}"[:200]
    return f"returned {told!r}"[:200]
