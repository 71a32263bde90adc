"""How a class says that a call is undone, and the half of the host that undoes calls and compares.

A replica that executes ahead of decisions goes back when something else is decided. Where every call that is
to be undone says how, that happens in the process that has the object; else the process is replaced.
"""

from __future__ import annotations

import collections
import contextlib
import dis
import functools
import inspect
import os
import signal
import types
from collections.abc import Callable, Generator, Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Concatenate, Generic, Literal, NoReturn, ParamSpec, TypeVar, overload

from quorate import _data_model, _environment, _making, _names, _native, _on_disk, _options, _steps
from quorate._findings import Found, Level, shown_path

S = TypeVar("S")
P = ParamSpec("P")
R = TypeVar("R")
U = TypeVar("U", bound=Callable[..., object])

_MARK = "__quorate_undoes__"

IMAGE_BYTES_MAX = 64 << 10
"""Of a state that is kept to name what differs from it; of a larger one only the digest is kept."""

TRIAL_SECONDS = 5
"""A process that tries an undo takes no longer: it is killed."""

PLAIN = (bool, int, str, bytes, types.NoneType)
"""Values that are compared by value whenever a call is undone, as are floats."""

SIZED = (
    *(list, dict, set, bytearray),
    *(collections.deque, collections.OrderedDict, collections.defaultdict, collections.Counter),
)
"""Containers whose length is compared then."""

RIGHT = b"="
"""What a process that tries an undo tells if it finds nothing: one that is ended meanwhile tells nothing."""


HEAP_TYPE = 1 << 9
"""The flag of classes that are not built in."""

DELEGATING = ("SEND", "GET_YIELD_FROM_ITER")
"""Instructions of a generator that yields what another one does."""

Part = Literal["undo", "call"]
"""Whose code runs in a trial."""


SPENT = "it does not end: it took more steps than a call may"


class NotUndone(AssertionError):
    """What a class says has not undone a call.

    >>> issubclass(NotUndone, AssertionError)
    True
    """


class Undoes(Generic[S, P, R]):
    """Marks the method that undoes another one; made by `undoes`."""

    def __init__(self, name: str) -> None:
        self._name = name

    @overload
    def __call__(
        self, undo: Callable[Concatenate[S, P], Generator[None, R, None]], /
    ) -> Callable[Concatenate[S, P], Generator[None, R, None]]: ...

    @overload
    def __call__(
        self, undo: Callable[Concatenate[S, R, P], None], /
    ) -> Callable[Concatenate[S, R, P], None]: ...

    def __call__(self, undo: Any, /) -> Any:
        """Mark it."""
        return _marked(undo, self._name)


@overload
def undoes(method: str, /) -> Callable[[U], U]: ...


@overload
def undoes(method: Callable[Concatenate[S, P], R], /) -> Undoes[S, P, R]: ...


def undoes(method: Any, /) -> Any:
    """Mark a private method that undoes calls of a public one, which it names or is given.

    It gets what the call returned, then the call's arguments. One that needs to know what was before the call
    is a generator with the same arguments as the method: it runs up to its `yield` before the call, where it
    must change nothing, and goes on from there, with what the call returned, only if the call is undone. Its
    `yield` stands in no `try` or `with`, whose end would run when the call is decided.

    >>> class Account:
    ...     def __init__(self) -> None:
    ...         self.balance, self.notes = 0, {}
    ...     def deposit(self, amount: int) -> int:
    ...         self.balance += amount
    ...         return self.balance
    ...     @undoes(deposit)
    ...     def _undo_deposit(self, result: int, amount: int) -> None:
    ...         self.balance -= amount
    ...     def note(self, key: str, text: str) -> None:
    ...         self.notes = {**self.notes, key: text}
    ...     @undoes(note)
    ...     def _undo_note(self, key: str, text: str) -> Generator[None, None, None]:
    ...         before = self.notes
    ...         yield
    ...         self.notes = before
    >>> sorted(undos_of(Account))
    ['deposit', 'note']

    Only replicas that execute ahead of decisions use it. Whatever the object was before the call it must be
    afterwards, by value and with the order of its dicts: hosts compare, and `quorate check` tries it. A host
    that finds a difference starts anew, and does without that undo from then on. Calls that raise are undone
    by a new process as ever. Timers, parked calls, messages and the agreed environment go back by themselves.
    """
    name = method if isinstance(method, str) else getattr(method, "__name__", None)
    if not isinstance(name, str):
        raise TypeError(
            f"quorate.undoes() takes a method, or its name, not {method!r:.80}: write "
            "@quorate.undoes(deposit)"
        )
    return Undoes(name)


def _marked(undo: Any, name: str) -> Any:
    if not isinstance(undo, types.FunctionType):
        raise TypeError(
            f"@quorate.undoes({name}) marks a method, not a {type(undo).__name__}: write it above its `def`"
        )
    setattr(undo, _MARK, name)
    return undo


# ---- what a class says ----


def undos_of(cls: type) -> Mapping[str, Callable[..., Any]]:
    """How methods of the class are undone, by their names; what is wrong in `problems` is left out."""
    return _undos_of(cls)


@functools.cache
def _undos_of(cls: Hashable) -> dict[str, Callable[..., Any]]:
    assert isinstance(cls, type)
    wrong = {id(undo) for undo, level, _, _ in _examined(cls) if level is not None}
    found = {getattr(undo, _MARK): undo for undo in _marks(cls) if id(undo) not in wrong}
    return dict(sorted(found.items()))


def problems(cls: type) -> list[Found]:
    """What is wrong in how a class says that its methods are undone."""
    found = []
    for undo, level, reason, fix in _examined(cls):
        if level is not None:
            place = undo.__code__
            function = f"{cls.__name__}.{undo.__name__}"
            line, file = place.co_firstlineno, shown_path(place.co_filename)
            found.append(Found(level, "undo", file, line, function, reason, fix))
    return found


def _marks(cls: type) -> Iterator[types.FunctionType]:
    for name in dir(cls):
        member = inspect.getattr_static(cls, name, None)
        if isinstance(member, types.FunctionType) and isinstance(getattr(member, _MARK, None), str):
            yield member


def _examined(cls: type) -> Iterator[tuple[types.FunctionType, Level | None, str, str]]:
    """Each method that undoes another one, and what is wrong with it."""
    seen: dict[str, str] = {}
    for undo in _marks(cls):
        name = getattr(undo, _MARK)
        level, reason, fix = _wrong(cls, undo, name)
        if level is None and name in seen:
            level, fix = "problem", "remove one of them"
            reason = f"`{undo.__name__}` undoes `{name}`, which `{seen[name]}` does too"
        seen.setdefault(name, undo.__name__)
        yield undo, level, reason, fix


def _wrong(cls: type, undo: types.FunctionType, name: str) -> tuple[Level | None, str, str]:
    own = undo.__name__
    method = inspect.getattr_static(cls, name, None)
    if method is None:
        return "problem", f"`{own}` undoes `{name}`, and there is no such method", "correct the name"
    if not isinstance(method, types.FunctionType):
        reason = f"`{own}` undoes `{name}`, which is no plain method"
        return "problem", reason, "remove @quorate.undoes"
    if _options.is_readonly(cls, name):
        reason = f"`{own}` undoes `{name}`, which is declared read-only"
        return "problem", reason, "remove one of the declarations"
    if not (name in _data_model.SPECIAL or not name.startswith("_")):
        reason = f"`{own}` undoes `{name}`, which no client can call"
        return "problem", reason, "undo it in what undoes its callers"
    if not own.startswith("_"):
        return "problem", f"clients could call `{own}`, which undoes `{name}`", f"call it `_{own}`"
    if inspect.iscoroutinefunction(undo) or inspect.isasyncgenfunction(undo):
        return "problem", f"`{own}` is async, and undoing does not wait", "write it without async"
    if _runs_when_closed(undo):
        reason = f"the `yield` of `{own}` stands in a `try` or `with`, or in another generator"
        return "problem", f"{reason}: what ends that would run when the call is decided", "write it outside"
    wanted = _parameters(method)
    wanted = wanted if inspect.isgeneratorfunction(undo) else ["result", *wanted]
    if not _takes(undo, wanted):
        shown = ", ".join(["self", *(each.partition("=")[0] for each in wanted)])
        reason = f"`{own}` does not take what is known of a call of `{name}`"
        return "problem", reason, f"write `def {own}({shown})`"
    if _depth(cls, undo) > _depth(cls, method):
        reason = f"`{own}` undoes a `{name}` that a class below has replaced: it is not used"
        return "note", reason, f"write another one beside the `{name}` that runs"
    return None, "", ""


def _runs_when_closed(undo: types.FunctionType) -> bool:
    """Whether code of a generator would run if it were closed at a `yield`."""
    if not inspect.isgeneratorfunction(undo):
        return False
    code: Any = dis.Bytecode(undo)
    instructions = list(code)
    if any(each.opname in DELEGATING for each in instructions):
        return True
    handlers = {each.offset for each in instructions if each.opname == "PUSH_EXC_INFO"}
    guarded = [(each.start, each.end) for each in code.exception_entries if each.target in handlers]
    yields = [each.offset for each in instructions if each.opname == "YIELD_VALUE"]
    return any(start <= at < end for at in yields for start, end in guarded)


def _depth(cls: type, function: types.FunctionType) -> int:
    """How far above the class it is defined."""
    bases = enumerate(cls.__mro__)
    return next((depth for depth, base in bases if function in vars(base).values()), 0)


def _parameters(function: Callable[..., Any]) -> list[str]:
    stars: dict[Any, str] = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    parameters = list(inspect.signature(function).parameters.values())[1:]
    is_keyword = False
    told = []
    for each in parameters:
        if each.kind is each.KEYWORD_ONLY and not is_keyword:
            told.append("*")
        is_keyword |= each.kind in (each.KEYWORD_ONLY, each.VAR_POSITIONAL)
        default = "" if each.default is each.empty else "="
        told.append(f"{stars.get(each.kind, '')}{each.name}{default}")
    return told


def _takes(undo: Callable[..., Any], wanted: list[str]) -> bool:
    given = _parameters(undo)
    if wanted[:1] == ["result"] and not inspect.isgeneratorfunction(undo):
        if not given:
            return False
        # What it calls the result is its own affair.
        given, wanted = given[1:] if not given[0].startswith("*") else given, wanted[1:]
    takes_all = len(given) == 2 and given[0].startswith("*") and given[1].startswith("**")
    return takes_all or given == wanted


# ---- a call that may be undone ----


@dataclass(slots=True)
class Kept:
    """What is kept of a call until it is decided."""

    method: str
    undo: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    attributes: dict[str, tuple[Any, int]]
    generator: Generator[None, Any, None] | None = None
    digest: bytes = b""
    image: bytes = b""
    result: Any = None


def keep(target: Any, method: str, args: tuple[Any, ...], kwargs: dict[str, Any], takes_digest: bool) -> Kept:
    """Before a call: what is needed to undo it, and to see that it was.

    Raises NotUndone if the object is not what it was, or if that is unknown; after any other exception it is,
    as far as that shows.
    """
    undo = undos_of(type(target))[method]
    kept = Kept(method, undo, args, kwargs, _look(target))
    if takes_digest:
        _take_digest(target, kept)
    if inspect.isgeneratorfunction(undo):
        kept.generator = undo(target, *args, **kwargs)
        _begin(target, kept, kept.generator)
    return kept


def _take_digest(target: Any, kept: Kept) -> None:
    try:
        image = _native.dump_state(target)
    except Exception:
        # A state that has no image has no snapshots either, which is reported there.
        return
    kept.digest = _native.digest(image)
    kept.image = image if len(image) <= IMAGE_BYTES_MAX else b""


def _begin(target: Any, kept: Kept, generator: Generator[None, Any, None]) -> None:
    """Run what comes before the `yield`, after which the object is what it was."""
    try:
        is_over = next(generator, _ENDED) is _ENDED
    except BaseException as error:
        changed = _changed(target, kept)
        if changed:
            raise NotUndone(f"it changes the object before its `yield`, and raises: {changed}") from error
        raise
    changed = _changed(target, kept)
    if changed:
        raise NotUndone(f"it changes the object before its `yield`: {changed}")
    if is_over:
        raise NotUndone("it ends before its `yield`")


_ENDED = object()


def undo(target: Any, kept: Kept) -> None:
    """Undo a call. Raises NotUndone if the object is not what it was, as far as that shows."""
    generator = kept.generator
    if generator is None:
        returned = kept.undo(target, kept.result, *kept.args, **kept.kwargs)
        if isinstance(returned, types.GeneratorType | types.CoroutineType):
            raise NotUndone("it returns what nothing runs: mark the function that has the `yield`")
    else:
        try:
            generator.send(kept.result)
        except StopIteration:
            pass
        else:
            raise NotUndone("it yields twice")
    changed = _changed(target, kept)
    if changed:
        raise NotUndone(changed)


def try_on(
    target: Any,
    method: str,
    given: tuple[Any, Any],
    call: Callable[[], Any],
    enter: Callable[[Part], None],
) -> str:
    """Make a call on a copy of an object and undo it; what is wrong then, or nothing.

    A call that raises is not undone by what the class says, nor is one of whose result something was drawn.
    `enter` is told whose code runs next.
    """
    args, kwargs = given
    enter("undo")
    try:
        kept = keep(target, method, tuple(args), kwargs, True)
    except NotUndone as error:
        return str(error)
    except Exception as error:
        return f"it raised {_making.one_line(error)} before its `yield`"
    enter("call")
    try:
        kept.result = call()
    except Exception:
        return ""
    if hasattr(kept.result, "__next__"):
        return ""
    enter("undo")
    try:
        undo(target, kept)
    except NotUndone as error:
        return str(error)
    except Exception as error:
        return f"it raised {_making.one_line(error)}"
    return ""


def why(target: type, kept: Kept, error: BaseException) -> str:
    """What a host tells of an undo that failed: where, what, and what to do."""
    return _told(target, kept.undo, kept.method, error)


def why_not_kept(target: type, method: str, error: BaseException) -> str:
    """The same of one that failed before the call."""
    return _told(target, undos_of(target)[method], method, error)


def _told(target: type, undo: Callable[..., Any], method: str, error: BaseException) -> str:
    own = getattr(undo, "__name__", "it")
    if isinstance(error, _steps.Spent):
        what = SPENT
    elif isinstance(error, NotUndone):
        what = str(error)
    else:
        what = f"it raised {_making.one_line(error)}"
    return (
        f"`{own}` of {target.__name__} does not undo `{method}`: {what}; this host does without it from "
        "here on, and starts anew instead. Mend it (`quorate check` tries it), or remove @quorate.undoes"
    )


def _look(target: Any) -> dict[str, tuple[Any, int]]:
    """The attributes, each with its length if that can change, and how many items the object has itself."""
    attributes: dict[str, Any] = getattr(target, "__dict__", {})
    seen = {name: (value, len(value) if type(value) in SIZED else -1) for name, value in attributes.items()}
    slots, items = _layout(type(target))
    for name, slot in slots:
        with contextlib.suppress(AttributeError):
            value = slot.__get__(target, type(target))
            seen[name] = (value, len(value) if type(value) in SIZED else -1)
    for kind in items:
        seen[f"its items as a {kind.__name__}"] = (kind, kind.__len__(target))
    return seen


Layout = tuple[list[tuple[str, types.MemberDescriptorType]], list[Any]]


def _layout(cls: type) -> Layout:
    """Where objects of the class keep what is not in their `__dict__`: slots, and a container's items."""
    return _layout_of(cls)


@functools.cache
def _layout_of(cls: Hashable) -> Layout:
    assert isinstance(cls, type)
    members = [(name, member) for base in cls.__mro__ for name, member in vars(base).items()]
    slots = [
        (name, member)
        for name, member in members
        if isinstance(member, types.MemberDescriptorType) and member.__objclass__.__flags__ & HEAP_TYPE
    ]
    items = [kind for kind in (list, dict, set, bytearray, collections.deque) if issubclass(cls, kind)]
    return slots, items


def _changed(target: Any, kept: Kept) -> str:
    """What shows that the object is not as before; empty if nothing does."""
    now = _look(target)
    for name in {**kept.attributes, **now}:
        if not _is_alike(kept.attributes.get(name), now.get(name)):
            return f"`{_making.plain(name)}` is not what it was before the call"
    if not kept.digest:
        return ""
    try:
        image = _native.dump_state(target)
    except Exception as error:
        return f"the state is no longer one that is kept: {_making.one_line(error)}"
    if _native.digest(image) == kept.digest:
        return ""
    return f"{_differs(target, kept.image)} is not what it was before the call, or not in its order"


def _is_alike(before: tuple[Any, int] | None, now: tuple[Any, int] | None) -> bool:
    if before is None or now is None:
        return False
    (old, old_length), (new, new_length) = before, now
    if old is new:
        return old_length == new_length
    if type(old) is not type(new):
        return False
    if type(old) in (float, complex):
        # NaN is what it was, and the zeros differ.
        return repr(old) == repr(new)
    if type(old) in PLAIN:
        return bool(old == new)
    return old_length == new_length


def _differs(target: Any, image: bytes) -> str:
    """The first attribute that has another value than in the image."""
    try:
        with _names.restoring():
            before = vars(_native.load_state(image)) if image else {}
        for name, value in vars(target).items():
            if name in before and _native.dump_state(value) != _native.dump_state(before[name]):
                return f"`{_making.plain(name)}`"
    except Exception:
        return "its state"
    return "its state"


# ---- trials ----


def can_try() -> bool:
    """Whether a forked process may undo calls: what lies in files it would change for both."""
    return _on_disk.bytes_there() == 0


def try_in_child(target: Any, kept: Kept, writer: int, stream: int, parent: int) -> NoReturn:
    """Runs in a forked process and never returns: undoes the call there, and tells what differs."""
    try:
        _native.die_with_parent(parent)
        # The node must see the stream's end when the host dies, whatever this process does.
        os.close(stream)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(TRIAL_SECONDS)
        _environment.refuse_effects(True)
        try:
            _native.apart(lambda: undo(target, kept))
        except BaseException as error:
            os.write(writer, why(type(target), kept, error).encode(errors="backslashreplace")[:4096])
        else:
            os.write(writer, RIGHT)
    finally:
        # Whatever was raised, and wherever: this process must not go on as a second host.
        os._exit(0)


def ended_in_trial(cls: type, kept: Kept) -> str:
    """What a host tells of an undo that ended the process which tried it, or did not end."""
    return why(cls, kept, NotUndone(f"it ends its process, or does not end within {TRIAL_SECONDS} s"))
