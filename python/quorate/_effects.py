"""What expressions do to values that outlive the call: the half of the search for reads that knows types.

`_purity` walks the source and asks here. The types of the object's attributes are those of the live object.
Each that mattered becomes a guard: it is looked at again before every read, because a method may store
another type. Types of items in containers are never known.
"""

from __future__ import annotations

import ast
import datetime
import functools
import types
from typing import Any

from quorate import _ambient, _options, _pure_names, _sources
from quorate._calls import MISSING, Calls, value_at
from quorate._purity import (
    CALLBACK,
    NOTHING,
    PLAIN,
    UNKNOWN,
    Atom,
    Atoms,
    Heap,
    Hook,
    Known,
    New,
    NotProven,
    Plain,
    Reader,
    This,
    Unknown,
)

DEPTH_MAX = 40
"""Functions that are called inside each other; a method that reads goes less deep."""

ROUNDS_MAX = 10
"""Of reading a method and all that it calls."""

PATH_MAX = 6
"""Attributes after each other."""

_TRUSTED = frozenset(["enum", "dataclasses", "functools", "collections", "abc", "typing", "_collections_abc"])
"""Modules that give classes special methods which change nothing."""

_DECORATORS = (_options.readonly, property, staticmethod, classmethod)
_COMPARISONS = ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__hash__")
_FORMATTING = ("__format__", "__str__", "__repr__", "__int__", "__float__", "__index__")
_BEYOND_PLAIN = _pure_names.CONSUMING | {"format", "format_map", "translate", "tzinfo", "__mod__"}
_RUNNING_CODE = (
    property,
    staticmethod,
    classmethod,
    functools.partialmethod,
    functools.singledispatchmethod,
    functools.cached_property,
    type(functools.lru_cache(len)),
)
"""Special methods of these kinds are not followed: they call functions that are not looked for in them."""

_OPERATORS = {
    "Add": "add", "Sub": "sub", "Mult": "mul", "Div": "truediv", "FloorDiv": "floordiv", "Mod": "mod",
    "Pow": "pow", "LShift": "lshift", "RShift": "rshift", "BitOr": "or", "BitXor": "xor", "BitAnd": "and",
    "MatMult": "matmul",
}  # fmt: skip


class Proof(Calls):
    """One attempt to show that a method of a live object changes nothing."""

    def __init__(self, target: Any) -> None:
        self.target = target
        self.heap = Heap()
        self.guards: dict[tuple[str, ...], type] = {}
        self.loads: dict[int, ast.expr] = {}
        self._done: dict[Any, Atoms] = {}
        self._before: dict[Any, Atoms] = {}
        self._specials: set[str] = set()
        self._depth = 0

    def prove(self, name: str) -> None:
        """Raises NotProven unless the method changes nothing."""
        cls = type(self.target)
        found = _ambient.lookup(cls, name.removeprefix("."))
        member = found[1] if found is not None else None
        if name.startswith(".") and isinstance(member, property):
            member = member.fget
        if found is None or not isinstance(member, types.FunctionType):
            raise NotProven("is not a plain method")
        for _ in range(ROUNDS_MAX):
            before = dict(self.heap.held)
            self._before, self._done = self._done, {}
            self._specials.clear()
            self.ambient("__getattribute__", "__del__")
            self._zones()
            self.function(member, found[0], frozenset([This()]), None)
            # What things made hold, and what functions return, grows while bodies are read; all must be read
            # with what there is at the end.
            if before == self.heap.held and self._before == self._done:
                return
        raise NotProven("its functions are too tangled to be followed")

    # ---- functions ----

    def function(
        self,
        function: types.FunctionType,
        owner: type | None,
        receiver: Atoms | None,
        given: tuple[tuple[Atoms, ...], dict[str, Atoms]] | None,
    ) -> Atoms:
        """What a call can return; `given` is None when its arguments come from a client."""
        named = tuple(sorted(given[1].items(), key=lambda item: item[0])) if given else ()
        key = (function, receiver, given[0] if given else None, named)
        if key in self._done:
            return self._done[key]
        # A method that calls itself changes nothing if the rest of it does not.
        self._done[key] = self._before.get(key, NOTHING)
        node = _sources.node_of(function)
        code = function.__code__
        file = code.co_filename.rpartition("/")[2]
        if not isinstance(node, ast.FunctionDef):
            raise NotProven(f"`{function.__qualname__}` has no source to read", file, code.co_firstlineno)
        self._check_decorators(function, node, file)
        if self._depth >= DEPTH_MAX:
            raise NotProven("calls go too deep", file, node.lineno)
        self._depth += 1
        try:
            reader = Reader(self, function, node, owner, file)
            arguments = self._bound(reader, node, function, receiver, given)
            result = reader.read(receiver or NOTHING, arguments)
        finally:
            self._depth -= 1
        self._done[key] = result
        return result

    def _check_decorators(self, function: types.FunctionType, node: ast.FunctionDef, file: str) -> None:
        for decorator in node.decorator_list:
            name = ast.unparse(decorator)
            found = function.__globals__.get(name.partition(".")[0])
            is_ours = found in _DECORATORS or name in ("property", "staticmethod", "classmethod")
            is_ours = is_ours or name.rpartition(".")[2] in (
                "readonly",
                "override",
                "final",
                "abstractmethod",
            )
            if not is_ours and not name.endswith((".setter", ".getter")):
                raise NotProven(f"is decorated with `{name}`", file, node.lineno)

    def _bound(
        self,
        reader: Reader,
        node: ast.FunctionDef,
        function: types.FunctionType,
        receiver: Atoms | None,
        given: tuple[tuple[Atoms, ...], dict[str, Atoms]] | None,
    ) -> dict[str, Atoms]:
        """The parameters' atoms."""
        names = [each.arg for each in (*node.args.posonlyargs, *node.args.args)]
        arguments: dict[str, Atoms] = {}
        if receiver is not None and names:
            arguments[names.pop(0)] = receiver
        rest = [*names, *(each.arg for each in node.args.kwonlyargs)]
        if given is None:
            # Made from the bytes that a client sent, so part of nothing.
            arguments.update({name: reader.made(node, None, UNKNOWN, name) for name in rest})
        else:
            positional, named = given
            arguments.update(dict.fromkeys(rest, NOTHING))
            for name, atoms in (*zip(names, positional, strict=False), *named.items()):
                arguments[name] = atoms
            if "*" in named:
                arguments.update(dict.fromkeys(rest, UNKNOWN))
        defaults = dict(zip(names[::-1], (function.__defaults__ or ())[::-1], strict=False))
        for name, value in {**defaults, **(function.__kwdefaults__ or {})}.items():
            arguments[name] = arguments.get(name, NOTHING) | self.heap.name(value)
        for part, kind in ((node.args.vararg, tuple), (node.args.kwarg, dict)):
            if part is not None:
                arguments[part.arg] = reader.made(node, kind, UNKNOWN, part.arg)
        return arguments

    # ---- types ----

    def type_of(self, atom: Atom) -> type | None:
        """The exact type, if it is known; that of an attribute becomes a guard."""
        if isinstance(atom, New):
            return atom.kind
        if isinstance(atom, Known):
            return type(self.heap.known[atom.number])
        if not isinstance(atom, This):
            return None
        value = value_at(self.target, atom.path)
        if value is MISSING:
            return None
        if atom.path:
            self.guards[atom.path] = type(value)
        return type(value)

    def ambient(self, *names: str) -> None:
        """Special methods of all classes of which an unknown value can be."""
        for name in names:
            if name in self._specials:
                continue
            self._specials.add(name)
            for cls, member in _ambient.own_members(name):
                if isinstance(member, _RUNNING_CODE):
                    raise NotProven(f"`{name}` of {cls.__name__} may run code")
                if isinstance(member, types.FunctionType) and not self.is_generated(cls, member):
                    self._hooked(cls, name, member)

    def _zones(self) -> None:
        """What any use of a time, which is plain otherwise, may run."""
        for name in ("utcoffset", "dst", "tzname", "fromutc"):
            for cls, member in _ambient.own_members(name):
                if issubclass(cls, datetime.tzinfo) and isinstance(member, types.FunctionType):
                    self._hooked(cls, name, member)

    def _hooked(self, cls: type, name: str, member: types.FunctionType) -> None:
        """A special method of a class that the method at hand need not know of: who reads why should."""
        try:
            self.function(member, cls, UNKNOWN, self._unknowns(member))
        except NotProven as why:
            code = member.__code__
            hook = why.hook or Hook(f"{cls.__qualname__}.{name}", code.co_filename, code.co_firstlineno)
            raise NotProven(why.reason, why.file, why.line, hook) from why

    def is_generated(self, cls: type, member: Any) -> bool:
        """Whether dataclasses, enum and such made this method: they change nothing."""
        module = getattr(member, "__module__", "")
        code = getattr(getattr(member, "__wrapped__", member), "__code__", None)
        is_of_dataclass = (
            "__dataclass_params__" in vars(cls) and getattr(code, "co_filename", "") == "<string>"
        )
        return is_of_dataclass or module in _TRUSTED

    def _unknowns(self, function: types.FunctionType) -> tuple[tuple[Atoms, ...], dict[str, Atoms]]:
        code = function.__code__
        count = max(code.co_argcount - 1, 0)
        return (UNKNOWN,) * count, {"*": UNKNOWN}

    def special(self, reader: Reader, node: ast.AST, atoms: Atoms, names: tuple[str, ...]) -> None:
        """An operator is used on this."""
        if not atoms <= PLAIN:
            self.ambient(*names)

    def defines(self, *names: str) -> bool:
        """Whether a class of which an unknown value can be has one of these special methods."""
        return any(True for name in names for _ in _ambient.own_members(name))

    # ---- attributes ----

    def attribute(self, reader: Reader, node: ast.Attribute, atom: Atom, name: str) -> Atoms:
        """What an attribute can be, not called."""
        if isinstance(atom, Plain):
            if name in _BEYOND_PLAIN:
                reader.fail(f"`{ast.unparse(node)}` may run code", node)
            # Other attributes are an error.
            return PLAIN if any(hasattr(each, name) for each in _pure_names.SCALARS) else NOTHING
        elif isinstance(atom, Known):
            return self._known_attribute(reader, node, self.heap.known[atom.number], name)
        elif isinstance(atom, This | New):
            cls = self.type_of(atom)
            if cls is not None and _ambient.is_own(cls):
                return self._own_attribute(reader, node, atom, cls, name)
            if cls in _pure_names.SCALARS and hasattr(cls, name) and name not in _pure_names.METHODS[cls]:
                return PLAIN
        if isinstance(atom, Unknown | New):
            return self._unknown_attribute(reader, node, name)
        reader.fail(f"`{ast.unparse(node)}` may run code", node)

    def _own_attribute(self, reader: Reader, node: ast.AST, atom: Atom, cls: type, name: str) -> Atoms:
        if _ambient.lookup(cls, "__getattr__") is not None:
            reader.fail(f"`{cls.__name__}` has __getattr__", node)
        found = _ambient.lookup(cls, name)
        if found is None or isinstance(found[1], types.MemberDescriptorType) or _is_value(found[1]):
            class_level = self.heap.name(found[1]) if found and _is_value(found[1]) else NOTHING
            if isinstance(atom, New):
                return self.heap.held.get(atom.site, NOTHING) | class_level
            path = (*atom.path, name) if isinstance(atom, This) else ()
            return frozenset([This(path)]) if 0 < len(path) <= PATH_MAX else UNKNOWN
        owner, member = found
        if isinstance(member, property) and isinstance(member.fget, types.FunctionType):
            return self.function(member.fget, owner, frozenset([atom]), ((), {}))
        if isinstance(member, types.FunctionType) and name not in _sources.instance_attributes(cls):
            self.function(member, owner, frozenset([atom]), self._unknowns(member))
            return CALLBACK
        return reader.fail(f"`{name}` of {cls.__name__} may run code", node)

    def _unknown_attribute(self, reader: Reader, node: ast.AST, name: str) -> Atoms:
        other = _ambient.others_with_computed(name)
        if other is not None:
            reader.fail(f"`{name}` may be that of a {other.__name__}, which runs code", node)
        self.ambient("__getattr__", "__getattribute__")
        for cls, member in _ambient.own_members(name):
            if isinstance(member, property) and isinstance(member.fget, types.FunctionType):
                self.function(member.fget, cls, UNKNOWN, ((), {}))
            elif isinstance(member, types.FunctionType):
                self.function(member, cls, UNKNOWN, self._unknowns(member))
            elif not _is_value(member) and not isinstance(member, types.MemberDescriptorType):
                reader.fail(f"`{name}` of {cls.__name__} may run code", node)
        return UNKNOWN

    def _known_attribute(self, reader: Reader, node: ast.AST, value: Any, name: str) -> Atoms:
        if isinstance(value, types.ModuleType):
            if name in vars(value):
                return self.heap.name(vars(value)[name])
        elif isinstance(value, type):
            found = _ambient.lookup(value, name)
            if found is not None and isinstance(found[1], types.FunctionType | types.MethodDescriptorType):
                return self.heap.name(found[1])
            if found is not None and _is_value(found[1]):
                return self.heap.name(found[1])
            if isinstance(value, _pure_names.METACLASSES) and isinstance(getattr(value, name, None), value):
                # A member of an enumeration.
                return UNKNOWN
            if found is not None and isinstance(
                found[1], staticmethod | classmethod | types.ClassMethodDescriptorType
            ):
                return self.heap.name(getattr(value, name))
        elif type(value) in _pure_names.SCALARS:
            return PLAIN
        return self._unknown_attribute(reader, node, name)

    # ---- operators ----

    def items(self, reader: Reader, node: ast.AST, atoms: Atoms) -> Atoms:
        """What one gets by going through this; refuses what could be an iterator of the state."""
        found: Atoms = NOTHING
        for atom in atoms:
            if isinstance(atom, Plain):
                found |= PLAIN
            elif isinstance(atom, New) and not (atom.kind and _ambient.is_own(atom.kind)):
                found |= self.heap.all_in(atom.site)
            else:
                cls = self.type_of(atom)
                iterating = _ambient.lookup(cls, "__iter__") if cls is not None else None
                if cls in _pure_names.SCALARS:
                    found |= PLAIN
                elif (iterating is not None and iterating[0] in _pure_names.CONTAINERS) or (
                    cls is not None
                    and isinstance(atom, Known)
                    and issubclass(cls, _pure_names.METACLASSES[2])
                ):
                    if cls is not None and _ambient.is_own(cls):
                        # Of a subclass of a list, say, which may have others than the list.
                        self.ambient("__len__", "__length_hint__", "__reversed__", "__getitem__")
                    found |= UNKNOWN
                else:
                    reader.fail(
                        f"goes through {_shown(node)}, which could be an iterator that this uses up", node
                    )
        return found

    def item(self, reader: Reader, node: ast.Subscript, atom: Atom, is_slice: bool) -> Atoms:
        """What `x[...]` can be."""
        if isinstance(atom, Plain):
            return PLAIN
        if isinstance(atom, New) and not (atom.kind and _ambient.is_own(atom.kind)):
            return frozenset([atom]) if is_slice else self.heap.held.get(atom.site, NOTHING)
        cls = self.type_of(atom)
        getting = _ambient.lookup(cls, "__getitem__") if cls is not None else None
        if getting is not None and cls is not None:
            owner, member = getting
            if isinstance(member, types.FunctionType) and owner not in _pure_names.INDEXED:
                return self.function(member, owner, frozenset([atom]), self._unknowns(member))
            missing = _ambient.lookup(cls, "__missing__")
            if owner in _pure_names.INDEXED and (missing is None or missing[0] in _pure_names.INDEXED):
                if cls in _pure_names.SCALARS:
                    return PLAIN
                return reader.made(node, cls, UNKNOWN) if is_slice else UNKNOWN
        reader.fail(f"{_shown(node)} may be of a defaultdict, or of another type that is changed by it", node)

    def binary(self, reader: Reader, node: Any, left: Atoms, right: Atoms) -> Atoms:
        """An operator between two values."""
        name = _OPERATORS[type(node.op).__name__]
        if name == "mod" and not right <= PLAIN and not self._is_number(node, left):
            kinds = {atom.kind for atom in right if isinstance(atom, New)}
            if kinds != {tuple} or len(right) != len(kinds):
                reader.fail(f"{_shown(node)} may be the formatting of a text with a defaultdict", node)
        names = (f"__{name}__", f"__r{name}__", *_FORMATTING)
        self.special(reader, node, left | right, names)
        if left | right <= PLAIN:
            return PLAIN
        if self.defines(f"__{name}__", f"__r{name}__", f"__i{name}__"):
            # It may return what it was given.
            return UNKNOWN
        # A number and something else give no container, except by `*`.
        is_number = (left <= PLAIN or right <= PLAIN or self._are_numbers(left | right)) and name != "mul"
        return reader.made(node, float if is_number else None, UNKNOWN)

    def _is_number(self, node: Any, left: Atoms) -> bool:
        if isinstance(getattr(node, "left", None), ast.Constant):
            return not isinstance(node.left.value, str | bytes)
        if any(isinstance(atom, New) and atom.kind is float for atom in left):
            return len(left) == 1
        types_ = {self.type_of(atom) for atom in left}
        return bool(left) and types_ <= set(_pure_names.SCALARS) - {str, bytes}

    def _are_numbers(self, atoms: Atoms) -> bool:
        return any(isinstance(atom, New) and atom.kind is float for atom in atoms)

    def in_place(self, reader: Reader, node: ast.AugAssign, atoms: Atoms, added: Atoms) -> Atoms:
        """`x += y`, which changes x if it is a list."""
        result: Atoms = NOTHING
        for atom in atoms:
            if isinstance(atom, Plain):
                result |= self.binary(reader, node, PLAIN, added)
            elif isinstance(atom, New):
                if self.defines(f"__i{_OPERATORS[type(node.op).__name__]}__"):
                    reader.fail(f"{_shown(node)} may change what it is given", node)
                held = UNKNOWN if atom.kind is float else self.items(reader, node.value, added)
                self.special(reader, node, added, ("__add__", "__radd__", *_COMPARISONS))
                self.heap.put(atom.site, held)
                result |= frozenset([atom])
            elif self.type_of(atom) in _pure_names.SCALARS:
                result |= self.binary(reader, node, frozenset([atom]), added)
            else:
                reader.fail(f"{_shown(node)} changes it, if it is a list or a set", node)
        return result

    def compare(self, reader: Reader, node: ast.AST, operator: ast.cmpop, left: Atoms, right: Atoms) -> bool:
        """A comparison; says whether its result is surely plain."""
        if isinstance(operator, ast.Is | ast.IsNot):
            return True
        if isinstance(operator, ast.In | ast.NotIn):
            for atom in right:
                self._contains(reader, node, atom)
            self.special(reader, node, left | right, ("__eq__", "__hash__"))
            return True
        self.special(reader, node, left | right, _COMPARISONS)
        return left | right <= PLAIN or not self.defines(*_COMPARISONS[:-1])

    def _contains(self, reader: Reader, node: ast.AST, atom: Atom) -> None:
        if isinstance(atom, Plain) or (
            isinstance(atom, New) and not (atom.kind and _ambient.is_own(atom.kind))
        ):
            return
        cls = self.type_of(atom)
        found = _ambient.lookup(cls, "__contains__") if cls is not None else None
        if found is not None and isinstance(found[1], types.FunctionType) and _ambient.is_own(found[0]):
            self.function(found[1], found[0], frozenset([atom]), self._unknowns(found[1]))
        elif found is None or found[0] not in (*_pure_names.CONTAINERS, *_pure_names.SCALARS):
            reader.fail(f"{_shown(node)} may go through an iterator", node)

    def mapping(self, reader: Reader, node: ast.AST, atoms: Atoms) -> None:
        """`**x` of a call or a dict."""
        for atom in atoms:
            if self.type_of(atom) not in _pure_names.MAPPINGS:
                reader.fail("takes `**` of something of unknown type", node)

    def enter(self, reader: Reader, node: ast.AST, atoms: Atoms) -> None:
        """`with x`: only locks, which are as they were afterwards."""
        for atom in atoms:
            cls = self.type_of(atom)
            if cls is None or (cls.__module__, cls.__name__) not in (
                ("_thread", "lock"),
                ("_thread", "RLock"),
            ):
                reader.fail(f"uses `with {_shown(node)}`", node)

    def may_raise(self, atoms: Atoms) -> bool:
        """Whether what is raised is made for that."""
        return all(
            isinstance(atom, New)
            or (isinstance(atom, Known) and isinstance(self.heap.known[atom.number], type))
            for atom in atoms
        )

    def may_store(self, reader: Reader, target: ast.Attribute | ast.Subscript, base: Atoms) -> bool:
        """Whether an attribute or item of something made here can be bound."""
        self.ambient("__setattr__", "__setitem__", "__hash__", "__eq__")
        if isinstance(target, ast.Subscript):
            return True
        return all(isinstance(member, types.MemberDescriptorType) or _is_value(member)
                   for _, member in _ambient.own_members(target.attr))  # fmt: skip


def _is_value(member: Any) -> bool:
    """Whether an attribute of a class is given as it is."""
    return not hasattr(type(member), "__get__")


def _shown(node: ast.AST) -> str:
    text = ast.unparse(node)
    return f"`{text if len(text) <= 60 else text[:57] + '...'}`"
