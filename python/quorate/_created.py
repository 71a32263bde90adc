"""Objects that the directory has the host process make and drop."""

from __future__ import annotations

import contextlib
import hashlib
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quorate import (
    _directory,
    _environment,
    _feed,
    _holders,
    _importing,
    _making,
    _names,
    _native,
    _reads,
    _steps,
)
from quorate._errors import NotReplicable

if TYPE_CHECKING:
    from quorate._host import Host

CODE_CHARACTERS = 16
"""Of the hash of a class's module: enough to tell two versions apart."""

_CONTAINERS = ("builtins", "collections")
"""Modules of the standard library of whose classes objects may be created."""

_PLACE = "the directory in which the group was started"
"""The same text on all nodes."""


class Created:
    """What the host process does for the directory. Implements `_directory.Maker`."""

    def __init__(self, host: Host, greeting: Mapping[str, Any]) -> None:
        self._host = host
        self._greeting = greeting
        self._reads: dict[int, frozenset[str]] = {}
        self._made: dict[int, Any] = {}
        self._dropped: list[int] = []
        _directory.Directory.maker = self

    def first_objects(self) -> dict[str, tuple[int, str]]:
        """Numbers and classes of the objects that the group began with, by name."""
        return {name: (number, path) for number, name, path, _, _ in self._greeting["objects"]}

    def home_of(self, path: str) -> str:
        """MODULE:CLASS of where a class was defined."""
        with _refusing(path):
            cls = self._class_at(path)
        return f"{cls.__module__}:{cls.__qualname__}"

    def make(self, number: int, path: str, arguments: bytes, readonly: list[str]) -> str:
        """Make an object, and say what its code is."""
        with _refusing(path):
            # It is no object yet: nothing of the directory's is the constructor's to set or to send.
            cls, made = _native.outside_of_methods(lambda: self._fit(path, arguments, readonly))
            code = _code_of(cls)
        self._made[number] = made
        self._reads[number] = frozenset(readonly)
        return code

    def named(self, number: int, name: str) -> None:
        """Tell the node the name of an object that was made."""
        self._host.note_name(number, name)

    def _fit(self, path: str, arguments: bytes, readonly: list[str]) -> tuple[type, Any]:
        """A class, and an instance of which snapshots keep the state."""
        cls = self._class_at(path)
        methods = _reads.public_methods(cls)
        unknown = [name for name in readonly if name not in methods]
        if unknown:
            told = f"{cls.__name__} has no public method {unknown[0]!r:.80}; it has {', '.join(methods)}"
            raise _making.Unfit("readonly", _making.cut(told))
        args, kwargs = _native.loads(arguments)
        made = _making.construct(cls, args, kwargs)
        unfit = _making.unkept_state(made, cls) if self._greeting["snapshots"] else None
        # Also where a node began again and would serve such a class: all replicas must do the same.
        if unfit is not None:
            raise _making.Unfit("state", unfit)
        return cls, made

    def drop(self, number: int) -> None:
        """Let go of an object."""
        _native.send_message(_feed.NUMBER, _native.dump_call("_drop", (number,), {}))
        self._reads.pop(number, None)
        self._dropped.append(number)

    def told(self, number: int) -> dict[str, Any]:
        """Methods of an object, who holds what of it, the calls that wait at it, and how many watch it."""
        target = _native.object_of(number)
        waiting = [list(call) for call in _native.waiting_at(number)]
        feed: Any = _native.object_of(_feed.NUMBER)
        methods = self._host.methods(number, target)
        holders = _holders.told_by(number, target)
        return {"methods": methods, **holders, "waiting": waiting, "watching": feed.watching(number)}

    def is_read(self, number: int, method: str) -> bool:
        """Whether the method was declared to change nothing when the object was created."""
        return method in self._reads.get(number, ())

    def take_changes(self) -> tuple[dict[int, Any], list[int]]:
        """What was made and dropped since the last time."""
        made, dropped = self._made, self._dropped
        self._made, self._dropped = {}, []
        return made, dropped

    def classes_of(self, directory: _directory.Directory) -> dict[int, type]:
        """The classes of all objects of a directory, imported where they are not yet."""
        entries = directory._by_number()
        for name, entry in directory._entries.items():
            self.named(entry["number"], name)
        for path in directory._paths:
            self._know_again(path)
        classes = {}
        for number, entry in entries.items():
            try:
                classes[number] = self._class_at(entry["class"])
            except _making.Unfit as unfit:
                raise ValueError(f"object {number} is a {entry['class']}: {unfit.args[1]}") from unfit
            code = _code_of(classes[number])
            if code != entry["code"]:
                self._host.warn(f"the code of {entry['class']} differs from when object {number} was created")
        self._reads = {number: frozenset(entry["readonly"]) for number, entry in entries.items()}
        self._made, self._dropped = {}, []
        return classes

    def _know_again(self, path: str) -> None:
        """Find a class of which there may be no objects any more, but values in calls and states."""
        try:
            self._class_at(path)
        except _making.Unfit as unfit:
            self._host.warn(f"{path}, which the group had once: {unfit.args[1]}")

    def _class_at(self, path: str) -> type:
        """Find a class. What a module does when it is imported does not depend on when that is."""
        if any(budget for _, _, _, _, budget in self._greeting["objects"]):
            _steps.count(path)
        _environment.refuse_effects(False)
        try:
            with _importing.kept_from_ending():
                cls: type = _native.apart(
                    lambda: _native.outside_of_methods(lambda: _making.find_class(path, [_PLACE]))
                )
        finally:
            _environment.refuse_effects(True)
        owner = _owner_of(cls)
        if owner:
            told = f"{cls.__name__} is a part of {owner}: create a class of your own, or of quorate.objects"
            raise _making.Unfit("class", told)
        _names.register(cls)
        return cls


@contextlib.contextmanager
def _refusing(path: str) -> Iterator[None]:
    """What makes a class unfit is told to who would create an object of it."""
    try:
        yield
    except _making.Unfit as unfit:
        if isinstance(unfit.__cause__, MemoryError):
            # Whether memory suffices depends on the machine, so it is no outcome.
            raise unfit.__cause__ from None
        raise NotReplicable(f"{path}: {unfit.args[1]}; nothing was created") from None
    finally:
        _environment.refuse_effects(True)


def _owner_of(cls: type) -> str:
    """Whose the class is, if clients may create none: such read files, run code, or serve the group."""
    package = _names.package_of(cls)
    if package in ("quorate", "__main__"):
        return "Quorate itself"
    is_standard = package in sys.stdlib_module_names and package not in _CONTAINERS
    return "Python's standard library" if is_standard else ""


def _code_of(cls: type) -> str:
    """The hash of the file of a class's module: replicas in which it differs are found by their answers."""
    file = getattr(sys.modules.get(cls.__module__), "__file__", None)
    if not isinstance(file, str):
        return ""
    return hashlib.sha256(Path(file).read_bytes()).hexdigest()[:CODE_CHARACTERS]
