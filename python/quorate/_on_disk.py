"""Bytes of an object's state that lie in files: `quorate.objects.Storage` is made of them.

An image holds their content, so replicas that have the same content have equal states, wherever it lies. A
file is named by its content. It is written wholly or not at all, is never changed, and is removed when
nothing in this process refers to it. A host keeps its files in the directory that it may write; what else
uses the class, in one of its own. Processes that are forked off write and remove nothing of their parent's.

Claim rp-96.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import hashlib
import os
import shutil
import sys
import threading
import weakref
from collections import deque
from collections.abc import Iterator
from typing import Any, NoReturn, Protocol

from quorate import _native

FILE_BYTES_MIN = 4 << 10
"""What is shorter stays in memory: a file takes as much there."""

PIECE_BYTES = 1 << 20
"""Of one file at most: who asks for a part of a content reads no more than that beside it."""

JOINED_BYTES = 64 << 10
"""What is appended to a shorter piece is written with it into a new one."""

DAMAGED = 88
"""The status with which a host ends when the disk has lost what it was given."""

WAITING_MIN = 256
"""Pieces that wait for room before those are looked for that are gone."""

WRITTEN_AT_ONCE = 2
"""Pieces for which there was no room that are written when one could be."""

CALLS_BELOW = 32
"""More than any function here makes one within the other."""

REMOVED_AT_ONCE = 8
"""Files that are removed when one is written."""

REMOVED_AFTER_SNAPSHOT = 1_024

_LOCAL = "quorate-on-disk"
_STALE_MAX = 16
"""Directories of processes that were killed, which one look removes."""

# The host shows a number of its own for it later.
_pid = os.getpid


class Host(Protocol):
    """The process that serves objects."""

    def tell(self, text: str) -> None:
        """Tell the node's log."""

    def give_up(self, status: int, told: str) -> NoReturn:
        """End, for a new process to begin."""


class Directory:
    """The files of one process."""

    def __init__(self, path: str, host: Host | None = None) -> None:
        self.path = path
        self.pid = _pid()
        self.bytes = 0
        """In files that something refers to."""
        self.is_damaged = False
        """Whether that was found, and raised."""
        self._host = host
        self._is_full = False
        """Whether something waits for room since that was told."""
        self._unwritten: deque[weakref.ref[Piece]] = deque()
        """What waits in memory for room."""
        self._look_at = WAITING_MIN
        self._counts: dict[str, int] = {}
        """How often each file is referred to; those with 0 are to be removed at some time."""
        self._sizes: dict[str, int] = {}
        self._idle: dict[str, None] = {}
        """The latter, the oldest first."""
        self._holds = 0
        self._written = 0
        # What refers to a file may go at any moment, also while this is at work.
        self._lock = threading.RLock()

    @property
    def is_of_host(self) -> bool:
        """Whether it belongs to a host process."""
        return self._host is not None

    def keep(self, content: bytes) -> str | None:
        """The name of the file that has this content from here on; None where a host's disk takes none.

        Other replicas have room, so that is not the outcome of a call.
        """
        name = _name_of(content)
        with self._lock:
            if name not in self._counts:
                self.remove_idle(REMOVED_AT_ONCE)
                try:
                    self._write(name, content)
                except OSError as error:
                    if self._host is None:
                        raise
                    if not self._is_full:
                        told = "the disk does not take what an object stores, which stays in memory"
                        self._host.tell(f"warning: {told} until there is room: {error}")
                    self._is_full = True
                    return None
            self._count(name, len(content), 1)
        return name

    def read(self, name: str) -> bytes:
        """The content of a file."""
        error: OSError | None = None
        try:
            with open(os.path.join(self.path, name), "rb") as file:
                content = file.read()
            if _name_of(content) == name:
                return content
        except OSError as found:
            error = found
        told = f"what an object has stored in {self.path} is gone or damaged: {error or name}"
        if self._host is not None and _pid() == self.pid:
            self._host.give_up(DAMAGED, told)
        self.is_damaged = True
        raise error or OSError(told)

    def wait_for_room(self, piece: Piece) -> None:
        """Write it when there is room."""
        self._unwritten.append(weakref.ref(piece))
        if len(self._unwritten) >= self._look_at:
            self._unwritten = deque(waiting for waiting in self._unwritten if waiting() is not None)
            self._look_at = max(WAITING_MIN, 2 * len(self._unwritten))

    def write_waiting(self, most: int) -> None:
        """Write what had no room before, and what is smaller than something that still has none."""
        too_large = sys.maxsize
        for _ in range(min(most, len(self._unwritten))):
            waiting = self._unwritten.popleft()
            piece = waiting()
            if piece is not None and (piece.size >= too_large or not piece.move_to(self)):
                too_large = min(piece.size, too_large)
                self._unwritten.append(waiting)
        if not self._unwritten:
            self._is_full = False

    def let_go(self, name: str) -> None:
        """Something that referred to a file is gone."""
        with self._lock:
            if name in self._counts:
                self._count(name, self._sizes[name], -1)

    def hold(self) -> None:
        """From here on a forked process reads the files that are there."""
        self._holds += 1

    def release(self) -> None:
        """It has ended."""
        self._holds -= 1
        self.remove_idle(REMOVED_AFTER_SNAPSHOT)
        self.write_waiting(len(self._unwritten))

    def remove_idle(self, most: int) -> None:
        """Remove files to which nothing refers."""
        with self._lock:
            while self._idle and most and not self._holds:
                # In one step: what is collected as garbage meanwhile may add to these.
                name, _ = self._idle.popitem()
                most -= 1
                del self._counts[name], self._sizes[name]
                # A file that stays takes room, and is written over when its content comes again.
                with _effects(), contextlib.suppress(OSError):
                    os.remove(os.path.join(self.path, name))

    def _count(self, name: str, size: int, by: int) -> None:
        before = self._counts.get(name, 0)
        self._counts[name], self._sizes[name] = before + by, size
        if before + by == 0:
            self._idle[name] = None
        else:
            self._idle.pop(name, None)
        if 0 in (before, before + by):
            self.bytes += by * size
            _native.lies_on_disk(self.bytes)

    def _write(self, name: str, content: bytes) -> None:
        path = os.path.join(self.path, name)
        self._written += 1
        unfinished = os.path.join(self.path, f"unfinished-{self._written}")
        try:
            self._write_whole(unfinished, path, content)
        except OSError:
            # What nothing refers to may take the room.
            self.remove_idle(len(self._idle))
            self._write_whole(unfinished, path, content)

    def _write_whole(self, unfinished: str, path: str, content: bytes) -> None:
        with _effects():
            try:
                with open(unfinished, "wb", buffering=0) as file:
                    view = memoryview(content)
                    while view:
                        view = view[file.write(view) :]
                os.rename(unfinished, path)
            except OSError:
                with contextlib.suppress(OSError):
                    os.remove(unfinished)
                raise


class Piece:
    """Bytes that cannot change, in a file if they are many."""

    __slots__ = ("__weakref__", "_content", "_directory", "size")

    _content: bytes | str
    """The name of the file where there is a directory."""
    _directory: Directory | None

    def __init__(self, content: bytes) -> None:
        self.size = len(content)
        self._content, self._directory = content, None
        place = directory() if len(content) >= FILE_BYTES_MIN else None
        if place is not None and self.move_to(place):
            place.write_waiting(WRITTEN_AT_ONCE)
        elif place is not None:
            place.wait_for_room(self)

    def move_to(self, place: Directory) -> bool:
        """From memory to a file; says whether there was room."""
        name = place.keep(self.read())
        if name is not None:
            self._content, self._directory = name, place
        return name is not None

    def read(self) -> bytes:
        """The bytes."""
        if isinstance(self._content, bytes):
            return self._content
        assert self._directory is not None
        return self._directory.read(self._content)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a piece is counted where it was made: take the bytes")

    def __del__(self) -> None:
        kept = getattr(self, "_directory", None)
        if kept is not None and kept.pid == _pid():
            kept.let_go(str(self._content))


class OnDisk:
    """Bytes that cannot change, and lie in files if they are many.

    >>> long = OnDisk(b"x" * 100_000)
    >>> len(long), len(content_of(long)), content_of(joined(long, b"yz"), -3)
    (100000, 100000, b'xyz')
    """

    __slots__ = ("__weakref__", "_pieces")

    def __init__(self, content: bytes) -> None:
        _check_depth()
        self._pieces = _cut(content)

    def __len__(self) -> int:
        return sum(piece.size for piece in self._pieces)

    # It cannot change, and a copy of the pieces would let go of files that they do not hold.

    def __copy__(self) -> OnDisk:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> OnDisk:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return OnDisk, (content_of(self),)


def content_of(kept: OnDisk, start: int = 0, stop: int | None = None) -> bytes:
    """The bytes, or those from one place up to another, as of a slice.

    >>> content_of(OnDisk(b"short"), 1, 3)
    b'ho'
    """
    _check_depth()
    asked = range(len(kept))[start:stop]
    found, at = [], 0
    for piece in kept._pieces:
        if at < asked.stop and asked.start < at + piece.size:
            found.append(piece.read()[max(asked.start - at, 0) : asked.stop - at])
        at += piece.size
    return b"".join(found)


def joined(before: OnDisk, more: bytes) -> OnDisk:
    """Both, one behind the other; the files of the first serve the result too.

    >>> content_of(joined(OnDisk(b"a"), b"b"))
    b'ab'
    """
    _check_depth()
    pieces = before._pieces
    if pieces and pieces[-1].size < JOINED_BYTES:
        pieces, more = pieces[:-1], pieces[-1].read() + more
    made = object.__new__(OnDisk)
    made._pieces = pieces + _cut(more)
    return made


def _check_depth(calls: int = CALLS_BELOW) -> None:
    """Raise RecursionError where it depends on the call alone.

    How deep calls go below is each replica's own matter, and must not become the outcome.
    """
    if calls:
        # By way of C, whose calls are counted apart in some versions.
        next(map(_check_depth, (calls - 1,)))


def _cut(content: bytes) -> tuple[Piece, ...]:
    return tuple(Piece(content[at : at + PIECE_BYTES]) for at in range(0, len(content), PIECE_BYTES))


_here: Directory | None = None


def directory() -> Directory | None:
    """Where this process has its files; None in one that a host has forked off."""
    global _here
    if _here is not None and _here.pid == _pid():
        return _here
    if _here is not None and _here.is_of_host:
        return None
    _here = Directory(_made())
    atexit.register(_remove, _here)
    return _here


def use(scratch: str, host: Host) -> None:
    """This process is a host that may write in `scratch`: an earlier one may have left its files there."""
    global _here
    path = os.path.join(scratch, "contents")
    shutil.rmtree(path, ignore_errors=True)
    os.mkdir(path, 0o700)
    _here = Directory(path, host)


def bytes_there() -> int:
    """Bytes in the files of this process, or of the one from which it was forked off.

    >>> long = OnDisk(b"x" * 10_000)
    >>> bytes_there() >= 10_000
    True
    """
    return _here.bytes if _here is not None else 0


def is_damaged() -> bool:
    """Whether files were found to be gone or changed by a process that has not given up."""
    return _here is not None and _here.is_damaged


def hold() -> None:
    """A forked process reads what this one has: nothing is removed until `release`."""
    if _here is not None:
        _here.hold()


def release() -> None:
    """A forked process has ended."""
    if _here is not None:
        _here.release()


def _name_of(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=32).hexdigest()


def _made() -> str:
    """A new directory. Nothing is drawn for its name: in a rehearsed call that would be the call's chance."""
    above = os.environ.get("TMPDIR") or "/tmp"
    _remove_stale(above)
    number = 0
    while True:
        path = os.path.join(above, f"{_LOCAL}-{_pid()}-{number}")
        number += 1
        with contextlib.suppress(FileExistsError), _effects():
            os.mkdir(path, 0o700)
            # It is in use for as long as this process lives, or one that it has forked off.
            if _lock(path) is not None:
                return path


def _lock(path: str) -> int | None:
    """The descriptor with the lock of a directory; None where another has it, or the directory is gone."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.isdir(path):
            return descriptor
    except OSError:
        pass
    os.close(descriptor)
    return None


def _remove_stale(above: str) -> None:
    """Remove what processes have left that were killed."""
    left = [name for name in os.listdir(above) if name.startswith(f"{_LOCAL}-")]
    with _effects():
        for name in left[:_STALE_MAX]:
            path = os.path.join(above, name)
            descriptor = _lock(path)
            if descriptor is not None:
                # It may be somebody else's, and stay.
                shutil.rmtree(path, ignore_errors=True)
                os.close(descriptor)


def _remove(place: Directory) -> None:
    if place.pid == _pid():
        with _effects():
            shutil.rmtree(place.path, ignore_errors=True)


@contextlib.contextmanager
def _effects() -> Iterator[None]:
    """Objects write no files, for every replica would; these files are its own at each replica."""
    environment: Any = sys.modules.get("quorate._environment")
    was = environment.refuse_effects(False) if environment is not None else False
    try:
        yield
    finally:
        if environment is not None:
            environment.refuse_effects(was)
