"""The objects of a group that are created while it runs: their names, classes and arguments.

The directory is an object of the group itself, with a number that no other one has. So to create an object is
a call like any other: ordered, executed once, repeated until it is answered, and part of every snapshot.
"""

from __future__ import annotations

import re
from typing import Any, Protocol

from quorate import _names, _native, _spans
from quorate._errors import NameTaken, NotFound, Overloaded, Refused
from quorate._options import level_of
from quorate._options import readonly as is_read
from quorate._timers import after

NUMBER = 2**32 - 1
"""The directory's own number."""

CREATED_MIN = 1 << 16
"""The lowest number of an object that was created; each is used once."""

OBJECTS_MAX = 10_000
"""Objects that are created in one group, beside its first."""

NAME_BYTES_MAX = 255

CLASSES_MAX = 10_000
"""Classes of which objects were ever created: their names are in every snapshot."""

PATH_BYTES_MAX = 1024
"""MODULE:CLASS of one."""

ARGUMENTS_BYTES_MAX = 64 << 10
"""Arguments of a constructor, encoded: they are in every snapshot."""

_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*(/[A-Za-z0-9_-][A-Za-z0-9_.-]*)*")


class Maker(Protocol):
    """What makes the objects: the host process."""

    def first_objects(self) -> dict[str, tuple[int, str]]:
        """Numbers and classes of the objects that the group began with, by name."""

    def home_of(self, path: str) -> str:
        """MODULE:CLASS of where a class was defined, which others may import from elsewhere."""

    def make(self, number: int, path: str, arguments: bytes, readonly: list[str]) -> str:
        """Make an object, and say what its code is. Raises what is wrong, and has done nothing then."""

    def named(self, number: int, name: str) -> None:
        """Tell the node the name of an object that was made."""

    def drop(self, number: int) -> None:
        """Let go of an object."""

    def told(self, number: int) -> dict[str, Any]:
        """What an object says of itself: methods, and calls that wait."""


class Directory:
    """Creates and drops objects, and finds them by name. Clients call it through `quorate.Group`."""

    maker: Maker | None = None
    """Of this process; not a part of the state."""

    def __init__(self) -> None:
        self._entries: dict[str, dict[str, Any]] = {}
        # Also of objects that are gone: every replica must know the values of these classes.
        self._paths: list[str] = []
        self._last = CREATED_MIN - 1

    def create(
        self,
        name: str,
        path: str,
        arguments: bytes,
        *,
        readonly: list[str] | None = None,
        reads: str = "confirmed",
        ttl: float | None = None,
        is_new: bool = True,
    ) -> list[Any]:
        """Create an object of the class at MODULE:CLASS; its number, class, code and level of reads.

        Unless it must be new, one of that name, class and arguments is returned. `readonly` are methods that
        are declared to change nothing, and `reads` is the level at which clients read that ask for no other
        one. After `ttl` seconds of agreed time it is dropped.
        """
        _check_name(name)
        _check_class(path)
        _check_level(reads)
        maker = self._maker()
        if not isinstance(arguments, bytes):
            raise TypeError(f"the arguments are encoded, as bytes, not {type(arguments).__name__}")
        if len(arguments) > ARGUMENTS_BYTES_MAX:
            text = f"the arguments take {len(arguments)} bytes, and may take {ARGUMENTS_BYTES_MAX}"
            raise Refused(f"{text}: call a method of the object with the rest")
        found = self._entries.get(name)
        if found is not None and not is_new:
            self._remember(path)
            if self._is_same(found, path, arguments):
                return _place(found)
        if found is not None or name in maker.first_objects():
            of_others = "" if is_new else ", created from another class or other arguments"
            told = f"the group has an object {name!r} already: {self._kind_of(name)}{of_others}"
            raise NameTaken(f"{told}; choose another name, or drop that one")
        if len(self._entries) >= OBJECTS_MAX:
            raise Overloaded(f"{OBJECTS_MAX} objects were created in this group: drop some first")
        if ttl is not None:
            _spans.nanoseconds("ttl", ttl)
        self._remember(path)
        readonly = list(dict.fromkeys(readonly or ()))
        number = self._last + 1
        expiry = None if ttl is None else after(ttl, self._expire, name, number)
        try:
            code = maker.make(number, path, arguments, readonly)
        except BaseException:
            if expiry is not None:
                expiry.cancel()
            raise
        self._last = number
        made = {"number": number, "class": path, "code": code, "reads": reads}
        self._entries[name] = {**made, "arguments": arguments, "readonly": readonly, "expiry": expiry}
        maker.named(number, name)
        return _place(made)

    def drop(self, name: str) -> None:
        """Drop an object with its state; calls that wait at it raise `ObjectDropped`."""
        maker = self._maker()
        if name in maker.first_objects():
            raise Refused(f"{name!r} is an object that the group began with: it lasts as long as the group")
        entry = self._entries[self._known(name)]
        maker.drop(entry["number"])
        del self._entries[name]
        if entry["expiry"] is not None:
            entry["expiry"].cancel()

    @is_read
    def find(self, name: str) -> list[Any]:
        """Return number, class, code and level of reads of an object."""
        first = self._maker().first_objects()
        if name in first:
            return [*first[name], "", "confirmed"]
        return _place(self._entries[self._known(name)])

    @is_read
    def names(self) -> list[list[str]]:
        """Return names and classes of all objects, those first that the group began with."""
        first = [[name, path] for name, (_, path) in self._maker().first_objects().items()]
        return first + [[name, self._entries[name]["class"]] for name in sorted(self._entries)]

    @is_read
    def describe(self, name: str) -> dict[str, Any]:
        """Return what is known of an object: class, methods, who holds what of it, and what waits at it."""
        if _native.running_number() is not None:
            # Which methods are reads is found by each replica for itself.
            raise Refused(
                "describe is a read: ask one replica, by Group.describe or `quorate object describe`"
            )
        number, path, code, reads = self.find(name)
        told = self._maker().told(number)
        return {"name": name, "number": number, "class": path, "code": code, "reads": reads, **told}

    def _by_number(self) -> dict[int, dict[str, Any]]:
        """All that were created, by number."""
        return {entry["number"]: entry for entry in self._entries.values()}

    def _expire(self, name: str, number: int) -> None:
        """Drop an object whose time is over, unless it was dropped before."""
        entry = self._entries.get(name)
        if entry is not None and entry["number"] == number:
            self.drop(name)

    def _remember(self, path: str) -> None:
        """The class is found, and stays known."""
        self._maker().home_of(path)
        if path in self._paths:
            return
        if len(self._paths) >= CLASSES_MAX:
            raise Overloaded(f"objects of {CLASSES_MAX} classes were created in this group: use one of these")
        self._paths.append(path)

    def _is_same(self, entry: dict[str, Any], path: str, arguments: bytes) -> bool:
        home_of = self._maker().home_of
        return home_of(entry["class"]) == home_of(path) and _settled(entry["arguments"]) == _settled(
            arguments
        )

    def _known(self, name: str) -> str:
        if name not in self._entries:
            raise NotFound(f"this group has no object {name!r}: `quorate object list` names them")
        return name

    def _kind_of(self, name: str) -> str:
        return str(self.find(name)[1])

    def _maker(self) -> Maker:
        if self.maker is None:
            raise Refused("no host process made this directory")
        return self.maker

    @property
    def is_pristine(self) -> bool:
        """Whether nothing was ever created, nor tried."""
        return self._last < CREATED_MIN and not self._paths


def _place(entry: dict[str, Any]) -> list[Any]:
    return [entry["number"], entry["class"], entry["code"], entry["reads"]]


def _settled(arguments: bytes) -> bytes:
    """Arguments of a constructor, with those that have names in one order."""
    args, kwargs = _native.loads(arguments)
    return _native.dumps([args, dict(sorted(kwargs.items()))])


def _check_class(path: Any) -> None:
    if isinstance(path, str) and len(path.encode(errors="replace")) <= PATH_BYTES_MAX:
        return
    raise Refused(f"{path!r:.80} is no class: write MODULE:CLASS, of at most {PATH_BYTES_MAX} bytes")


def _check_level(reads: Any) -> None:
    try:
        level_of(reads)
    except ValueError as error:
        raise Refused(str(error)) from None


def _check_name(name: Any) -> None:
    if (
        isinstance(name, str)
        and len(name.encode(errors="replace")) <= NAME_BYTES_MAX
        and _NAME.fullmatch(name)
    ):
        return
    shown = repr(name) if len(repr(name)) < 80 else f"{repr(name)[:77]}..."
    raise Refused(
        f"{shown} is not a name: use letters, digits, `_`, `-` and `.` between slashes, as in jobs/queue-1, "
        f"at most {NAME_BYTES_MAX} bytes"
    )


# Its package is not one whose classes are kept.
_names.keep(Directory)
