"""The host process: makes the objects, and serves the node's calls until the node closes the stream.

Started by the node as ``python -m quorate._host`` with a socket as standard input and the shared activity as
standard output; docs/host-protocol.md describes both. What the objects print goes to standard error.
"""

from __future__ import annotations

import gc
import importlib
import inspect
import os
import platform
import re
import resource
import select
import signal
import struct
import sys
import types
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from quorate import (
    _callables,
    _conditions,
    _confinement,
    _constructor,
    _data_model,
    _environment,
    _fingerprint,
    _names,
    _native,
    _outside,
    _raised,
    _reads,
    _sources,
    _state,
    _steps,
    _values,
    _waiting,
)
from quorate._errors import BudgetExceeded, MalformedValue, MethodSkipped, NotReadOnly
from quorate._places import Places

T = TypeVar("T")

Prepared = tuple[bytes, dict[int, Any], str, list[tuple[int, str]], int, list[tuple[int, int]]]
"""Answer, objects, which reads are checked, methods that may not run as reads, quiet slots, and budgets."""

VERSION = 7
"""Version of the protocol between node and host."""

DESCRIPTORS_MAX = 1024
"""Files that objects and their modules may hold open."""

_MAPPED_AT_START = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
"""Bytes of address space, read before the process is confined."""

_ADDRESS = re.compile(
    r" at 0x[0-9a-fA-F]+|(?: at |@|\bid[ =])(?:0x[0-9a-fA-F]{9,}|(?:9[3-5]|139|140)\d{12})\b"
)
"""How texts show where something lies: in hexadecimal, and in decimal where they say what it is."""


TOLD_MAX = 1000
"""Characters that are told of an error of one line."""

_TOO_DEEP = "nesting this deep"
_SHALLOWER = "; keep what is linked one to the next in a list or a dict, as numbers or keys of the next"


class Unfit(Exception):
    """An object that cannot be served: (kind, reason)."""


class Host:
    """The slow half of the host process; the native loop calls it."""

    def __init__(self, stream: int) -> None:
        self._stream = stream
        self._classes: dict[int, type] = {}
        self._children: dict[int, int] = {}
        self._places = Places([])
        self._voice: int | None = None
        self._reads: _reads.Reads | None = None
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
        if greeting["sandbox"]:
            confinement = _confinement.confine(greeting["paths"], greeting["scratch"])
        objects: dict[int, Any] = {}
        _environment.refuse_effects(False)
        budgets = {number: budget for number, _, _, _, budget in greeting["objects"]}
        if any(budgets.values()):
            _steps.install(path for _, _, path, _, _ in greeting["objects"])
        for number, name, path, (args, kwargs), _ in greeting["objects"]:
            try:
                _allow(greeting["allow"])
                cls = _find_class(path, greeting["paths"])
                _names.register(cls)
                _native.set_environment(0, greeting["seed"], 0, number)
                objects[number] = _construct(cls, *_constructor.given(args, kwargs))
            except Unfit as unfit:
                return _refusal(name, *unfit.args)
            unfit_state = _unfit_state(objects, cls) if greeting["snapshots"] else None
            if unfit_state is not None and greeting.get("refuses", True):
                return _refusal(name, "state", unfit_state)
            if unfit_state is not None:
                self._tell(f"warning: object {name}: {unfit_state}")
            # Some make an instance of another class below them.
            self._classes[number] = type(objects[number])
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

    def _tell(self, text: str) -> None:
        """To the node's log, also while what objects print is dropped."""
        os.write(2 if self._voice is None else self._voice, f"{text}\n".encode(errors="backslashreplace"))

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
        return self._reads.kind(target, number, method) if self._reads is not None else ""

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
            told.append([_plain(name + _shown(cls, name)), kind, _plain(text)])
        return told

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
            f"`{_plain(method)}` of {type(target).__name__} took more than {budget} steps, which --budget "
            f"allows{place}; it was ended and has changed nothing"
        )

    def hook_raised(self, number: int, method: str, error: BaseException) -> None:
        """What an object does at the end of a session, or by a timer, has no caller who would be told."""
        cls = self._classes[number].__name__
        self._tell(f"warning: {cls}.{method} raised {_one_line(error)}")

    def freeze(self, objects: dict[int, Any], heads: dict[int, bytes], path: str) -> int:
        """Fork a process that writes the image; its end is the end of the returned pipe.

        Before each object's image stands what is to come for it: parked calls and timers.
        """
        _environment.refuse_effects(False)
        reader, writer = os.pipe()
        sys.stderr.flush()
        parent = _environment.real_pid()
        child = os.fork()
        if child == 0:
            _write_image(objects, path, writer, self._stream, parent, classes=self._classes, heads=heads)
        os.close(writer)
        self._children[reader] = child
        _environment.refuse_effects(True)
        return reader

    def frozen(self, reader: int) -> str | None:
        """None while the snapshot process works, else why it failed: empty when it did not."""
        if not select.select([reader], [], [], 0)[0]:
            return None
        with os.fdopen(reader, "rb") as pipe:
            reason = pipe.read().decode(errors="replace")
        _, status = os.waitpid(self._children.pop(reader), 0)
        if status != 0 and not reason:
            return f"the snapshot process ended with {os.waitstatus_to_exitcode(status)}"
        return reason

    def restore(self, images: list[tuple[int, bytes]]) -> dict[int, Any]:
        """Objects made from their images."""
        gc.disable()
        try:
            with _names.restoring():
                objects = {number: _native.load_state(image) for number, image in images}
        finally:
            gc.enable()
        for number, cls in self._classes.items():
            if not _may_stand_for(objects.get(number), cls):
                raise ValueError(f"the image of object {number} holds no {cls.__name__}")
        return objects

    def waiters(self) -> dict[int, set[str]]:
        """Methods that may wait until something holds, by object; objects without any are left out."""
        found = {number: _conditions.waiters(cls) for number, cls in self._classes.items()}
        return {number: methods for number, methods in found.items() if methods}

    def skipped(self) -> list[Any]:
        """What a call is told that waits when a step ends every host after which it would be tried again."""
        text = "a step after which this call was to be tried again ended every host: both are skipped"
        return self.describe(MethodSkipped(text))

    def undone(self, image: bytes) -> Any:
        """The object as it was when the image was made."""
        with _names.restoring():
            return _native.load_state(image)

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


def _attempt(make: Callable[[], T], otherwise: T) -> T:
    """What the exception of a user's class makes of itself may raise anything, even the wish to exit."""
    try:
        return make()
    except BaseException:
        return otherwise


def _plain(text: str) -> str:
    """Text that can be sent: lone surrogates are written as escapes."""
    return str.encode(text, "utf-8", "backslashreplace").decode()


def _changed_attribute(target: Any, image: bytes) -> str:
    """The first attribute that has another value than in the image."""
    try:
        before = vars(_native.load_state(image))
        for name, value in vars(target).items():
            if name not in before or _native.dump_state(value) != _native.dump_state(before[name]):
                return f"`{_plain(name)}`"
    except Exception:
        return "its state"
    return "its state"


def _allow(packages: list[str]) -> None:
    for package in packages:
        try:
            importlib.import_module(package)
        except BaseException as error:
            raise Unfit("package", f"--allow {package}: importing it raised {_one_line(error)}") from error
        _names.allow_package(package)


def _find_class(path: str, paths: list[str]) -> type:
    module_name, colon, class_name = path.partition(":")
    if not colon or not module_name or not class_name:
        raise Unfit("class path", f"{path!r} is not MODULE:CLASS, such as bank:Account")
    if "/" in module_name or module_name.endswith(".py"):
        name = os.path.basename(module_name).removesuffix(".py")
        raise Unfit(
            "module", f"{module_name!r} is no module: name it without its file, as in {name}:{class_name}"
        )
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name and (module_name + ".").startswith(error.name + "."):
            reason = f"there is no module {error.name!r} in {', '.join(paths)} or on PYTHONPATH"
        else:
            reason = (
                f"module {module_name!r} needs {error.name!r}, which is not installed for {sys.executable}"
            )
        raise Unfit("module", reason) from error
    except BaseException as error:
        raise Unfit("module", f"importing {module_name!r} raised {_one_line(error)}") from error
    found: Any = module
    for step in class_name.partition("[")[0].split("."):
        found = getattr(found, step, None)
    # Of a type with arguments, such as `Box[int]`, the class is replicated.
    found = _names.class_of(found)
    if not isinstance(found, type):
        known = [name for name, member in vars(module).items() if _is_own_class(member, module_name)]
        hint = f"; its classes: {', '.join(known)}" if known else ""
        is_other = f": it is a {type(found).__name__}" if found is not None else ""
        raise Unfit("class", f"module {module_name!r} has no class {class_name!r}{is_other}{hint}")
    return found


def _is_own_class(member: Any, module_name: str) -> bool:
    return isinstance(member, type) and member.__module__ == module_name


def _construct(cls: type, args: list[Any], kwargs: dict[str, Any]) -> Any:
    try:
        made = cls(*args, **kwargs)
    except BaseException as error:
        reason = f"{cls.__name__}{_signature(cls)} raised {_one_line(error)}: see --args and --kwargs"
        raise Unfit("constructor", reason) from error
    if cls not in type(made).__mro__ and not _may_stand_for(made, cls):
        kind = _names.name_of(type(made))
        reason = f"{cls.__name__}{_signature(cls)} made a {kind}: replicate what it is to make"
        raise Unfit("constructor", reason)
    return made


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


def _signature(cls: type) -> str:
    try:
        return str(inspect.signature(cls))
    except (TypeError, ValueError):
        return "(...)"


def _unfit_state(objects: dict[int, Any], cls: type) -> str | None:
    """Why a snapshot would not keep the states; None when it would."""
    # As when a snapshot is taken: an object that is saved through a file would never be.
    _environment.refuse_effects(True)
    try:
        _test_states(objects)
    except Unfit as unfit:
        return str(unfit.args[1])
    finally:
        _environment.refuse_effects(False)
    try:
        _find_state_outside(cls)
    except Unfit as unfit:
        return str(unfit.args[1])
    return None


def _test_states(objects: dict[int, Any]) -> None:
    """Choose whose word counts for states: the first with which those of all objects come back."""
    refusal: Unfit | None = None
    for trust in _callables.Trust:
        _state.choose(trust)
        try:
            for each in objects.values():
                _test_state(each)
        except Unfit as unfit:
            refusal = refusal or unfit
        else:
            return
    if refusal is not None:
        _state.choose(next(iter(_callables.Trust)))
        raise refusal


def _test_state(value: Any) -> None:
    try:
        image = _native.dump_state(value)
        again = _native.dump_state(_reloaded(image))
    except Exception as error:
        # Of the object itself nothing can be left out.
        is_itself = str(error).startswith("self: ")
        way_out = _MAKE_OWN if is_itself else "leave it out of the state with __getstate__"
        raise Unfit("state", f"{_cut(str(error))}; {way_out}, or run with --no-snapshot") from error
    if image != again:
        raise Unfit(
            "state",
            "the state changes when it is saved and restored: see __getstate__ and __setstate__, "
            f"{_MAKE_OWN}, or run with --no-snapshot",
        )


def _reloaded(image: bytes) -> Any:
    """What comes of an image that this process has just written."""
    try:
        return _native.load_state(image)
    except MalformedValue as error:
        if error.__traceback__ is None or error.__traceback__.tb_next is not None:
            # A part says of itself that it cannot be made.
            raise
        # The length of a container stands before what is in it.
        raise ValueError(f"the state changes while it is read ({error}): {_UNSTABLE}") from error


_UNSTABLE = (
    "a __getstate__, a __reduce__ or an iterator in it takes something out of a container of the state"
)
_MAKE_OWN = "replicate a class of your own that keeps what this one is made of"


def _find_state_outside(cls: type) -> None:
    finding = _outside.find(cls)
    if finding is not None:
        raise Unfit("state", finding.reason)
    for name, (_, change) in _outside.closed(cls).items():
        setattr(cls, name, _refusing(f"`{name}` cannot be called: {change}, {_outside.LOST}"))


def _refusing(text: str) -> staticmethod[..., Any]:
    def refuse(*_: Any, **__: Any) -> Any:
        raise PermissionError(text)

    return staticmethod(refuse)


def _one_line(error: BaseException) -> str:
    name = type(error).__name__
    return _plain(_attempt(lambda: _cut(f"{name}: {error}".splitlines()[0]), f"{name} without a text"))


def _cut(text: str) -> str:
    """Begin and end of a text: where a path begins, and what is wrong at its end."""
    if len(text) > TOLD_MAX:
        text = f"{text[: TOLD_MAX // 2]} ... {text[-TOLD_MAX // 2 :]}"
    return text + _SHALLOWER if _TOO_DEEP in text else text


def _refusal(name: str, kind: str, reason: str) -> Prepared:
    return _native.dumps(["unfit", name, kind, reason]), {}, "never", [], 0, []


def _write_image(
    objects: dict[int, Any],
    path: str,
    writer: int,
    stream: int,
    parent: int,
    *,
    classes: Mapping[int, type] = types.MappingProxyType({}),
    heads: Mapping[int, bytes] = types.MappingProxyType({}),
) -> None:
    """Runs in the forked process and never returns."""
    code = 1
    try:
        _native.die_with_parent(parent)
        # The node must see the stream's end when the host dies, whatever this process does.
        os.close(stream)
        gc.disable()
        with open(path, "wb") as file:
            # What classes do when they are restored must not touch the machine here either.
            _environment.refuse_effects(True)
            file.write(struct.pack("<I", len(objects)))
            for number in sorted(objects):
                _check_class(objects[number], classes.get(number))
                image = _native.dump_state(objects[number])
                head = heads.get(number, b"")
                file.write(struct.pack("<IQ", number, len(head) + len(image)))
                file.write(head)
                file.write(image)
                if _has_room(len(image)):
                    _check_image(objects[number], image)
        code = 0
    except BaseException as error:
        os.write(writer, _one_line(error).encode()[:4096])
    finally:
        # Whatever was raised, and wherever: this process must not go on as a second host.
        os._exit(code)


def _may_stand_for(made: Any, cls: type) -> bool:
    """Whether this can be what became of an instance of the class: some change their own class."""
    if type(made) is cls:
        return True
    changes = any(_sources.is_stored_beside(each, "__class__") for each in (cls, type(made)))
    return changes and _names.is_allowed(type(made))


def _check_class(value: Any, cls: type | None) -> None:
    if cls is not None and not _may_stand_for(value, cls):
        told = f"{_names.name_of(cls)} has become a {_names.name_of(type(value))}"
        raise ValueError(
            f"{told}, which no start could know: assign self.__class__ in the module of the class"
        )


def _check_image(value: Any, image: bytes) -> None:
    """What no start could read would otherwise be found when the log that the image replaces is gone."""
    if _native.dump_state(_reloaded(image)) != image:
        raise ValueError(f"{_names.name_of(type(value))} changes when it is saved and restored")


def _has_room(image_bytes: int) -> bool:
    """Whether the memory suffices to hold state and image a second time."""
    most, _ = resource.getrlimit(resource.RLIMIT_AS)
    held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    # What is mapped now cannot be asked: a confined process does not see its own /proc.
    return most == resource.RLIM_INFINITY or _MAPPED_AT_START + 2 * held + image_bytes < most


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
    _native.serve(stream, activity, Host(stream))


if __name__ == "__main__":
    main()
