"""`quorate lint`: what in the source of a class makes replicas differ, loses state or is refused in a group.

Only reads; nothing of the class is called, though its module is imported. `quorate check` runs the class as
well.
"""

from __future__ import annotations

import ast
import os
import sys
import sysconfig
from collections.abc import Callable, Iterator
from typing import Any

from quorate import _importing, _making, _options, _outside, _settings, _sources, _undo
from quorate._findings import Found, Level, in_order, shown_path
from quorate._sources import UNKNOWN, Scope

_Place = tuple[ast.AST, Level, str, str, str]
"""Node, level, rule, reason and fix."""

_THREADS = (
    "threads",
    "threads run on each replica in their own order",
    "do the work in the call or in the client",
)
_NETWORK = ("network", "every replica would speak to the network", "do it in the client and pass the result")
_PROCESSES = ("processes", "every replica would start a process", "do it in the client and pass the result")
_IDENTITY = (
    "process",
    "in a group this is an agreed value, not the machine's",
    "pass the real one as an argument",
)
_LOCALE = ("locale", "follows the locale of the process", "format with a fixed layout, such as f'{x:,.2f}'")

_CALLS: dict[str, tuple[str, str, str]] = {
    "time.sleep": ("sleep", "sleeping stops the group, and is refused", "let the client wait"),
    "builtins.id": (
        "address",
        "`id` is an address: it differs between replicas",
        "use a number or name of your own",
    ),
    "posix.getpid": _IDENTITY,
    "posix.getppid": _IDENTITY,
    "_thread.get_ident": _IDENTITY,
    "threading.get_ident": _IDENTITY,
    "_thread.get_native_id": _IDENTITY,
    "threading.get_native_id": _IDENTITY,
    "threading.current_thread": _IDENTITY,
    "socket.gethostname": _IDENTITY,
    "_socket.gethostname": _IDENTITY,
    "platform.node": _IDENTITY,
    "os.getenv": ("environment", "the environment differs between replicas", "pass it to the constructor"),
    "threading.Thread": _THREADS,
    "threading.Timer": _THREADS,
    "_thread.start_new_thread": _THREADS,
    "subprocess.Popen": _PROCESSES,
    "subprocess.run": _PROCESSES,
    "subprocess.call": _PROCESSES,
    "subprocess.check_call": _PROCESSES,
    "subprocess.check_output": _PROCESSES,
    "posix.system": _PROCESSES,
    "posix.fork": _PROCESSES,
    "os.popen": _PROCESSES,
}
_PACKAGES: dict[str, tuple[str, str, str]] = {
    "concurrent.futures": _THREADS,
    "multiprocessing": _PROCESSES,
    "asyncio": _THREADS,
    "socket": _NETWORK,
    "ssl": _NETWORK,
    "urllib.request": _NETWORK,
    "http.client": _NETWORK,
    "requests": _NETWORK,
    "httpx": _NETWORK,
    "aiohttp": _NETWORK,
    "smtplib": _NETWORK,
    "locale": _LOCALE,
    "_locale": _LOCALE,
}
_ORDERED_BY = ("list", "tuple", "enumerate", "next", "iter", "zip")
_UNORDERED = frozenset(["sorted", "set", "frozenset", "sum", "min", "max", "len", "any", "all", "Counter"])
_CLOCK_TEXTS = ("now", "today")
_SET_MAKERS = frozenset(["set", "frozenset", "Set", "FrozenSet", "MutableSet", "AbstractSet"])


_STANDARD = os.path.join(sysconfig.get_path("stdlib"), "")


def lint(cls: type) -> list[Found]:
    """What is found in the sources of a class, and of what it reaches in its own package."""
    found: list[Found] = []
    sets = _attributes_of(cls, _is_set)
    lists = _attributes_of(cls, _is_container)
    loggers = _attributes_of(cls, _is_logger)
    for scope in _outside.scopes(cls):
        if scope.path.startswith(_STANDARD):
            # What data classes and such have wrapped.
            continue
        file = shown_path(scope.path)
        for search in (_calls, _formats, _environment, _reprs):
            found += (_found(each, scope, file) for each in search(scope))
        found += (_found(each, scope, file) for each in _set_orders(scope, sets))
        found += (_found(each, scope, file) for each in _aliases(scope, lists))
        found += (_found(each, scope, file) for each in _loggers(scope, loggers))
        if _options.is_marked(scope.function) or scope.name.rpartition(".")[2] in _declared(cls):
            found += (_found(each, scope, file) for each in _writes(scope))
    clocks = {(each.file, each.line) for each in found if each.rule == "clock"}
    for each in _outside.find_all(cls):
        if (shown_path(each.path), each.line) in clocks:
            continue
        reason = f"{each.what} is {each.how} in {each.function}, and is no part of the object"
        found.append(
            Found(
                "problem",
                "outside",
                shown_path(each.path),
                each.line,
                each.function,
                reason,
                "keep it in the object",
            )
        )
    return in_order([*found, *_undo.problems(cls)])


def _found(place: _Place, scope: Scope, file: str) -> Found:
    node, level, rule, reason, fix = place
    if rule == "process" or (rule == "address" and "site-packages" in scope.path):
        # Of another package: a guard against recursion, say. Whether it shows is seen when the class runs.
        level = "note"
    return Found(level, rule, file, getattr(node, "lineno", 0), scope.name, reason, fix)


def _declared(cls: type) -> frozenset[str]:
    return frozenset(getattr(cls, "__quorate_reads__", ()))


def _qualified(value: Any) -> str:
    """Where a function or class comes from."""
    if value is UNKNOWN:
        return ""
    module = getattr(value, "__module__", None)
    name = getattr(value, "__qualname__", None)
    return f"{module}.{name}" if isinstance(module, str) and isinstance(name, str) else ""


def _calls(scope: Scope) -> Iterator[_Place]:
    for node in scope.nodes():
        if isinstance(node, ast.keyword) and node.arg == "key":
            function = scope.named(node.value)
            if function is id:
                yield node.value, "problem", *_CALLS["builtins.id"]
        if not isinstance(node, ast.Call):
            continue
        function = scope.named(node.func)
        name = _qualified(function)
        said = _CALLS.get(name) or _of_package(name)
        if said is not None:
            yield node, "problem", *said
        elif name in ("_io.open", "io.open") and _is_writing(node):
            yield node, "problem", "files", "objects cannot write files", "return the content to the client"
        elif name in ("_io.open", "io.open"):
            yield node, "problem", "files", "files differ between machines", "pass the content as an argument"
        elif name.endswith(("datetime64", "Timestamp.now", "Timestamp.today")) and _tells_time(node, name):
            yield (
                node,
                "problem",
                "clock",
                "reads the clock of this machine in C",
                "use datetime.now(), which is agreed",
            )
        elif _is_clock_of_sqlite(node):
            yield (
                node,
                "problem",
                "clock",
                "SQLite reads the clock of this machine",
                "pass datetime.now() as a parameter",
            )


def _of_package(name: str) -> tuple[str, str, str] | None:
    parts = name.split(".")
    return next(
        (said for each in range(len(parts)) if (said := _PACKAGES.get(".".join(parts[: each + 1])))), None
    )


def _is_writing(node: ast.Call) -> bool:
    modes = [*node.args[1:2], *(each.value for each in node.keywords if each.arg == "mode")]
    return any(isinstance(mode, ast.Constant) and set(str(mode.value)) & set("wax+") for mode in modes)


def _tells_time(node: ast.Call, name: str) -> bool:
    if not name.endswith("datetime64"):
        return True
    first = node.args[0] if node.args else None
    return isinstance(first, ast.Constant) and first.value in _CLOCK_TEXTS


def _is_clock_of_sqlite(node: ast.Call) -> bool:
    if not isinstance(node.func, ast.Attribute) or not node.func.attr.startswith("execute"):
        return False
    text = node.args[0].value if node.args and isinstance(node.args[0], ast.Constant) else ""
    return isinstance(text, str) and ("'now'" in text or "current_timestamp" in text.lower())


def _formats(scope: Scope) -> Iterator[_Place]:
    for node in scope.nodes():
        layouts: list[ast.AST] = []
        if isinstance(node, ast.FormattedValue) and node.format_spec is not None:
            layouts = list(ast.walk(node.format_spec))[1:]
        elif isinstance(node, ast.Call):
            function = scope.named(node.func)
            if function is format and len(node.args) == 2:
                layouts = [node.args[1]]
            elif isinstance(node.func, ast.Attribute) and node.func.attr == "format":
                text = node.func.value.value if isinstance(node.func.value, ast.Constant) else ""
                if isinstance(text, str) and "n}" in text and ":" in text:
                    yield node, "problem", *_LOCALE
        if any(isinstance(each, ast.Constant) and str(each.value).endswith("n") for each in layouts):
            yield node, "problem", *_LOCALE


def _environment(scope: Scope) -> Iterator[_Place]:
    for node in scope.nodes():
        if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load):
            value = scope.named(node)
            if value is os.environ:
                reason = "the environment differs between replicas"
                yield node, "problem", "environment", reason, "pass it to the constructor"


def _reprs(scope: Scope) -> Iterator[_Place]:
    owner = scope.owner
    if owner is None or _has_text(owner):
        return
    for node in scope.nodes():
        shown: ast.AST | None = None
        if isinstance(node, ast.FormattedValue):
            shown = node.value
        elif (
            isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("str", "repr")
        ):
            shown = node.args[0] if node.args else None
        if shown is not None and scope.is_self(shown):
            reason = f"the text of a {owner.__name__} shows its address"
            yield node, "problem", "address", reason, "give the class a __repr__"


def _has_text(cls: type) -> bool:
    bases = [base for base in cls.__mro__ if base is not object]
    return any("__repr__" in vars(base) or "__str__" in vars(base) for base in bases)


def _attributes_of(cls: type, holds: Callable[[ast.expr | None], bool]) -> set[str]:
    """Attributes of the instance to which some method binds such a thing."""
    found: set[str] = set()
    for function in _sources.functions_of(cls):
        scope = Scope.of(function, cls)
        for node in scope.nodes() if scope else ():
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            annotation = node.annotation if isinstance(node, ast.AnnAssign) else None
            if isinstance(node, ast.Assign | ast.AnnAssign) and (holds(node.value) or holds(annotation)):
                found.update(
                    each.attr
                    for each in targets
                    if isinstance(each, ast.Attribute) and scope and scope.is_self(each.value)
                )
    return found


def _is_set(node: ast.expr | None) -> bool:
    if isinstance(node, ast.Set | ast.SetComp):
        return True
    if isinstance(node, ast.Subscript):
        return _is_set_name(node.value)
    return isinstance(node, ast.Call) and _is_set_name(node.func)


def _is_set_name(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in _SET_MAKERS


def _is_container(node: ast.expr | None) -> bool:
    if isinstance(node, ast.List | ast.Dict | ast.ListComp | ast.DictComp):
        return True
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("list", "dict", "set")
    )


def _set_orders(scope: Scope, sets: set[str]) -> Iterator[_Place]:
    """Places where the order of a set can show."""
    reason = "shows the order of a set: replicas of one group agree on it, another group has another"
    said: tuple[Level, str, str, str] = ("note", "set order", reason, "use sorted(...) or a dict")
    local = {
        target.id
        for node in scope.nodes()
        if isinstance(node, ast.Assign) and _is_set(node.value)
        for target in node.targets
        if isinstance(target, ast.Name)
    }

    def is_set(node: ast.AST) -> bool:
        if isinstance(node, ast.Attribute):
            return scope.is_self(node.value) and node.attr in sets
        return (isinstance(node, ast.Name) and node.id in local) or (
            isinstance(node, ast.expr) and _is_set(node)
        )

    harmless: set[int] = set()
    for node in scope.nodes():
        if isinstance(node, ast.Call):
            name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
            if name in _UNORDERED:
                harmless.update(id(each) for argument in node.args for each in ast.walk(argument))
    for node in scope.nodes():
        if id(node) in harmless:
            continue
        if isinstance(node, ast.Call):
            name = node.func.id if isinstance(node.func, ast.Name) else ""
            attribute = node.func.attr if isinstance(node.func, ast.Attribute) else ""
            if ((name in _ORDERED_BY or attribute == "join") and any(is_set(each) for each in node.args)) or (
                attribute == "pop"
                and not node.args
                and isinstance(node.func, ast.Attribute)
                and is_set(node.func.value)
            ):
                yield node, *said
        elif (
            isinstance(node, ast.ListComp | ast.DictComp)
            and any(is_set(each.iter) for each in node.generators)
        ) or (isinstance(node, ast.For) and is_set(node.iter) and _leaves_or_appends(node)):
            yield node, *said


def _leaves_or_appends(node: ast.For) -> bool:
    for each in ast.walk(node):
        if isinstance(each, ast.Return | ast.Break | ast.Yield):
            return True
        if isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute) and each.func.attr == "append":
            return True
    return False


def _aliases(scope: Scope, containers: set[str]) -> Iterator[_Place]:
    """Containers of the object that a public method returns as they are."""
    if scope.owner is None or scope.name.rpartition(".")[2].startswith("_"):
        return
    for node in scope.nodes():
        value = node.value if isinstance(node, ast.Return) else None
        if isinstance(value, ast.Attribute) and scope.is_self(value.value) and value.attr in containers:
            reason = f"returns `self.{value.attr}` itself; in a group the caller gets a copy of it"
            yield node, "note", "alias", reason, "return a copy"


def _is_logger(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == "getLogger"


def _loggers(scope: Scope, held: set[str]) -> Iterator[_Place]:
    """Changes to what is logged: no answer follows from them, so they are no reason to refuse a class."""
    reason = "changes what this process logs; a replica that restarts logs as its module says"
    for node in _settings.of_loggers(scope, held):
        yield node, "note", "logging", reason, "set it in the module or in the constructor"


def _writes(scope: Scope) -> Iterator[_Place]:
    """Changes in a method that is declared to make none."""
    for node in scope.nodes():
        if _outside.is_change(scope, node):
            reason = f"{scope.name} is declared read-only and changes the object"
            yield node, "problem", "read", reason, "remove the declaration or the change"


def class_of(path: str, paths: list[str]) -> type:
    """The class that MODULE:CLASS names; raises LookupError with what is wrong."""
    if path.startswith("rust:"):
        raise LookupError(f"{path} is built in, and is no class of Python")
    sys.path[:0] = [each for each in paths if each not in sys.path]
    module, colon, _ = path.partition(":")
    ended = _importing.end_of_import(module) if colon else None
    if ended is not None:
        raise LookupError(ended)
    try:
        return _making.find_class(path, paths)
    except _making.Unfit as unfit:
        raise LookupError(unfit.args[1]) from unfit
