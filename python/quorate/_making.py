"""Classes and instances on their way to be objects: found, constructed, and tried with snapshots."""

from __future__ import annotations

import functools
import importlib
import inspect
import os
import sys
from collections.abc import Callable
from typing import Any, TypeVar

from quorate import _callables, _environment, _importing, _names, _native, _outside, _sources, _state
from quorate._errors import MalformedValue

T = TypeVar("T")

TOLD_MAX = 1000
"""Characters that are told of an error of one line."""

_TOO_DEEP = "nesting this deep"

_SHALLOWER = "; keep what is linked one to the next in a list or a dict, as numbers or keys of the next"

_UNSTABLE = (
    "a __getstate__, a __reduce__ or an iterator in it takes something out of a container of the state"
)

_MAKE_OWN = "replicate a class of your own that keeps what this one is made of"


class Unfit(Exception):
    """An object that cannot be served: (kind, reason)."""


def attempt(make: Callable[[], T], otherwise: T) -> T:
    """What the exception of a user's class makes of itself may raise anything, even the wish to exit."""
    try:
        return make()
    except BaseException:
        return otherwise


def plain(text: str) -> str:
    """Text that can be sent: lone surrogates are written as escapes."""
    return str.encode(text, "utf-8", "backslashreplace").decode()


def allow(packages: list[str]) -> None:
    for package in packages:
        try:
            importlib.import_module(package)
        except BaseException as error:
            raise Unfit("package", f"--allow {package}: importing it raised {one_line(error)}") from error
        _names.allow_package(package)


def find_class(path: str, paths: list[str]) -> type:
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
    except _importing.Ended as error:
        raise Unfit("module", f"importing {module_name!r}: {error}") from error
    except BaseException as error:
        raise Unfit("module", f"importing {module_name!r} raised {one_line(error)}") from error
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


def construct(cls: type, args: list[Any], kwargs: dict[str, Any]) -> Any:
    try:
        made = cls(*args, **kwargs)
    except BaseException as error:
        reason = f"{cls.__name__}{signature(cls)} raised {one_line(error)}: see --args and --kwargs"
        raise Unfit("constructor", reason) from error
    if cls not in type(made).__mro__ and not may_stand_for(made, cls):
        kind = _names.name_of(type(made))
        reason = f"{cls.__name__}{signature(cls)} made a {kind}: replicate what it is to make"
        raise Unfit("constructor", reason)
    return made


def signature(cls: type) -> str:
    try:
        return str(inspect.signature(cls))
    except (TypeError, ValueError):
        return "(...)"


def unfit_state(objects: dict[int, Any], cls: type) -> str | None:
    """Why a snapshot would not keep the states; None when it would."""
    return _unfit(lambda: test_states(objects), cls)


def unkept_state(value: Any, cls: type) -> str | None:
    """The same of one more object, where whose word counts for states is chosen already."""
    return _unfit(lambda: _test_state(value), cls)


def _unfit(test: Callable[[], None], cls: type) -> str | None:
    # As when a snapshot is taken: an object that is saved through a file would never be.
    _environment.refuse_effects(True)
    try:
        test()
    except Unfit as unfit:
        return str(unfit.args[1])
    finally:
        _environment.refuse_effects(False)
    return state_outside(cls)


def test_states(objects: dict[int, Any]) -> None:
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
        again = _native.dump_state(reloaded(image))
    except Exception as error:
        # Of the object itself nothing can be left out.
        is_itself = str(error).startswith("self: ")
        way_out = _MAKE_OWN if is_itself else "leave it out of the state with __getstate__"
        raise Unfit("state", f"{cut(str(error))}; {way_out}, or run with --no-snapshot") from error
    if image != again:
        raise Unfit(
            "state",
            "the state changes when it is saved and restored: see __getstate__ and __setstate__, "
            f"{_MAKE_OWN}, or run with --no-snapshot",
        )


def reloaded(image: bytes) -> Any:
    """What comes of an image that this process has just written."""
    try:
        return _native.load_state(image)
    except MalformedValue as error:
        if error.__traceback__ is None or error.__traceback__.tb_next is not None:
            # A part says of itself that it cannot be made.
            raise
        # The length of a container stands before what is in it.
        raise ValueError(f"the state changes while it is read ({error}): {_UNSTABLE}") from error


@functools.cache
def state_outside(cls: type) -> str | None:
    """Why a part of the state is outside of instances; else what would put it there is closed."""
    finding = _outside.find(cls)
    if finding is not None:
        return finding.reason
    for name, (_, change) in _outside.closed(cls).items():
        setattr(cls, name, _refusing(f"`{name}` cannot be called: {change}, {_outside.LOST}"))
    return None


def _refusing(text: str) -> staticmethod[..., Any]:
    def refuse(*_: Any, **__: Any) -> Any:
        raise PermissionError(text)

    return staticmethod(refuse)


def one_line(error: BaseException) -> str:
    name = type(error).__name__
    return plain(attempt(lambda: cut(f"{name}: {error}".splitlines()[0]), f"{name} without a text"))


def cut(text: str) -> str:
    """Begin and end of a text: where a path begins, and what is wrong at its end."""
    if len(text) > TOLD_MAX:
        text = f"{text[: TOLD_MAX // 2]} ... {text[-TOLD_MAX // 2 :]}"
    return text + _SHALLOWER if _TOO_DEEP in text else text


def may_stand_for(made: Any, cls: type) -> bool:
    """Whether this can be what became of an instance of the class: some change their own class."""
    if type(made) is cls:
        return True
    changes = any(_sources.is_stored_beside(each, "__class__") for each in (cls, type(made)))
    return changes and _names.is_allowed(type(made))
