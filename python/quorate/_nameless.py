"""Lambdas and functions in functions: kept by the place of their code in their module, and what they hold.

An image carries no code. It says which function of the module's source it is, by its qualified name and its
place among those of that name; loading takes the code from the module itself, so that nothing can be run that
an allowed module does not have.
"""

from __future__ import annotations

import functools
import importlib
import sys
import types
from collections.abc import Iterator
from typing import Any

from quorate import _names, _standard
from quorate._errors import MalformedValue

Parts = tuple[str, tuple[Any, ...], Any]

_announced: set[int] = set()
"""Cells that the function which was last taken apart lists: their content is in the function's state."""


def take_apart(value: types.FunctionType) -> Parts | str | None:
    """A function that no module has by its name; None when its code is not found either."""
    module: str = value.__globals__.get("__name__", "")
    if not is_readable(module) or getattr(sys.modules.get(module), "__dict__", None) is not value.__globals__:
        return None
    steps = None if value.__closure__ else _path_in(value.__globals__, value)
    if steps is not None:
        return "function in", (module, *steps), None
    code = value.__code__
    places = _codes(module).get(code.co_qualname, [])
    if code not in places:
        return None
    cells = value.__closure__ or ()
    _announced.update(map(id, cells))
    held = [[cell.cell_contents] if _is_filled(cell) else [] for cell in cells]
    named = [value.__name__, value.__qualname__, value.__module__, value.__doc__, _annotations_of(value)]
    state = [held, value.__defaults__, value.__kwdefaults__, value.__dict__, named]
    return "code", (module, code.co_qualname, places.index(code), cells), state


def _annotations_of(value: types.FunctionType) -> dict[str, Any]:
    """Those that have a way into a state: texts, and classes of Python and of the object's packages."""
    return {
        name: each
        for name, each in value.__annotations__.items()
        if each is None
        or type(each) is str
        or any(each is cls for cls in _PLAIN)
        or (isinstance(each, type) and _names.is_allowed(each))
    }


_PLAIN: tuple[Any, ...] = (int, float, str, bytes, bool, list, dict, set, tuple, frozenset)


def take_cell_apart(value: types.CellType) -> Parts | str:
    """A variable that functions in one call share."""
    if id(value) not in _announced:
        return "cell is not supported"
    _announced.discard(id(value))
    return "cell", (), None


def make(module: str, name: str, place: int, cells: tuple[types.CellType, ...]) -> Any:
    """The function with these cells, still empty."""
    if is_readable(module):
        importlib.import_module(module)
        places = _codes(module).get(name, [])
        if place < len(places) and len(places[place].co_freevars) == len(cells):
            return types.FunctionType(places[place], vars(sys.modules[module]), closure=cells or None)
    raise MalformedValue(f"{name} of {module} is gone or has changed: a snapshot still refers to it")


def fill(function: types.FunctionType, state: list[Any]) -> None:
    """Give a function what it holds."""
    held, function.__defaults__, function.__kwdefaults__, fields, named = state
    for cell, content in zip(function.__closure__ or (), held, strict=True):
        if content:
            cell.cell_contents = content[0]
    function.__dict__.update(fields)
    # Images of earlier versions have no annotations.
    function.__name__, function.__qualname__, function.__module__, function.__doc__, *rest = named
    function.__annotations__ = rest[0] if rest else {}


def find(module: str, *steps: Any) -> Any:
    """The function that a container of a module, or of a class in it, has at these steps."""
    found: Any = None
    if is_readable(module):
        importlib.import_module(module)
        found = vars(sys.modules[module])
        for step in steps:
            if isinstance(found, type):
                found = vars(found).get(step)
            elif isinstance(found, dict | list | tuple):
                found = (
                    found[step] if step in (found if isinstance(found, dict) else range(len(found))) else None
                )
            found = _plain(found)
    if not isinstance(found, types.FunctionType):
        raise MalformedValue(f"{module} has no function at {steps} any more: a snapshot still refers to it")
    return found


def is_readable(module: str) -> bool:
    """Whether functions of a module may be kept."""
    return _names.is_allowed_module(module) or _standard.is_harmless_module(module)


def _path_in(variables: dict[str, Any], value: Any) -> tuple[Any, ...] | None:
    """Where a variable of the module has it: as it is, in a container, or in a class."""
    for name, member in variables.items():
        if name.startswith("__"):
            continue
        if member is value:
            return (name,)
        inner = (
            vars(member)
            if isinstance(member, type) and member.__module__ == variables["__name__"]
            else member
        )
        for step, item in _steps(inner):
            if _plain(item) is value:
                return name, step
    return None


def _steps(container: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(container, dict | types.MappingProxyType):
        yield from ((key, item) for key, item in list(container.items()) if type(key) in (str, int, bool))
    elif isinstance(container, list | tuple):
        yield from enumerate(container)


def _plain(found: Any) -> Any:
    return found.__func__ if isinstance(found, staticmethod) else found


def _is_filled(cell: types.CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


@functools.cache
def _codes(module: str) -> dict[str, list[types.CodeType]]:
    """The code of all functions of a module by their qualified names, in the order of the source."""
    loaded = sys.modules[module]
    loader: Any = getattr(getattr(loaded, "__spec__", None), "loader", None)
    code = None
    try:
        if hasattr(loader, "get_code"):
            code = loader.get_code(module)
        elif getattr(loaded, "__file__", None):
            with open(str(loaded.__file__), "rb") as source:
                code = compile(source.read(), str(loaded.__file__), "exec", dont_inherit=True)
    except (ImportError, OSError, SyntaxError, ValueError):
        code = None
    found: dict[str, list[types.CodeType]] = {}
    for each in _inside(code) if code else ():
        found.setdefault(each.co_qualname, []).append(each)
    return found


def _inside(code: types.CodeType) -> Iterator[types.CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield constant
            yield from _inside(constant)
