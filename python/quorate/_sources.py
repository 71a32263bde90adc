"""What the source of a function names, and what these names are: for the search for state outside."""

from __future__ import annotations

import ast
import builtins
import dataclasses
import dis
import functools
import inspect
import os
import sys
import types
from collections.abc import Iterator
from typing import Any

from quorate import _names, _steps

UNKNOWN: Any = object()
"""A value that reading the source does not tell."""

# They run when the module is imported, in the same way on every replica.
_AT_IMPORT = frozenset(("__init_subclass__", "__set_name__", "__class_getitem__"))

_Function = ast.FunctionDef | ast.AsyncFunctionDef


def package_of(value: Any) -> str:
    """The top package of a function or class."""
    return _names.top_of(str(getattr(value, "__module__", None)))


def home_of(module: str) -> str | None:
    """The directory in which the top package of a module lies; None if that is nobody's own, or not known.

    >>> home_of("json.decoder"), home_of("quorate._names")
    (None, None)
    """
    if _names.top_of(module) == "quorate":
        return None
    top = sys.modules.get(module.partition(".")[0])
    file = getattr(top, "__file__", None)
    if file is None:
        return None
    place = os.path.dirname(file)
    home = os.path.dirname(place) if hasattr(top, "__path__") else place
    return None if home == os.path.dirname(os.__file__) else home


def functions_of(cls: type) -> Iterator[types.FunctionType]:
    """The functions behind the methods and properties of a class and of its bases in the same package.

    >>> class Pair:
    ...     def swap(self): ...
    ...     size = property(lambda self: 2)
    >>> [function.__name__ for function in functions_of(Pair)]
    ['swap', '<lambda>']
    """
    bases = [base for base in cls.__mro__ if package_of(base) == package_of(cls)]
    members = {(base, name): member for base in bases for name, member in vars(base).items()}
    functions = {key: list(_functions_behind(member)) for key, member in members.items()}
    at_import = set(_AT_IMPORT)
    found = {""}
    while found:
        # What only the hooks of import call runs at import.
        called = {True: set[str](), False: set[str]()}
        for (_, name), behind in functions.items():
            for function in behind:
                called[name in at_import].update(function.__code__.co_names)
        found = {name for name in called[True] - called[False] - at_import if name.startswith("_")}
        at_import |= found
    for (_, name), behind in functions.items():
        if name not in at_import:
            # What a base of another package left behind is not the object's own.
            yield from (function for function in behind if package_of(function) == package_of(cls))


def _functions_behind(member: Any) -> Iterator[types.FunctionType]:
    if isinstance(member, property):
        candidates: list[Any] = [member.fget, member.fset, member.fdel]
    else:
        # Of classmethod and staticmethod, cached_property, and partialmethod.
        candidates = [getattr(member, "__func__", None) or getattr(member, "func", None) or member]
    for candidate in candidates:
        function = candidate
        while function is not None:
            if isinstance(function, types.FunctionType):
                yield function
            function = getattr(function, "__wrapped__", None)


@functools.cache
def _functions_in(file: str) -> dict[tuple[str, int], _Function]:
    try:
        with open(file, encoding="utf-8") as source:
            tree = ast.parse(source.read())
    except (OSError, SyntaxError, ValueError):
        return {}
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, _Function):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            found[node.name, first] = node
    return found


def node_of(function: types.FunctionType) -> _Function | None:
    """The source of a function, if what runs was compiled from it.

    >>> node_of(node_of).name
    'node_of'
    """
    code = function.__code__
    is_same = _codes_in(code.co_filename).get((code.co_name, code.co_firstlineno)) == code
    return _functions_in(code.co_filename).get((code.co_name, code.co_firstlineno)) if is_same else None


@functools.cache
def _codes_in(file: str) -> dict[tuple[str, int], types.CodeType]:
    try:
        with open(file, encoding="utf-8") as source:
            waiting = [_steps.compiled(source.read(), file)]
    except (OSError, SyntaxError, ValueError):
        return {}
    found = {}
    while waiting:
        code = waiting.pop()
        found[code.co_name, code.co_firstlineno] = code
        waiting.extend(each for each in code.co_consts if isinstance(each, types.CodeType))
    return found


@functools.cache
def _stored_in(file: str) -> frozenset[str]:
    return frozenset(
        each.argval
        for code in _codes_in(file).values()
        for each in dis.get_instructions(code)
        if each.opname == "STORE_ATTR"
    )


def is_stored_beside(cls: type, name: str) -> bool:
    """Whether code of the class's module binds an attribute of that name: an instance may have another.

    >>> is_stored_beside(Scope, "module"), is_stored_beside(Scope, "reached")
    (True, False)
    """
    file = getattr(sys.modules.get(cls.__module__), "__file__", None)
    return file is not None and name in _stored_in(file)


class Scope:
    """The source of one function, and the values of the names in it.

    >>> Scope.of(functions_of, None).name
    'functions_of'
    """

    def __init__(self, function: types.FunctionType, owner: type | None, node: _Function) -> None:
        self.name = function.__qualname__
        self.module = function.__module__
        self.path = function.__code__.co_filename
        self.file = os.path.basename(self.path)
        self.function, self.owner, self._node = function, owner, node
        self._nodes: list[Any] | None = None
        arguments = node.args
        names = [each.arg for each in (*arguments.posonlyargs, *arguments.args)]
        rest = [each.arg for each in (arguments.vararg, arguments.kwarg) if each]
        parameters = {*names, *rest, *(each.arg for each in arguments.kwonlyargs)}
        values = function.__defaults__ or ()
        self.defaults = dict(zip(names[len(names) - len(values) :], values, strict=False))
        self.defaults.update(function.__kwdefaults__ or {})
        self.stored, self.augmented, declared = set[str](), set[str](), set[str]()
        self._aliases: dict[str, ast.expr] = {}
        for each in self.nodes():
            if isinstance(each, ast.Name) and not isinstance(each.ctx, ast.Load):
                self.stored.add(each.id)
            elif isinstance(each, ast.Global | ast.Nonlocal):
                declared.update(each.names)
            elif isinstance(each, ast.AugAssign) and isinstance(each.target, ast.Name):
                self.augmented.add(each.target.id)
            elif isinstance(each, _Function | ast.ClassDef | ast.ExceptHandler | ast.MatchAs | ast.MatchStar):
                self.stored.add(each.name or "")
            elif isinstance(each, ast.alias):
                self.stored.add((each.asname or each.name).partition(".")[0])
            elif isinstance(each, ast.arg):
                # Of a nested function.
                self.stored.add(each.arg)
        for each in self.nodes():
            if (
                isinstance(each, ast.Assign)
                and len(each.targets) == 1
                and isinstance(each.targets[0], ast.Name)
            ):
                self._aliases[each.targets[0].id] = each.value
        self._local = (self.stored | parameters) - declared
        self.closed_over = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=False))
        self._self, self._class = self._receivers(names)

    @classmethod
    def of(cls, function: Any, owner: type | None) -> Scope | None:
        """None when there is no source."""
        if not isinstance(function, types.FunctionType):
            return None
        code = function.__code__
        node = _functions_in(code.co_filename).get((code.co_name, code.co_firstlineno))
        return None if node is None else cls(function, owner, node)

    def _receivers(self, names: list[str]) -> tuple[str | None, str | None]:
        if self.owner is None or not names:
            return None, None
        raw = inspect.getattr_static(self.owner, self._node.name, None)
        if isinstance(raw, staticmethod):
            return None, None
        is_of_class = isinstance(raw, classmethod) or self._node.name == "__new__"
        return (None, names[0]) if is_of_class else (names[0], None)

    def nodes(self) -> list[Any]:
        """All nodes of the body, without the decorators and defaults, which ran at import."""
        if self._nodes is None:
            self._nodes = [node for statement in self._node.body for node in ast.walk(statement)]
        return self._nodes

    def is_made_once(self, name: str) -> bool:
        """Whether a global is only imported here, or filled while it is empty, with what cannot change."""
        guarded = {
            id(node)
            for each in self.nodes()
            if isinstance(each, ast.If)
            and name in {n.id for n in ast.walk(each.test) if isinstance(n, ast.Name)}
            for statement in each.body
            for node in ast.walk(statement)
        }
        for each in self.nodes():
            if isinstance(each, ast.Assign | ast.AnnAssign):
                targets = each.targets if isinstance(each, ast.Assign) else [each.target]
                is_filled = any(isinstance(target, ast.Name) and target.id == name for target in targets)
                if is_filled and (id(each) not in guarded or not self._cannot_change(each.value)):
                    return False
            elif isinstance(each, ast.AugAssign | ast.Delete | ast.For | ast.NamedExpr | ast.withitem):
                named = [node for node in ast.walk(each) if isinstance(node, ast.Name) and node.id == name]
                if any(not isinstance(node.ctx, ast.Load) for node in named):
                    return False
        return True

    def _cannot_change(self, node: ast.AST | None) -> bool:
        """Whether an expression of constants gives a constant."""
        if isinstance(node, ast.Constant):
            return True
        if isinstance(node, ast.Tuple):
            return all(self._cannot_change(item) for item in node.elts)
        return (
            isinstance(node, ast.Call)
            and ast.unparse(node.func) in ("re.compile", "frozenset", "tuple")
            and all(self._cannot_change(argument) for argument in node.args)
        )

    def is_self(self, node: ast.AST) -> bool:
        """Whether an expression is the instance."""
        return isinstance(node, ast.Name) and node.id == self._self

    def named(self, node: ast.AST) -> Any:
        """What a name or an attribute of a module is, also when the function imports it; else UNKNOWN."""
        value, label = self.resolve(node)
        if label:
            return value
        if isinstance(node, ast.Attribute):
            return getattr(self.named(node.value), node.attr, UNKNOWN)
        if isinstance(node, ast.Name) and node.id in self._imported():
            return self._imported()[node.id]
        if isinstance(node, ast.Name) and node.id not in self._local:
            return getattr(builtins, node.id, UNKNOWN)
        return UNKNOWN

    def _imported(self) -> dict[str, Any]:
        """Names that the function imports, as far as their modules are loaded."""
        found: dict[str, Any] = {}
        for node in self.nodes():
            if isinstance(node, ast.Import):
                for each in node.names:
                    name = each.name if each.asname else each.name.partition(".")[0]
                    found[each.asname or name] = sys.modules.get(name, UNKNOWN)
            elif isinstance(node, ast.ImportFrom) and not node.level:
                module = sys.modules.get(node.module or "")
                found.update(
                    (each.asname or each.name, getattr(module, each.name, UNKNOWN)) for each in node.names
                )
        return found

    def begins_with_self(self, node: ast.AST) -> bool:
        """Whether an expression is an attribute or an item of the instance, however deep."""
        while isinstance(node, ast.Attribute | ast.Subscript):
            node = node.value
        return isinstance(node, ast.Name) and node.id == self._self

    def is_new_instance(self, name: str) -> bool:
        """Whether a variable holds what `__new__`, the class or a copy just made."""
        made = self._aliases.get(name)
        called = made.func if isinstance(made, ast.Call) else None
        shown = ast.unparse(called) if called is not None else ""
        return shown.endswith(("__new__", ".copy", "_view", "_simple_new")) or shown in (
            self._class,
            "type(self)",
        )

    def resolve(self, node: ast.AST, depth: int = 0) -> tuple[Any, str]:
        """The value of an expression that lives outside of call and instance, and its name; else ''."""
        if depth > 8:
            return UNKNOWN, ""
        if isinstance(node, ast.Name):
            return self._resolve_name(node.id, depth)
        if isinstance(node, ast.Attribute):
            return self._resolve_attribute(node, depth)
        if isinstance(node, ast.Subscript):
            return self._resolve_item(node, depth)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id == "globals":
                return self.function.__globals__, self.module
            argument = node.args[0] if len(node.args) == 1 else None
            if node.func.id == "type" and isinstance(argument, ast.Name) and argument.id == self._self:
                return self.owner, self.owner.__qualname__ if self.owner else ""
        return UNKNOWN, ""

    def _resolve_name(self, name: str, depth: int) -> tuple[Any, str]:
        if name == self._class and self.owner is not None:
            return self.owner, self.owner.__qualname__
        if name in self._local:
            alias = self._aliases.get(name)
            return (UNKNOWN, "") if alias is None or name in self.defaults else self.resolve(alias, depth + 1)
        if name in self.closed_over:
            try:
                return self.closed_over[name].cell_contents, f"the variable {name}"
            except ValueError:
                return UNKNOWN, ""
        if name not in self.function.__globals__:
            return UNKNOWN, ""
        value = self.function.__globals__[name]
        return value, _label(value, f"{self.module}.{name}")

    def _resolve_attribute(self, node: ast.Attribute, depth: int) -> tuple[Any, str]:
        if isinstance(node.value, ast.Name) and node.value.id == self._self and self.owner is not None:
            if node.attr == "__class__":
                return self.owner, self.owner.__qualname__
            if node.attr in instance_attributes(self.owner):
                return UNKNOWN, ""
            value, label = _class_attribute(self.owner, node.attr)
            # A property or a method of the instance.
            return (UNKNOWN, "") if hasattr(type(value), "__get__") else (value, label)
        base, label = self.resolve(node.value, depth + 1)
        if base is UNKNOWN:
            return UNKNOWN, ""
        if isinstance(base, type):
            return _class_attribute(base, node.attr)
        fields = getattr(base, "__dict__", {})
        if node.attr not in fields:
            return UNKNOWN, ""
        return fields[node.attr], _label(fields[node.attr], f"{label}.{node.attr}")

    def _resolve_item(self, node: ast.Subscript, depth: int) -> tuple[Any, str]:
        """Of the items of a container any that can change stands for all of them."""
        base, label = self.resolve(node.value, depth + 1)
        items = base.values() if isinstance(base, dict) else base if isinstance(base, list | tuple) else ()
        for item in items:
            if not isinstance(
                item, str | bytes | int | float | tuple | frozenset | types.FunctionType | type | None
            ):
                return item, f"{label}[...]"
        return UNKNOWN, ""

    def reached(self) -> Iterator[Any]:
        """Functions and classes that the source names, directly or in containers."""
        for node in self.nodes():
            if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load):
                value, _ = self.resolve(node)
                inside: Any = ()
                if isinstance(value, dict | list | tuple | set) and value is not sys.modules:
                    inside = value.values() if isinstance(value, dict) else value
                for found in (value, *inside):
                    if isinstance(found, type | types.FunctionType):
                        yield found


def _label(value: Any, otherwise: str) -> str:
    if isinstance(value, type):
        return value.__qualname__
    return value.__name__ if isinstance(value, types.ModuleType) else otherwise


def _class_attribute(cls: type, name: str) -> tuple[Any, str]:
    for base in cls.__mro__:
        if name in vars(base):
            return vars(base)[name], f"{base.__qualname__}.{name}"
    return UNKNOWN, ""


@functools.cache
def instance_attributes(cls: type) -> frozenset[str]:
    """Names that some method of the class binds on the instance, and fields of data classes."""
    augmented: set[int] = set()
    found = {field.name for field in dataclasses.fields(cls)} if dataclasses.is_dataclass(cls) else set[str]()
    for function in functions_of(cls):
        scope = Scope.of(function, cls)
        for each in scope.nodes() if scope else ():
            if isinstance(each, ast.AugAssign):
                # It reads the attribute of the class first.
                augmented.add(id(each.target))
            elif (
                isinstance(each, ast.Attribute)
                and isinstance(each.ctx, ast.Store)
                and id(each) not in augmented
                and isinstance(each.value, ast.Name)
                and scope is not None
                and (scope.begins_with_self(each) or scope.is_new_instance(each.value.id))
            ):
                found.add(each.attr)
    return frozenset(found)
