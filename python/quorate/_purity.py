"""Reads the source of a method and decides whether it changes nothing that outlives the call.

An abstract interpreter: each expression has a set of *atoms*, which say what its value can be. It knows no
order of statements: a variable can be whatever is assigned to it anywhere in the function, so bodies are read
until nothing is added. What it does not know is no proof: `NotProven` says why, and where.
"""

from __future__ import annotations

import ast
import builtins
import collections
import dis
import types
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NoReturn

from quorate import _pure_names

Atoms = frozenset["Atom"]


@dataclass(frozen=True, slots=True)
class Atom:
    """What a value can be."""


@dataclass(frozen=True, slots=True)
class Plain(Atom):
    """It cannot change: a number, a text."""


@dataclass(frozen=True, slots=True)
class Unknown(Atom):
    """Anything that the state, or an argument, can hold."""


@dataclass(frozen=True, slots=True)
class This(Atom):
    """The object itself, or what is reached from it by attributes."""

    path: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class New(Atom):
    """Made in this call at that place; `kind` is its type, None when that is not known."""

    site: int
    kind: type | None = None


@dataclass(frozen=True, slots=True)
class Known(Atom):
    """A value that a module, a class or a closure has under a name."""

    number: int


@dataclass(frozen=True, slots=True)
class Callback(Atom):
    """A function of this source or of the class, already found to change nothing."""


PLAIN: Atoms = frozenset([Plain()])
UNKNOWN: Atoms = frozenset([Unknown()])
CALLBACK: Atoms = frozenset([Callback()])
NOTHING: Atoms = frozenset()

PASSES_MAX = 8
"""Of one body; a function whose variables are not settled by then is not proven."""


@dataclass(frozen=True, slots=True)
class Hook:
    """A special method of an allowed package's class, which values of unknown type may run."""

    name: str
    file: str
    line: int


class NotProven(Exception):
    """Why a method may change something, and the line; `hook` where that is a special method's doing."""

    def __init__(self, reason: str, file: str = "", line: int = 0, hook: Hook | None = None) -> None:
        super().__init__(reason)
        self.reason, self.file, self.line, self.hook = reason, file, line, hook


@dataclass
class Heap:
    """What was made by the call: the atoms of what each thing made holds."""

    held: dict[int, Atoms] = field(default_factory=dict)
    known: dict[int, Any] = field(default_factory=dict)
    places: dict[tuple[int, str], int] = field(default_factory=dict)

    def site(self, node: ast.AST, part: str = "") -> int:
        """The number of a place in the source at which something is made."""
        return self.places.setdefault((id(node), part), len(self.places))

    def put(self, site: int, atoms: Atoms) -> None:
        """Add to what a thing made holds."""
        self.held[site] = self.held.get(site, NOTHING) | atoms

    def put_key(self, site: int, atoms: Atoms) -> None:
        """Add to the keys of a dict that was made: they come out only when it is gone through."""
        self.put(-1 - site, atoms)

    def all_in(self, site: int) -> Atoms:
        """What comes out of something made when it is gone through, keys and values."""
        return self.held.get(site, NOTHING) | self.held.get(-1 - site, NOTHING)

    def name(self, value: Any) -> Atoms:
        """The atom of a value that is there; plain values are plain."""
        if type(value) in _pure_names.SCALARS:
            return PLAIN
        self.known[id(value)] = value
        return frozenset([Known(id(value))])


class Reader:
    """Reads one function, or a function inside it."""

    def __init__(
        self, effects: Any, function: types.FunctionType, node: ast.AST, owner: type | None, file: str
    ) -> None:
        self.effects = effects
        self.heap: Heap = effects.heap
        self.function, self.node, self.owner, self.file = function, node, owner, file
        self.env: dict[str, Atoms] = {}
        self.receiver: Atoms = NOTHING
        self.returned: Atoms = NOTHING
        self.locals = _stored_names(node)
        self._refuse_double_names()

    def read(self, receiver: Atoms, arguments: dict[str, Atoms]) -> Atoms:
        """What the function can return; raises NotProven when it may change something."""
        self.receiver = receiver
        self.env.update(arguments)
        body: Any = getattr(self.node, "body", [])
        for _ in range(PASSES_MAX):
            before = (dict(self.env), dict(self.heap.held), self.returned)
            if isinstance(body, list):
                self.block(body)
            else:
                self.returned |= self.value(body)
            if before == (self.env, self.heap.held, self.returned):
                return self.returned
        self.fail("its variables are too tangled to be followed", self.node)

    def fail(self, reason: str, node: Any) -> NoReturn:
        """Give up."""
        raise NotProven(reason, self.file, getattr(node, "lineno", 0))

    def _refuse_double_names(self) -> None:
        # Variables of comprehensions are kept with those of the function.
        names = _global_names(self.function.__code__)
        both = names & self.locals
        if both:
            self.fail(f"`{min(both)}` is a variable here and in the module", self.node)

    # ---- statements ----

    def block(self, body: Iterable[ast.stmt]) -> None:
        """Read statements."""
        for statement in body:
            handler: Callable[[Any], None] | None = getattr(self, f"_on_{type(statement).__name__}", None)
            if handler is None:
                self.fail(_words(statement), statement)
            handler(statement)

    def _on_Pass(self, node: ast.Pass) -> None: ...
    def _on_Break(self, node: ast.Break) -> None: ...
    def _on_Continue(self, node: ast.Continue) -> None: ...

    def _on_Expr(self, node: ast.Expr) -> None:
        self.value(node.value)

    def _on_Return(self, node: ast.Return) -> None:
        self.returned |= self.value(node.value) if node.value else PLAIN

    def _on_Assign(self, node: ast.Assign) -> None:
        atoms = self.value(node.value)
        for target in node.targets:
            self.store(target, atoms)

    def _on_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.store(node.target, self.value(node.value))

    def _on_AugAssign(self, node: ast.AugAssign) -> None:
        added = self.value(node.value)
        if not isinstance(node.target, ast.Name):
            loaded = self.value(self._as_load(node.target))
            self.store(node.target, self.effects.in_place(self, node, loaded, added))
            return
        if node.target.id not in self.locals:
            self.fail(f"assigns the variable `{node.target.id}` of the module", node)
        atoms = self.env.get(node.target.id, NOTHING)
        self.bind(node.target.id, self.effects.in_place(self, node, atoms, added))

    def _as_load(self, target: ast.expr) -> ast.expr:
        loaded: ast.expr | None = self.effects.loads.get(id(target))
        if loaded is None:
            loaded = ast.parse(ast.unparse(target), mode="eval").body
            for each in ast.walk(loaded):
                ast.copy_location(each, target)
            self.effects.loads[id(target)] = loaded
        return loaded

    def _on_If(self, node: ast.If | ast.While) -> None:
        self.test(node.test)
        self.block(node.body)
        self.block(node.orelse)

    def _on_While(self, node: ast.While) -> None:
        leaves = (ast.Break, ast.Return, ast.Raise)
        if isinstance(node.test, ast.Constant) and not any(
            isinstance(each, leaves) for each in ast.walk(node)
        ):
            self.fail("may never end", node)
        self._on_If(node)

    def _on_For(self, node: ast.For) -> None:
        self.store(node.target, self.effects.items(self, node.iter, self.value(node.iter)))
        self.block(node.body)
        self.block(node.orelse)

    def _on_Assert(self, node: ast.Assert) -> None:
        self.test(node.test)
        if node.msg:
            self.value(node.msg)

    def _on_Raise(self, node: ast.Raise) -> None:
        if node.cause is not None:
            self.value(node.cause)
        if node.exc is not None and not self.effects.may_raise(self.value(node.exc)):
            self.fail(f"raises `{ast.unparse(node.exc)}`, which gets cause and context by that", node)

    def _on_Try(self, node: ast.Try) -> None:
        self.block(node.body)
        for handler in node.handlers:
            if handler.type is not None:
                self.value(handler.type)
            if handler.name:
                self.bind(handler.name, self.made(handler, None, UNKNOWN))
            self.block(handler.body)
        self.block(node.orelse)
        self.block(node.finalbody)

    def _on_With(self, node: ast.With) -> None:
        for item in node.items:
            self.effects.enter(self, item.context_expr, self.value(item.context_expr))
            if item.optional_vars is not None:
                self.store(item.optional_vars, PLAIN)
        self.block(node.body)

    def _on_Delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            if isinstance(target, ast.Subscript) and self.is_new(self.value(target.value)):
                self.value(target.slice)
                self.effects.ambient("__delitem__", "__hash__", "__eq__")
            elif not isinstance(target, ast.Name) or target.id not in self.locals:
                self.fail(f"deletes `{ast.unparse(target)}`", node)

    def _on_FunctionDef(self, node: ast.FunctionDef) -> None:
        if any(isinstance(each, ast.Yield | ast.YieldFrom) for each in ast.walk(node)) or node.decorator_list:
            self.fail(f"makes a generator or decorates a function, `{node.name}`", node)
        outer, self.returned = self.returned, NOTHING
        self._parameters(node.args)
        self.block(node.body)
        self.returned = outer
        self.bind(node.name, CALLBACK)

    def _parameters(self, arguments: ast.arguments) -> None:
        for default in (*arguments.defaults, *arguments.kw_defaults):
            if default is not None:
                self.value(default)
        for each in ast.walk(arguments):
            if isinstance(each, ast.arg):
                self.bind(each.arg, UNKNOWN)

    # ---- stores ----

    def bind(self, name: str, atoms: Atoms) -> None:
        """Add to what a variable can be."""
        self.env[name] = self.env.get(name, NOTHING) | atoms

    def is_new(self, atoms: Atoms) -> bool:
        """Whether all that this can be was made by the call."""
        return all(isinstance(atom, New) for atom in atoms)

    def store(self, target: ast.expr, atoms: Atoms) -> None:
        """Bind a target, unless it outlives the call."""
        if isinstance(target, ast.Name):
            if target.id not in self.locals:
                self.fail(f"assigns the variable `{target.id}` of the module", target)
            self.bind(target.id, atoms)
        elif isinstance(target, ast.Tuple | ast.List):
            items = self.effects.items(self, target, atoms)
            for each in target.elts:
                if isinstance(each, ast.Starred):
                    self.store(each.value, self.made(each, list, items))
                else:
                    self.store(each, items)
        elif isinstance(target, ast.Attribute | ast.Subscript):
            base = self.value(target.value)
            keys = self.value(target.slice) if isinstance(target, ast.Subscript) else NOTHING
            if not self.is_new(base) or not self.effects.may_store(self, target, base):
                self.fail(f"assigns `{ast.unparse(target)}`", target)
            for atom in base:
                self.heap.put(getattr(atom, "site", 0), atoms)
                self.heap.put_key(getattr(atom, "site", 0), keys)
        else:
            self.fail(f"assigns `{ast.unparse(target)}`", target)

    # ---- expressions ----

    def value(self, node: ast.expr) -> Atoms:
        """What an expression can be."""
        handler: Callable[[Any], Atoms] | None = getattr(self, f"_of_{type(node).__name__}", None)
        if handler is None:
            self.fail(_words(node), node)
        return handler(node)

    def test(self, node: ast.expr) -> None:
        """Read a condition."""
        self.effects.special(self, node, self.value(node), ("__bool__", "__len__"))

    def made(self, node: ast.AST, kind: type | None, held: Atoms, part: str = "") -> Atoms:
        """Something that this call makes here."""
        # By place and not by round, so that rounds come to an end.
        site = self.heap.site(node, part)
        self.heap.put(site, held)
        return frozenset([New(site, kind)])

    def _of_Constant(self, node: ast.Constant) -> Atoms:
        return PLAIN

    def _of_Name(self, node: ast.Name) -> Atoms:
        if node.id in self.locals:
            return self.env.get(node.id, NOTHING)
        closed_over = dict(
            zip(self.function.__code__.co_freevars, self.function.__closure__ or (), strict=False)
        )
        if node.id in closed_over:
            return self.heap.name(closed_over[node.id].cell_contents)
        for names in (self.function.__globals__, vars(builtins)):
            if node.id in names:
                return self.heap.name(names[node.id])
        self.fail(f"`{node.id}` has no value yet", node)

    def _of_Attribute(self, node: ast.Attribute) -> Atoms:
        return frozenset().union(
            *(self.effects.attribute(self, node, atom, node.attr) for atom in self.value(node.value))
        )

    def _of_Subscript(self, node: ast.Subscript) -> Atoms:
        base = self.value(node.value)
        keys = self.value(node.slice)
        # The keys that a dict has are asked too whether they are equal.
        self.effects.special(self, node, keys | base, ("__hash__", "__eq__", "__index__"))
        for atom in base:
            if isinstance(atom, New) and atom.kind in (collections.defaultdict, None):
                # A defaultdict gets the key.
                self.heap.put_key(atom.site, keys)
        is_slice = isinstance(node.slice, ast.Slice)
        return frozenset().union(*(self.effects.item(self, node, atom, is_slice) for atom in base))

    def _of_Slice(self, node: ast.Slice) -> Atoms:
        for part in (node.lower, node.upper, node.step):
            if part is not None:
                self.effects.special(self, part, self.value(part), ("__index__",))
        return PLAIN

    def _of_Call(self, node: ast.Call) -> Atoms:
        result: Atoms = self.effects.call(self, node)
        return result

    def _of_BinOp(self, node: ast.BinOp) -> Atoms:
        result: Atoms = self.effects.binary(self, node, self.value(node.left), self.value(node.right))
        return result

    def _of_UnaryOp(self, node: ast.UnaryOp) -> Atoms:
        atoms = self.value(node.operand)
        names = ("__neg__", "__pos__", "__invert__", "__bool__", "__len__")
        self.effects.special(self, node, atoms, names)
        return PLAIN if isinstance(node.op, ast.Not) or atoms <= PLAIN else UNKNOWN

    def _of_BoolOp(self, node: ast.BoolOp) -> Atoms:
        atoms = frozenset[Atom]().union(*(self.value(each) for each in node.values))
        self.effects.special(self, node, atoms, ("__bool__", "__len__"))
        return atoms

    def _of_IfExp(self, node: ast.IfExp) -> Atoms:
        self.test(node.test)
        return self.value(node.body) | self.value(node.orelse)

    def _of_NamedExpr(self, node: ast.NamedExpr) -> Atoms:
        atoms = self.value(node.value)
        self.store(node.target, atoms)
        return atoms

    def _of_Compare(self, node: ast.Compare) -> Atoms:
        left = self.value(node.left)
        plain = True
        for operator, comparator in zip(node.ops, node.comparators, strict=True):
            right = self.value(comparator)
            plain = plain and self.effects.compare(self, node, operator, left, right)
            left = right
        return PLAIN if plain else UNKNOWN

    def _of_JoinedStr(self, node: ast.JoinedStr) -> Atoms:
        for each in node.values:
            self.value(each)
        return PLAIN

    def _of_FormattedValue(self, node: ast.FormattedValue) -> Atoms:
        self.effects.special(self, node, self.value(node.value), ("__format__", "__str__", "__repr__"))
        if node.format_spec is not None:
            self.value(node.format_spec)
        return PLAIN

    def _of_Lambda(self, node: ast.Lambda) -> Atoms:
        self._parameters(node.args)
        self.value(node.body)
        return CALLBACK

    def _of_Starred(self, node: ast.Starred) -> Atoms:
        result: Atoms = self.effects.items(self, node, self.value(node.value))
        return result

    def _display(self, node: Any, kind: type) -> Atoms:
        held = frozenset[Atom]().union(*(self.value(each) for each in node.elts))
        if kind is set:
            self.effects.special(self, node, held, ("__hash__", "__eq__"))
        return self.made(node, kind, held)

    def _of_List(self, node: ast.List) -> Atoms:
        return self._display(node, list)

    def _of_Tuple(self, node: ast.Tuple) -> Atoms:
        return self._display(node, tuple)

    def _of_Set(self, node: ast.Set) -> Atoms:
        return self._display(node, set)

    def _of_Dict(self, node: ast.Dict) -> Atoms:
        held, keys = NOTHING, NOTHING
        for key, item in zip(node.keys, node.values, strict=True):
            atoms = self.value(item)
            if key is None:
                self.effects.mapping(self, node, atoms)
                held, keys = held | UNKNOWN, keys | UNKNOWN
            else:
                held, keys = held | atoms, keys | self.value(key)
        self.effects.special(self, node, keys, ("__hash__", "__eq__"))
        self.heap.put_key(self.heap.site(node), keys)
        return self.made(node, dict, held)

    def _comprehension(self, node: Any, kind: type | None, parts: list[ast.expr]) -> Atoms:
        for each in node.generators:
            if each.is_async:
                self.fail("is asynchronous", node)
            self.store(each.target, self.effects.items(self, each.iter, self.value(each.iter)))
            for test in each.ifs:
                self.test(test)
        held = frozenset[Atom]().union(*(self.value(each) for each in parts[-1:]))
        if kind is dict:
            self.heap.put_key(self.heap.site(node), self.value(parts[0]))
        if kind in (set, dict):
            self.effects.special(
                self, node, self.heap.all_in(self.heap.site(node)) | held, ("__hash__", "__eq__")
            )
        return self.made(node, kind, held)

    def _of_ListComp(self, node: ast.ListComp) -> Atoms:
        return self._comprehension(node, list, [node.elt])

    def _of_SetComp(self, node: ast.SetComp) -> Atoms:
        return self._comprehension(node, set, [node.elt])

    def _of_GeneratorExp(self, node: ast.GeneratorExp) -> Atoms:
        return self._comprehension(node, zip, [node.elt])

    def _of_DictComp(self, node: ast.DictComp) -> Atoms:
        return self._comprehension(node, dict, [node.key, node.value])


def _stored_names(node: ast.AST) -> set[str]:
    declared: set[str] = set()
    stored: set[str] = set()
    for each in ast.walk(node):
        if isinstance(each, ast.Global | ast.Nonlocal):
            declared.update(each.names)
        elif isinstance(each, ast.Name) and not isinstance(each.ctx, ast.Load):
            stored.add(each.id)
        elif isinstance(each, ast.arg):
            stored.add(each.arg)
        elif (isinstance(each, ast.ExceptHandler) and each.name) or (
            isinstance(each, ast.FunctionDef) and each is not node
        ):
            stored.add(each.name or "")
    return stored - declared


def _global_names(code: types.CodeType) -> set[str]:
    names = {
        each.argval for each in dis.get_instructions(code) if each.opname in ("LOAD_GLOBAL", "LOAD_NAME")
    }
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _global_names(constant)
    return names


def _words(node: ast.AST) -> str:
    kind = type(node).__name__
    said = {
        "Yield": "is a generator",
        "YieldFrom": "is a generator",
        "Await": "is asynchronous",
        "Import": "imports a module",
        "ImportFrom": "imports a module",
        "Global": "declares a global variable",
        "Nonlocal": "declares a variable nonlocal",
    }
    return said.get(kind, f"`{kind}` is not followed")
