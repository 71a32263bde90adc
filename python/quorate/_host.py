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
from typing import Any

from quorate import _environment, _names, _native
from quorate._errors import QuorateError

VERSION = 1
"""Version of the protocol between node and host."""

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


class Unfit(Exception):
    """An object that cannot be served: (kind, reason)."""


class Host:
    """The slow half of the host process; the native loop calls it."""

    def __init__(self, stream: int) -> None:
        self._stream = stream
        self._classes: dict[int, type] = {}
        self._children: dict[int, int] = {}

    def prepare(self, hello: bytes) -> tuple[bytes, dict[int, Any]]:
        """Make the objects; the answer says ready, or which of them is unfit and why."""
        greeting = _native.loads(hello)
        if greeting["version"] != VERSION:
            return _unfit("", "version", f"this package speaks host protocol {VERSION}"), {}
        sys.path[:0] = greeting["paths"]
        objects: dict[int, Any] = {}
        _environment.refuse_effects(False)
        for number, name, path, (args, kwargs) in greeting["objects"]:
            try:
                cls = _find_class(path)
                _names.register(cls)
                _native.set_environment(0, greeting["seed"], 0, number)
                objects[number] = _construct(cls, args, kwargs)
                if greeting["snapshots"]:
                    _test_state(objects[number])
            except Unfit as unfit:
                return _unfit(name, *unfit.args), {}
            self._classes[number] = cls
        _environment.refuse_effects(True)
        return _native.dumps(["ready", platform.python_version(), os.getpid()]), objects

    def freeze(self, objects: dict[int, Any], path: str) -> int:
        """Fork a process that writes the image; its end is the end of the returned pipe."""
        _environment.refuse_effects(False)
        reader, writer = os.pipe()
        sys.stderr.flush()
        parent = os.getpid()
        child = os.fork()
        if child == 0:
            _write_image(objects, path, writer, self._stream, parent)
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
            objects = {number: _native.load_state(image) for number, image in images}
        finally:
            gc.enable()
        for number, cls in self._classes.items():
            if type(objects.get(number)) is not cls:
                raise ValueError(f"the image of object {number} holds no {cls.__name__}")
        return objects

    def describe(self, error: BaseException) -> tuple[str, str, list[Any], str]:
        """An exception in the form that is sent: the same on every replica, so without addresses or paths."""
        cls = type(error)
        try:
            message = _ADDRESS.sub("", str(error))
        except Exception:
            message = "(its text could not be made)"
        return _names.name_of(cls), message, _clean_arguments(error), _where(error)


def _clean_arguments(error: BaseException) -> list[Any]:
    return [_ADDRESS.sub("", part) if isinstance(part, str) else part for part in error.args]


def _where(error: BaseException) -> str:
    lines: list[str] = []
    trace = error.__traceback__
    while trace is not None and len(lines) < 20:
        code = trace.tb_frame.f_code
        lines.append(f"{os.path.basename(code.co_filename)}:{trace.tb_lineno} in {code.co_qualname}")
        trace = trace.tb_next
    return "\n".join(lines)


def _find_class(path: str) -> type:
    module_name, colon, class_name = path.partition(":")
    if not colon or not module_name or not class_name:
        raise Unfit("class path", f"{path!r} is not MODULE:CLASS, such as bank:Account")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name and (module_name + ".").startswith(error.name + "."):
            reason = f"there is no module {error.name!r} in {os.getcwd()} or on PYTHONPATH"
        else:
            reason = (
                f"module {module_name!r} needs {error.name!r}, which is not installed for {sys.executable}"
            )
        raise Unfit("module", reason) from error
    except Exception as error:
        raise Unfit("module", f"importing {module_name!r} raised {_one_line(error)}") from error
    found: Any = module
    for step in class_name.split("."):
        found = getattr(found, step, None)
    if not isinstance(found, type):
        known = [name for name, member in vars(module).items() if _is_own_class(member, module_name)]
        hint = f"; its classes: {', '.join(known)}" if known else ""
        raise Unfit("class", f"module {module_name!r} has no class {class_name!r}{hint}")
    return found


def _is_own_class(member: Any, module_name: str) -> bool:
    return isinstance(member, type) and member.__module__ == module_name


def _construct(cls: type, args: list[Any], kwargs: dict[str, Any]) -> Any:
    for name, _ in inspect.getmembers(cls, inspect.iscoroutinefunction):
        if not name.startswith("_"):
            raise Unfit(
                "class", f"{cls.__name__}.{name} is `async`: methods of objects are executed one by one"
            )
    try:
        return cls(*args, **kwargs)
    except Exception as error:
        reason = f"{cls.__name__}{_signature(cls)} raised {_one_line(error)}: see --args and --kwargs"
        raise Unfit("constructor", reason) from error


def _signature(cls: type) -> str:
    try:
        return str(inspect.signature(cls))
    except (TypeError, ValueError):
        return "(...)"


def _test_state(value: Any) -> None:
    try:
        image = _native.dump_state(value)
        again = _native.dump_state(_native.load_state(image))
    except (QuorateError, TypeError, ValueError, AttributeError) as error:
        raise Unfit("state", f"{error}: leave it out of the state, or run with --no-snapshot") from error
    if image != again:
        raise Unfit(
            "state", "the state changes when it is saved and restored: see __getstate__ and __setstate__"
        )


def _one_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0]


def _unfit(name: str, kind: str, reason: str) -> bytes:
    return _native.dumps(["unfit", name, kind, reason])


def _write_image(objects: dict[int, Any], path: str, writer: int, stream: int, parent: int) -> None:
    """Runs in the forked process and never returns."""
    try:
        _native.die_with_parent(parent)
        # The node must see the stream's end when the host dies, whatever this process does.
        os.close(stream)
        gc.disable()
        with open(path, "wb") as file:
            file.write(struct.pack("<I", len(objects)))
            for number in sorted(objects):
                image = _native.dump_state(objects[number])
                file.write(struct.pack("<IQ", number, len(image)))
                file.write(image)
    except BaseException as error:
        os.write(writer, _one_line(error).encode()[:4096])
        os._exit(1)
    os._exit(0)


def _limit_resources() -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    memory = os.environ.get("QUORATE_HOST_MEMORY")
    if memory:
        resource.setrlimit(resource.RLIMIT_AS, (int(memory), int(memory)))


def main() -> None:
    """Serve the node that started this process."""
    # A Ctrl-C at the terminal is the node's to handle; its end is ours.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _native.die_with_parent(int(os.environ["QUORATE_HOST_PARENT"]))
    activity = os.dup(1)
    stream = os.dup(0)
    os.set_inheritable(activity, False)
    os.dup2(2, 1)
    # Standard input stays a copy of the stream only until the objects could read it.
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    _limit_resources()
    _environment.install()
    _native.serve(stream, activity, Host(stream))


if __name__ == "__main__":
    main()
