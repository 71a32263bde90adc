"""The host process: makes the objects, and serves the node's calls until the node closes the stream.

Started by the node as ``python -m quorate._host`` with a socket as standard input and the shared activity as
standard output; docs/host-protocol.md describes both. What the objects print goes to standard error.
"""

from __future__ import annotations

import functools
import gc
import inspect
import os
import platform
import re
import resource
import select
import signal
import sys
import types
from collections.abc import Callable, Iterable
from typing import Any, NoReturn, TypeVar

from quorate import (
    _conditions,
    _confinement,
    _constructor,
    _created,
    _data_model,
    _directory,
    _environment,
    _feed,
    _fingerprint,
    _images,
    _making,
    _names,
    _native,
    _on_disk,
    _outbox,
    _own,
    _raised,
    _reads,
    _steps,
    _undo,
    _values,
    _waiting,
)
from quorate._errors import BudgetExceeded, MethodSkipped, NotReadOnly, ObjectDropped
from quorate._places import Places

T = TypeVar("T")

Prepared = tuple[bytes, dict[int, Any], str, list[tuple[int, str]], int, list[tuple[int, int]]]
"""Answer, objects, which reads are checked, methods that may not run as reads, quiet slots, and budgets."""

VERSION = 10
"""Version of the protocol between node and host."""

NOTE_AT, NOTE_BYTES_MAX = 64, 1024
"""Where in the activity it is noted what is done to make an object, and in how many bytes."""

NAMES_AT, NAMES_MAX, NAME_BYTES = 4096, 16_384, 264
"""Where in the activity names of created objects begin, how many there may be, and in how many bytes each."""

DESCRIPTORS_MAX = 1024
"""Files that objects and their modules may hold open."""

_ADDRESS = re.compile(
    r" at 0x[0-9a-fA-F]+|(?: at |@|\bid[ =])(?:0x[0-9a-fA-F]{9,}|(?:9[3-5]|139|140)\d{12})\b"
)
"""How texts show where something lies: in hexadecimal, and in decimal where they say what it is."""


class Host:
    """The slow half of the host process; the native loop calls it."""

    def __init__(self, stream: int, activity: int | None = None) -> None:
        self._stream = stream
        self._activity = activity
        self._classes: dict[int, type] = {}
        self._children: dict[int, int] = {}
        self._places = Places([])
        self._voice: int | None = None
        self._reads: _reads.Reads | None = None
        self._created: _created.Created | None = None
        self._own: dict[int, bytes] = {}
        self._unreliable: set[tuple[int, str]] = set()
        self._distrusted: set[tuple[type, str]] = set()
        self._undos_tried: dict[int, tuple[type, _undo.Kept]] = {}
        _raised.clean = self._clean

    def prepare(self, hello: bytes) -> Prepared:
        """Make the objects; the answer says ready, or which of them is unfit and why."""
        greeting = _native.loads(hello)
        if greeting["version"] != VERSION:
            return _refusal("", "version", f"this package speaks host protocol {VERSION}")
        sys.path[:0] = greeting["paths"]
        self._places = Places.of_this_process(greeting["paths"])
        if greeting["quiet"]:
            self._hush()
        confinement = "off"
        if greeting["scratch"]:
            _on_disk.use(greeting["scratch"], self)
        if greeting["sandbox"]:
            confinement = _confinement.confine(greeting["paths"], greeting["scratch"])
        objects: dict[int, Any] = {}
        self._created = _created.Created(self, greeting)
        _environment.refuse_effects(False)
        self._unreliable = {(number, method) for number, method in greeting["unreliable"]}
        budgets = {number: budget for number, _, _, _, budget in greeting["objects"]}
        if any(budgets.values()):
            _steps.install(path for _, _, path, _, _ in greeting["objects"])
        for number, name, path, (args, kwargs), _ in greeting["objects"]:
            try:
                self._note(name, f"importing {path.partition(':')[0]!r}")
                _making.allow(greeting["allow"])
                cls = _making.find_class(path, greeting["paths"])
                _names.register(cls)
                _native.set_environment(0, greeting["seed"], 0, number)
                self._note(name, f"constructing {cls.__name__}")
                objects[number] = _making.construct(cls, *_constructor.given(args, kwargs))
            except _making.Unfit as unfit:
                return _refusal(name, *unfit.args)
            self._note(name, f"saving the state of {cls.__name__}")
            unfit_state = _making.unfit_state(objects, cls) if greeting["snapshots"] else None
            if unfit_state is not None and greeting.get("refuses", True):
                return _refusal(name, "state", unfit_state)
            if unfit_state is not None:
                self._tell(f"warning: object {name}: {unfit_state}")
            # Some make an instance of another class below them.
            self._classes[number] = type(objects[number])
            for each in _undo.problems(self._classes[number]):
                self._tell(f"warning: object {name}: {each}")
        objects |= self._own_objects()
        self._classes |= _own.CLASSES
        if greeting["snapshots"]:
            # Without images no read is checked, so only what is declared is taken for one.
            self._reads = _reads.Reads()
        fingerprint = _fingerprint.fingerprint({each[1]: each[4] for each in greeting["objects"]})
        _environment.refuse_effects(True)
        checking = greeting["checks"] if greeting["snapshots"] else "never"
        liars = [(number, method) for number, method in greeting["liars"]]
        version, process = platform.python_version(), _environment.real_pid()
        answer = _native.dumps(["ready", confinement, version, process, fingerprint])
        return answer, objects, checking, liars, greeting["quiet"], list(budgets.items())

    def _own_objects(self) -> dict[int, Any]:
        """The group's own objects, of which a snapshot has no images while nothing has happened to them."""
        own = {number: cls() for number, cls in _own.CLASSES.items()}
        for number, each in own.items():
            # From here on it has the number by which it is hashed, on every replica the same one.
            hash(each)
            self._own[number] = _native.dump_state(each)
        return own

    def _note(self, name: str, doing: str) -> None:
        """Tell the node what this process does, should that end it."""
        if self._activity is not None:
            note = f"{name}\0{doing}\0".encode(errors="backslashreplace")
            os.pwrite(self._activity, note[:NOTE_BYTES_MAX].ljust(NOTE_BYTES_MAX, b"\0"), NOTE_AT)

    def note_name(self, number: int, name: str) -> None:
        """Tell the node what an object is called that was created while the group runs."""
        if self._activity is not None:
            note = number.to_bytes(8, sys.byteorder) + name.encode()
            os.pwrite(
                self._activity, note.ljust(NAME_BYTES, b"\0"), NAMES_AT + number % NAMES_MAX * NAME_BYTES
            )

    def warn(self, text: str) -> None:
        """Tell the node's log."""
        self._tell(f"warning: {text}")

    def tell(self, text: str) -> None:
        """Tell the node's log."""
        self._tell(text)

    def _tell(self, text: str) -> None:
        """To the node's log, also while what objects print is dropped."""
        os.write(2 if self._voice is None else self._voice, f"{text}\n".encode(errors="backslashreplace"))

    def give_up(self, status: int, told: str) -> NoReturn:
        """What a call finds here alone must not become its outcome: the other replicas have another one."""
        self._tell(f"error: {told}")
        os._exit(status)

    def _hush(self) -> None:
        """Drop what is printed: work is repeated that an earlier process did and printed."""
        self._voice = os.dup(2)
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        os.close(null)

    def speak(self) -> None:
        """Pass on what is printed from here on."""
        if self._voice is None:
            return
        sys.stdout.flush()
        sys.stderr.flush()
        os.dup2(self._voice, 1)
        os.dup2(self._voice, 2)
        os.close(self._voice)
        self._voice = None

    def kind_of(self, number: int, method: str, target: Any) -> _reads.Kind:
        """Whether the method changes nothing: declared by the class, or proven as the object is now."""
        if _data_model.is_readonly(type(target), method):
            return "declared"
        if self._created is not None and self._created.is_read(number, method):
            return "declared"
        return self._reads.kind(target, method) if self._reads is not None else ""

    def reads(self, number: int, target: Any) -> list[str]:
        """The methods that are reads now; clients ask for them when they connect."""
        cls = type(target)
        names = [*_reads.public_methods(cls), *_data_model.special_of(cls), *_data_model.computed_of(cls)]
        return [name for name in names if self.kind_of(number, name, target)]

    def methods(self, number: int, target: Any) -> list[list[str]]:
        """Each public method: how it is called, `read` or `call`, and the first line of its docstring."""
        cls = type(target)
        told = []
        for name in _reads.public_methods(cls):
            method = getattr(cls, name)
            kind = "read" if self.kind_of(number, name, target) else "call"
            text = (inspect.getdoc(method) or "").partition("\n")[0]
            told.append([_making.plain(name + _shown(cls, name)), kind, _making.plain(text)])
        return told

    def not_read(self, target: Any, method: str) -> Exception:
        """The error of a method, or an attribute, that does not run as a read."""
        return _data_model.not_read(target, method)

    def wrote(self, target: Any, method: str, image: bytes | None) -> NotReadOnly:
        """The error of a method that is declared read-only and changed its object; names the attribute."""
        cls = type(target).__name__
        changed = _changed_attribute(target, image) if image is not None else "an attribute"
        if not _data_model.is_readonly(type(target), method):
            return NotReadOnly(
                f"`{method}` of {cls} was taken for read-only and changes {changed}; this replica is "
                "rebuilt, and the method is ordered from here on. Please report it: the proof was wrong"
            )
        return NotReadOnly(
            f"`{method}` of {cls} is declared read-only and changes {changed}: remove the declaration "
            "(@quorate.readonly, __quorate_reads__) or the change; this replica is rebuilt"
        )

    def spent(
        self, target: Any, method: str, budget: int, ended: types.TracebackType | None
    ) -> BudgetExceeded:
        """The error of a call that took more steps than it may; the same on every replica."""
        place = ""
        while ended is not None:
            place = f", in {os.path.basename(ended.tb_frame.f_code.co_filename)}:{ended.tb_lineno}"
            ended = ended.tb_next
        return BudgetExceeded(
            f"`{_making.plain(method)}` of {type(target).__name__} took more than {budget} steps, which "
            f"--budget allows{place}; it was ended and has changed nothing"
        )

    def hook_raised(self, number: int, method: str, error: BaseException) -> None:
        """What an object does at the end of a session, or by a timer, has no caller who would be told."""
        cls = self._classes[number].__name__
        self._tell(f"warning: {cls}.{method} raised {_making.one_line(error)}")

    def followed(self, number: int, slot: int, time_ns: int, call: bytes) -> None:
        """A call of an object whose calls are followed has left a trace."""
        feed: Any = _native.object_of(_feed.NUMBER)
        feed._record(number, slot, time_ns, call)

    def freeze(self, objects: dict[int, Any], heads: dict[int, bytes], path: str) -> int | None:
        """Fork a process that writes the image; its end is the end of the returned pipe. None: it is written.

        Before each object's image stands what is to come for it: parked calls and timers.
        """
        for number in _own.CLASSES:
            if objects[number].is_pristine and not any(heads[number]):
                del objects[number]
        if _images.write_small(objects, path, self._classes, heads):
            return None
        _environment.refuse_effects(False)
        try:
            return self._fork_image(objects, heads, path)
        finally:
            _environment.refuse_effects(True)

    def _fork_image(self, objects: dict[int, Any], heads: dict[int, bytes], path: str) -> int:
        sys.stderr.flush()
        parent = _environment.real_pid()
        # The process reads the files that its state refers to.
        _on_disk.hold()
        try:
            reader, writer, child = _environment.fork_with_pipe()
        except OSError:
            _on_disk.release()
            raise
        if child == 0:
            classes = self._classes
            _images.write_in_child(objects, path, writer, self._stream, parent, classes=classes, heads=heads)
        os.close(writer)
        self._children[reader] = child
        return reader

    def frozen(self, reader: int) -> str | None:
        """None while the snapshot process works, else why it failed: empty when it did not."""
        if not select.select([reader], [], [], 0)[0]:
            return None
        with os.fdopen(reader, "rb") as pipe:
            reason = pipe.read().decode(errors="replace")
        _on_disk.release()
        _, status = os.waitpid(self._children.pop(reader), 0)
        if os.waitstatus_to_exitcode(status) == _on_disk.DAMAGED:
            self.give_up(_on_disk.DAMAGED, reason)
        if status != 0 and not reason:
            return f"the snapshot process ended with {os.waitstatus_to_exitcode(status)}"
        return reason

    def restore(self, images: list[tuple[int, bytes]]) -> dict[int, Any]:
        """Objects made from their images; the directory says which there are beside the first ones."""
        gc.disable()
        classes = {number: cls for number, cls in self._classes.items() if number < _directory.CREATED_MIN}
        try:
            with _names.restoring():
                kept = dict(images)
                own: dict[int, Any] = {
                    number: _native.load_state(kept.pop(number, image)) for number, image in self._own.items()
                }
                if self._created is not None:
                    classes |= self._created.classes_of(own[_directory.NUMBER])
                objects = {number: _native.load_state(image) for number, image in kept.items()}
        finally:
            gc.enable()
        for number, cls in classes.items():
            if not _making.may_stand_for(objects.get(number), cls):
                raise ValueError(f"the image of object {number} holds no {cls.__name__}")
        self._classes = classes | _own.CLASSES
        if own:
            own[_feed.NUMBER]._go_on()
            own[_outbox.NUMBER]._go_on()
        return objects | own

    def take_changes(self) -> tuple[dict[int, Any], dict[int, set[str]], list[int]]:
        """What the directory has made, with the methods that may wait there, and what it has dropped."""
        made, dropped = self._created.take_changes() if self._created is not None else ({}, [])
        self._classes.update({number: type(each) for number, each in made.items()})
        for number in dropped:
            self._classes.pop(number, None)
        return made, self._waiters_of(made), dropped

    def waiters(self) -> dict[int, set[str]]:
        """Methods that may wait until something holds, by object; objects without any are left out."""
        return self._waiters_of(self._classes)

    def _waiters_of(self, numbers: Iterable[int]) -> dict[int, set[str]]:
        found = {number: _waiters_of_class(self._classes[number]) for number in numbers}
        return {number: methods for number, methods in found.items() if methods}

    def dropped(self) -> list[Any]:
        """What a call is told that waits at an object that is dropped."""
        return self.describe(ObjectDropped("the object at which this call waits was dropped"))

    def skipped(self) -> list[Any]:
        """What a call is told that waits when a step ends every host after which it would be tried again."""
        text = "a step after which this call was to be tried again ended every host: both are skipped"
        return self.describe(MethodSkipped(text))

    def undone(self, image: bytes) -> Any:
        """The object as it was when the image was made."""
        with _names.restoring():
            return _native.load_state(image)

    def undo_methods(self, numbers: list[int] | None = None) -> dict[int, set[str]]:
        """Methods of these objects, or of all, whose calls the class can undo, and has not failed to."""
        classes = {
            number: self._classes[number] for number in (self._classes if numbers is None else numbers)
        }
        for number, method in self._unreliable:
            if number in classes:
                # What the class says is wrong for its other objects too.
                self._distrusted.add((classes[number], method))
        found = {
            number: {name for name in _undo.undos_of(cls) if (cls, name) not in self._distrusted}
            for number, cls in classes.items()
        }
        return {number: methods for number, methods in found.items() if methods}

    def distrust(self, number: int, method: str) -> None:
        """Undo this method of the object's class no more."""
        self._unreliable.add((number, method))

    def is_declared_read(self, target: Any, method: str) -> bool:
        """Whether a call changes nothing, as the class declares."""
        return _data_model.is_readonly(type(target), method)

    def keep_call(
        self, target: Any, method: str, args: tuple[Any, ...], kwargs: dict[str, Any], takes_digest: bool
    ) -> _undo.Kept | None:
        """What is needed to undo a call that is about to run; None where it cannot be kept.

        Raises where the object may have changed.
        """
        try:
            return _undo.keep(target, method, args, kwargs, takes_digest)
        except _undo.NotUndone:
            raise
        except Exception:
            # What no call was made for raises too, as the call itself will: the object is what it was.
            return None

    def not_kept(self, target: Any, method: str, error: BaseException) -> str:
        """Why the object may have changed before a call, and what to mend."""
        return _undo.why_not_kept(type(target), method, error)

    def runs_before(self, target: Any, method: str) -> bool:
        """Whether something of an undo runs before the call."""
        return inspect.isgeneratorfunction(_undo.undos_of(type(target)).get(method))

    def undo_call(self, target: Any, kept: _undo.Kept) -> None:
        """Undo a call, and compare."""
        _undo.undo(target, kept)

    def not_undone(self, target: Any, kept: _undo.Kept, error: BaseException) -> str:
        """Why a call could not be undone, and what to mend."""
        return _undo.why(type(target), kept, error)

    def try_undo(self, target: Any, kept: _undo.Kept) -> int | None:
        """Fork a process that undoes a call, and compares; its end is the end of the returned pipe."""
        if not _undo.can_try():
            return None
        sys.stderr.flush()
        parent = _environment.real_pid()
        _environment.refuse_effects(False)
        try:
            reader, writer, child = _environment.fork_with_pipe()
        finally:
            _environment.refuse_effects(True)
        if child == 0:
            _undo.try_in_child(target, kept, writer, self._stream, parent)
        os.close(writer)
        self._children[reader] = child
        self._undos_tried[reader] = type(target), kept
        return reader

    def tried_undo(self, reader: int, wait_s: float) -> str | None:
        """None while that process works, else what it has found: empty if nothing."""
        if not select.select([reader], [], [], wait_s)[0]:
            return None
        cls, kept = self._undos_tried.pop(reader)
        with os.fdopen(reader, "rb") as pipe:
            told = pipe.read()
        os.waitpid(self._children.pop(reader), 0)
        if told == _undo.RIGHT:
            return ""
        return told.decode(errors="replace") or _undo.ended_in_trial(cls, kept)

    def way_of(self, cls: type, method: str) -> Callable[..., Any] | None:
        """What to call for a name that a caller sent; see `_data_model.way_of`."""
        return _data_model.way_of(cls, method)

    def finish(self, target: Any, method: str, unfinished: Any) -> Any:
        """The result of a method that is `async`."""
        return _waiting.finish(unfinished, f"{type(target).__name__}.{method}")

    def describe(self, error: BaseException, is_brief: bool = False) -> list[Any]:
        """An exception in the form that is sent: the same on every replica, so without addresses or paths."""
        return list(_raised.describe_briefly(error) if is_brief else _raised.describe(error))

    def _clean(self, text: str) -> str:
        return self._places.leave_out(_ADDRESS.sub("", text))


@functools.cache
def _waiters_of_class(cls: type) -> set[str]:
    return _conditions.waiters(cls)


def _changed_attribute(target: Any, image: bytes) -> str:
    """The first attribute that has another value than in the image."""
    try:
        before = vars(_native.load_state(image))
        for name, value in vars(target).items():
            if name not in before or _native.dump_state(value) != _native.dump_state(before[name]):
                return f"`{_making.plain(name)}`"
    except Exception:
        return "its state"
    return "its state"


def _shown(cls: type, name: str) -> str:
    """A method's signature as its callers see it."""
    try:
        parameters = inspect.signature(getattr(cls, name))
    except (TypeError, ValueError):
        return "(...)"
    is_bound = isinstance(inspect.getattr_static(cls, name), (staticmethod, classmethod))
    shown = (
        parameters if is_bound else parameters.replace(parameters=list(parameters.parameters.values())[1:])
    )
    return _ADDRESS.sub("", str(shown)).replace("'", "")


def _refusal(name: str, kind: str, reason: str) -> Prepared:
    return _native.dumps(["unfit", name, kind, reason]), {}, "never", [], 0, []


def _limit_resources() -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = DESCRIPTORS_MAX if most == resource.RLIM_INFINITY else min(DESCRIPTORS_MAX, most)
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    memory = os.environ.pop("QUORATE_HOST_MEMORY", None)
    if memory:
        resource.setrlimit(resource.RLIMIT_AS, (int(memory), int(memory)))
        # An image is never larger than the memory in which it is made.
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(memory), int(memory)))


def main() -> None:
    """Serve the node that started this process."""
    # A Ctrl-C at the terminal is the node's to handle; its end is ours.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _native.die_with_parent(int(os.environ.pop("QUORATE_HOST_PARENT")))
    # The node passes nothing else on, but whoever started the node may have left descriptors open.
    os.closerange(3, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    _native.note_inherited_size()
    activity = os.dup(1)
    stream = os.dup(0)
    os.set_inheritable(activity, False)
    os.dup2(2, 1)
    # A new stream: the old one took the activity for a file in which it may seek.
    sys.stdout = os.fdopen(1, "w", buffering=1, errors="backslashreplace", closefd=False)
    # Standard input stays a copy of the stream only until the objects could read it.
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    _limit_resources()
    _environment.install()
    _values.read_as_host()
    _native.serve(stream, activity, Host(stream, activity))


if __name__ == "__main__":
    main()
