"""Calls, for the search for reads: of what is trusted, of the object's own functions, and of nothing else."""

from __future__ import annotations

import ast
import collections
import math
import string
import types
from typing import TYPE_CHECKING, Any

from quorate import _ambient, _pure_names, _sources
from quorate._purity import (
    NOTHING,
    PLAIN,
    UNKNOWN,
    Atom,
    Atoms,
    Callback,
    Heap,
    Known,
    New,
    Plain,
    Reader,
    This,
    Unknown,
)

_WITH_FUNCTION = frozenset(["map", "filter", "reduce", "takewhile", "dropwhile", "filterfalse"])
_REDUCING = frozenset(["min", "max", "reduce", "mode"])
_LOGICAL = frozenset(["any", "all", "bisect", "bisect_left", "bisect_right", "bytes"])
_SPLITTING = frozenset(["split", "rsplit", "splitlines", "partition", "rpartition", "timetuple", "as_tuple"])
_OF_NUMBERS = frozenset(["sum", "fsum", "prod"])

_OF_MANY = frozenset(["zip", "chain", "product", "zip_longest", "map", "compress"])
_TUPLES = frozenset(
    ["enumerate", "zip", "pairwise", "product", "permutations", "combinations", "zip_longest"]
)
_WALKS = frozenset(
    ["sorted", "reversed", "islice", "takewhile", "dropwhile", "filterfalse", "filter", "chain"]
)

_HOOKS_OF_COPY = ("__copy__", "__deepcopy__", "__reduce__", "__reduce_ex__")
_GIVES_ANYTHING = (abs, round, divmod, pow, math.floor, math.ceil, math.trunc)
_ROUNDING = (
    *("__abs__", "__round__", "__divmod__", "__rdivmod__", "__pow__", "__rpow__"),
    *("__floor__", "__ceil__", "__trunc__"),
)

Given = tuple[tuple[Atoms, ...], dict[str, Atoms]]
"""Positional and named arguments; a name "*" says that there may be others."""

MISSING: Any = object()


def value_at(target: Any, path: tuple[str, ...]) -> Any:
    """What an object has under attributes after each other; MISSING when it has not."""
    for name in path:
        target = getattr(target, name, MISSING)
    return target


class Calls:
    """The part of a proof that follows calls."""

    heap: Heap
    target: Any

    if TYPE_CHECKING:

        def function(
            self,
            function: types.FunctionType,
            owner: type | None,
            receiver: Atoms | None,
            given: Given | None,
        ) -> Atoms: ...
        def type_of(self, atom: Atom) -> type | None: ...
        def ambient(self, *names: str) -> None: ...
        def defines(self, *names: str) -> bool: ...
        def is_generated(self, cls: type, member: Any) -> bool: ...
        def special(self, reader: Reader, node: ast.AST, atoms: Atoms, names: tuple[str, ...]) -> None: ...
        def attribute(self, reader: Reader, node: ast.Attribute, atom: Atom, name: str) -> Atoms: ...
        def items(self, reader: Reader, node: ast.AST, atoms: Atoms) -> Atoms: ...
        def mapping(self, reader: Reader, node: ast.AST, atoms: Atoms) -> None: ...
        def _unknowns(self, function: types.FunctionType) -> Given: ...

    def call(self, reader: Reader, node: ast.Call) -> Atoms:
        """What a call gives; refuses calls that may change something."""
        function = node.func
        if isinstance(function, ast.Attribute):
            if _is_super(function.value):
                return self._super(reader, node, function.attr)
            base = reader.value(function.value)
            given = self._given(reader, node)
            found: Atoms = NOTHING
            for atom in base:
                found |= self._method(reader, node, atom, function.attr, given)
            return found
        if isinstance(function, ast.Name) and function.id in ("getattr", "hasattr"):
            return self._getattr(reader, node)
        callees = reader.value(function)
        given = self._given(reader, node)
        found = NOTHING
        for atom in callees:
            if isinstance(atom, Callback):
                found |= UNKNOWN
            elif isinstance(atom, Known):
                found |= self._known(reader, node, self.heap.known[atom.number], given)
            else:
                reader.fail(f"calls `{ast.unparse(function)}`, which is known only in the call", node)
        return found

    def _given(self, reader: Reader, node: ast.Call) -> Given:
        positional: list[Atoms] = []
        named: dict[str, Atoms] = {}
        for argument in node.args:
            atoms = reader.value(argument)
            if isinstance(argument, ast.Starred):
                named["*"] = atoms
            else:
                positional.append(atoms)
        for keyword in node.keywords:
            atoms = reader.value(keyword.value)
            if keyword.arg is None:
                self.mapping(reader, node, atoms)
                named["*"] = UNKNOWN
            else:
                named[keyword.arg] = atoms
        return tuple(positional), named

    def _getattr(self, reader: Reader, node: ast.Call) -> Atoms:
        name = node.args[1] if len(node.args) > 1 else None
        if not isinstance(name, ast.Constant) or not isinstance(name.value, str):
            reader.fail("takes an attribute by a name that is known only in the call", node)
        given, _ = self._given(reader, node)
        attribute = ast.copy_location(ast.Attribute(node.args[0], name.value, ast.Load()), node)
        found = frozenset[Atom]().union(
            *(self.attribute(reader, attribute, atom, name.value) for atom in given[0])
        )
        return found.union(*given[2:])

    def _super(self, reader: Reader, node: ast.Call, name: str) -> Atoms:
        given = self._given(reader, node)
        if node.func.value.args:  # type: ignore[attr-defined]
            reader.fail(f"calls `{_shown(node)}`, which is not followed", node)
        for atom in reader.receiver:
            cls = self.type_of(atom) or reader.owner
            found = _ambient.lookup(cls, name, after=reader.owner) if cls and reader.owner else None
            if found is None or isinstance(atom, Unknown):
                reader.fail(f"calls `super().{name}` of a class that is not known", node)
            owner, member = found
            if isinstance(member, types.FunctionType):
                return self.function(member, owner, reader.receiver, given)
            if name == "__init__" and reader.is_new(reader.receiver):
                self._fill(reader, node, owner, given)
                return PLAIN
        reader.fail(f"calls `super().{name}`, which is not followed", node)

    # ---- methods ----

    def _method(self, reader: Reader, node: ast.Call, atom: Atom, name: str, given: Given) -> Atoms:
        if isinstance(atom, Known):
            value = self.heap.known[atom.number]
            if isinstance(value, types.ModuleType | type):
                return self._of_namespace(reader, node, value, name, given)
        cls = self.type_of(atom)
        if isinstance(atom, Plain):
            return self._of_scalar(reader, node, name, given)
        if cls is not None and cls is not float and _ambient.is_own(cls):
            return self._of_own(reader, node, atom, cls, name, given)
        if isinstance(atom, New) and cls in _pure_names.CHANGING and name in _pure_names.CHANGING[cls]:
            return self._change(reader, node, atom, name, given)
        if cls in _pure_names.SCALARS and not isinstance(atom, New):
            return self._of_scalar(reader, node, name, given)
        if cls is not None and name in _pure_names.METHODS.get(cls, ()):
            return self._of_container(reader, node, atom, cls, name, given)
        if cls is not None and not isinstance(atom, New | Unknown):
            reader.fail(f"calls `{_shown(node)}`, a method of {cls.__name__} that may change it", node)
        return self._of_unknown(reader, node, name, given)

    def _of_namespace(self, reader: Reader, node: ast.Call, space: Any, name: str, given: Given) -> Atoms:
        attribute = ast.copy_location(ast.Attribute(node.func, name, ast.Load()), node)
        if isinstance(space, type):
            raw = _ambient.lookup(space, name)
            member = raw[1] if raw else None
            if isinstance(member, classmethod) and isinstance(member.__func__, types.FunctionType):
                return self.function(member.__func__, space, self.heap.name(space), given)
            if isinstance(member, staticmethod) and isinstance(member.__func__, types.FunctionType):
                return self.function(member.__func__, space, None, given)
            if isinstance(member, types.MethodDescriptorType) and given[0]:
                # str.lower(x), say.
                found: Atoms = NOTHING
                for atom in given[0][0]:
                    found |= self._method(reader, node, atom, name, (given[0][1:], given[1]))
                return found
        value = getattr(space, name, None)
        if _in(value, _pure_names.CONVERTING) or _in(value, _pure_names.GATHERING):
            return self._known(reader, node, value, given)
        atoms = self.attribute(reader, attribute, Known(id(space)), name)
        found = NOTHING
        for atom in atoms:
            if not isinstance(atom, Known):
                reader.fail(f"calls `{ast.unparse(node.func)}`, which is not known to change nothing", node)
            found |= self._known(reader, node, self.heap.known[atom.number], given)
        return found

    def _of_own(  # noqa: PLR0917
        self, reader: Reader, node: ast.Call, atom: Atom, cls: type, name: str, given: Given
    ) -> Atoms:
        found = _ambient.lookup(cls, name)
        if found is None or _ambient.lookup(cls, "__getattr__") is not None:
            reader.fail(f"calls `{_shown(node)}`, which is known only in the call", node)
        owner, member = found
        is_shadowed = name in getattr(self._live(atom), "__dict__", {}) or self._is_bound(name, cls, owner)
        if isinstance(member, types.FunctionType) and not is_shadowed:
            return self.function(member, owner, frozenset([atom]), given)
        if isinstance(member, staticmethod | classmethod):
            return self._of_namespace(reader, node, cls, name, given)
        if isinstance(member, types.MethodDescriptorType):
            if name in _pure_names.METHODS.get(owner, ()):
                return self._of_container(reader, node, atom, owner, name, given)
            reader.fail(f"calls `{_shown(node)}`, a method of {owner.__name__} that may change it", node)
        reader.fail(f"calls `{_shown(node)}`, which is not followed", node)

    def _is_bound(self, name: str, *classes: type) -> bool:
        """Whether instances may have something of their own in the place of a method."""
        return any(_sources.is_stored_beside(cls, name) for cls in (type(self.target), *classes))

    def _live(self, atom: Atom) -> Any:
        return value_at(self.target, atom.path) if isinstance(atom, This) else None

    def _of_scalar(self, reader: Reader, node: ast.Call, name: str, given: Given) -> Atoms:
        function = node.func
        text = getattr(getattr(function, "value", None), "value", None)
        if name == "format" and isinstance(text, str) and _is_plain_format(text):
            for atoms in (*given[0], *given[1].values()):
                self.special(reader, node, atoms, ("__format__", "__str__", "__repr__"))
            return PLAIN
        if not any(hasattr(each, name) for each in _pure_names.SCALARS):
            # An error, for a number or text has no such method.
            return NOTHING
        if not any(name in _pure_names.METHODS[each] for each in _pure_names.SCALARS):
            reader.fail(f"calls `{_shown(node)}`, which is not known to change nothing", node)
        self._pass(reader, node, name, given)
        return reader.made(node, list, PLAIN) if name in _SPLITTING else PLAIN

    def _pass(self, reader: Reader, node: ast.Call, name: str, given: Given) -> None:
        """Arguments go to a method of Python."""
        for atoms in (*given[0], *given[1].values()):
            self.special(reader, node, atoms, _pure_names.CONVERSIONS)
            if name in _pure_names.CONSUMING:
                self.special(reader, node, self.items(reader, node, atoms), _pure_names.CONVERSIONS)

    def _of_container(  # noqa: PLR0917
        self, reader: Reader, node: ast.Call, atom: Atom, cls: type, name: str, given: Given
    ) -> Atoms:
        self._pass(reader, node, name, given)
        if name not in ("keys", "values", "items", "copy"):
            # It compares, adds up or looks for what is inside.
            self.ambient(*_pure_names.CONVERSIONS)
        held = self.heap.held.get(atom.site, NOTHING) if isinstance(atom, New) else UNKNOWN
        both = self.heap.all_in(atom.site) if isinstance(atom, New) else UNKNOWN
        if name in ("count", "index", "total", "isdisjoint", "issubset", "issuperset"):
            return PLAIN
        if name == "get":
            return held.union(PLAIN, *given[0][1:])
        if name in ("items", "most_common"):
            return reader.made(node, type({}.items()), reader.made(node, tuple, both, "pair"))
        if name in ("keys", "values", "elements"):
            return reader.made(node, type({}.values()), both if name != "values" else held)
        for atoms in given[0]:
            held |= self.items(reader, node, atoms)
        return reader.made(node, cls, held | both)

    def _change(self, reader: Reader, node: ast.Call, atom: New, name: str, given: Given) -> Atoms:
        """A method that changes what this call has made."""
        positional, named = given
        self._callback(reader, node, named.get("key", PLAIN))
        self.special(reader, node, self.heap.held.get(atom.site, NOTHING), _pure_names.CONVERSIONS)
        for atoms in positional:
            self.special(reader, node, atoms, _pure_names.CONVERSIONS)
            if name in ("extend", "update", "extendleft", "difference_update", "subtract"):
                if name == "update" and atom.kind is dict:
                    self._pairs(reader, node, atoms)
                is_dict = atom.kind in _pure_names.MAPPINGS
                self.heap.put(atom.site, UNKNOWN if is_dict else self.items(reader, node, atoms))
                self.heap.put_key(atom.site, UNKNOWN if is_dict else NOTHING)
            elif atom.kind in _pure_names.MAPPINGS and atoms is positional[0]:
                self.heap.put_key(atom.site, atoms)
            else:
                self.heap.put(atom.site, atoms)
        for atoms in named.values():
            self.heap.put(atom.site, atoms)
        if name in ("pop", "popitem", "popleft", "setdefault"):
            is_pair = name == "popitem"
            held = self.heap.all_in(atom.site) if is_pair else self.heap.held.get(atom.site, NOTHING)
            return reader.made(node, tuple, held) if is_pair else held.union(*positional[1:])
        return PLAIN

    def _of_unknown(self, reader: Reader, node: ast.Call, name: str, given: Given) -> Atoms:
        other = _ambient.others_with_method(name)
        if other is not None:
            words = f"calls `{_shown(node)}`; if that is one of {other.__name__}, it may be changed"
            reader.fail(words, node)
        self.ambient("__getattr__", "__getattribute__")
        members = list(_ambient.own_members(name))
        if not members and name not in _pure_names.HARMLESS:
            reader.fail(f"calls `{_shown(node)}`, which is known only in the call", node)
        if members and self._is_bound(name, *(cls for cls, _ in members)):
            reader.fail(f"calls `{_shown(node)}`; some instances have a `{name}` of their own", node)
        for cls, member in members:
            if not isinstance(member, types.FunctionType):
                reader.fail(f"calls `{_shown(node)}`; `{name}` of {cls.__name__} is no plain method", node)
            self.function(member, cls, UNKNOWN, self._unknowns(member))
        self._pass(reader, node, name, given)
        if name == "items":
            return (
                UNKNOWN
                if members
                else reader.made(node, type({}.items()), reader.made(node, tuple, UNKNOWN, "pair"))
            )
        if name in ("keys", "values", "split", "most_common"):
            return UNKNOWN if members else reader.made(node, list, UNKNOWN)
        return UNKNOWN

    # ---- functions and classes ----

    def _known(self, reader: Reader, node: ast.Call, value: Any, given: Given) -> Atoms:
        positional, named = given
        if isinstance(value, types.FunctionType) and _ambient.is_own_function(value):
            return self.function(value, None, None, given)
        if value is next:
            return self._next(reader, node, positional)
        if value is range:
            return reader.made(node, range, PLAIN)
        if value is type and len(positional) != 1:
            reader.fail("makes a class", node)
        if _in(value, _pure_names.CONVERTING):
            for atoms in (*positional, *named.values()):
                self.special(reader, node, atoms, _pure_names.CONVERSIONS)
            is_plain = value not in _GIVES_ANYTHING or all(atoms <= PLAIN for atoms in positional)
            return _result_of(value) if is_plain else self._new_unless(reader, node, _ROUNDING)
        if _in(value, _pure_names.COPYING):
            self.ambient("__getstate__", "__setstate__")
            return self._new_unless(reader, node, _HOOKS_OF_COPY)
        if _in(value, _pure_names.GATHERING):
            return self._gather(reader, node, value, given)
        if value is dict:
            for atoms in positional:
                self._pairs(reader, node, atoms)
            return reader.made(
                node, dict, frozenset[Atom]().union(UNKNOWN if positional else NOTHING, *named.values())
            )
        if value is collections.defaultdict:
            return self._defaultdict(reader, node, given)
        if isinstance(value, type):
            return self._construct(reader, node, value, given)
        reader.fail(f"calls `{ast.unparse(node.func)}`, which is not known to change nothing", node)

    def _new_unless(self, reader: Reader, node: ast.Call, specials: tuple[str, ...]) -> Atoms:
        """Something new, if no class has a special method for it, which may return what it was given."""
        self.ambient(*specials)
        return UNKNOWN if self.defines(*specials) else reader.made(node, None, UNKNOWN)

    def _pairs(self, reader: Reader, node: ast.Call, atoms: Atoms) -> None:
        """What a dict is made of: a mapping, or pairs, of which each is gone through."""
        if reader.is_new(atoms):
            held = self.items(reader, node, atoms)
            kinds = {atom.kind for atom in atoms if isinstance(atom, New)}
            if reader.is_new(held) or kinds <= {dict, collections.defaultdict, collections.Counter}:
                return
        self.mapping(reader, node, atoms)

    def _next(self, reader: Reader, node: ast.Call, positional: tuple[Atoms, ...]) -> Atoms:
        if positional and reader.is_new(positional[0]) and isinstance(node.args[0], ast.GeneratorExp):
            return self.items(reader, node, positional[0]).union(*positional[1:])
        reader.fail("calls `next`, which advances an iterator", node)

    def _callback(self, reader: Reader, node: ast.Call, atoms: Atoms) -> None:
        """A function that is given to a function of Python, which calls it."""
        for atom in atoms:
            if isinstance(atom, Known):
                value = self.heap.known[atom.number]
                if isinstance(value, types.FunctionType) and _ambient.is_own_function(value):
                    count = value.__code__.co_argcount
                    self.function(value, None, None, ((UNKNOWN,) * count, {}))
                    continue
                if _in(value, _pure_names.CONVERTING):
                    self.ambient(*_pure_names.CONVERSIONS)
                    continue
                if isinstance(value, types.MethodDescriptorType) and value.__name__ in (
                    _pure_names.METHODS.get(value.__objclass__, frozenset()) - _pure_names.CONSUMING
                ):
                    self.ambient(*_pure_names.CONVERSIONS)
                    continue
            elif isinstance(atom, Callback | Plain):
                continue
            reader.fail(f"`{_shown(node)}` calls a function that is not known to change nothing", node)

    def _gather(self, reader: Reader, node: ast.Call, value: Any, given: Given) -> Atoms:
        positional, named = list(given[0]), dict(given[1])
        name = value.__name__
        if "*" in named:
            reader.fail(f"`{_shown(node)}` goes through things of unknown type", node)
        functions = [named.pop("key", PLAIN), *(positional[:1] if name in _WITH_FUNCTION else ())]
        if name in ("accumulate", "groupby"):
            functions += positional[1:]
            positional = positional[:1]
        for function in functions:
            self._callback(reader, node, function)
        iterables = positional[1:] if name in _WITH_FUNCTION else positional
        if name == "OrderedDict":
            for atoms in positional:
                self._pairs(reader, node, atoms)
        if name in ("min", "max") and len(positional) > 1:
            held = frozenset[Atom]().union(*positional)
        else:
            upto = len(iterables) if name in _OF_MANY else 1
            held = frozenset[Atom]().union(*(self.items(reader, node, each) for each in iterables[:upto]))
            for atoms in iterables[upto:]:
                self.special(reader, node, atoms, _pure_names.CONVERSIONS)
        self.special(reader, node, held, _pure_names.CONVERSIONS)
        if name == "sum" and len(positional) > 1:
            named["start"] = positional[1]
        return self._gathered(reader, node, value, held, named)

    def _gathered(
        self, reader: Reader, node: ast.Call, value: Any, held: Atoms, named: dict[str, Atoms]
    ) -> Atoms:
        """What a function gives that has gone through its arguments."""
        name = value.__name__
        rest = frozenset[Atom]().union(*named.values())
        if name in _LOGICAL or (name in _OF_NUMBERS and held | rest <= PLAIN):
            return PLAIN
        if name in _REDUCING:
            return held | rest | (UNKNOWN if name == "reduce" else NOTHING)
        if name in _OF_NUMBERS:
            self.ambient("__add__", "__radd__", "__mul__", "__rmul__")
            is_own = any(True for each in ("__add__", "__radd__") for _ in _ambient.own_members(each))
            # Without a start the sum of containers is an error.
            kind = float if len(node.args) == 1 and not named else None
            # Of nothing the sum is the start itself.
            return UNKNOWN if is_own else reader.made(node, kind, held) | rest
        if name in _TUPLES:
            return reader.made(node, zip, reader.made(node, tuple, held | PLAIN, "pair"))
        if name in _WALKS:
            return reader.made(node, list if name == "sorted" else zip, held)
        if value in (list, set, frozenset, tuple, bytearray, collections.deque, collections.Counter):
            return reader.made(node, value, held)
        # Iterators too: whoever goes through them only uses up what was made here.
        return reader.made(node, collections.OrderedDict if name == "OrderedDict" else None, UNKNOWN | held)

    def _defaultdict(self, reader: Reader, node: ast.Call, given: Given) -> Atoms:
        made: Atoms = NOTHING
        for atom in given[0][0] if given[0] else PLAIN:
            factory = self.heap.known.get(atom.number) if isinstance(atom, Known) else None
            if factory in (list, dict, set, collections.deque, collections.Counter):
                made |= reader.made(node, factory, NOTHING, "item")
            elif isinstance(atom, Plain) or factory in (int, float, str, bool):
                made |= PLAIN
            else:
                reader.fail("makes a defaultdict with a function that is not followed", node)
        if len(given[0]) > 1 or given[1]:
            reader.fail("fills a defaultdict when it makes it", node)
        return reader.made(node, collections.defaultdict, made)

    def _construct(self, reader: Reader, node: ast.Call, cls: type, given: Given) -> Atoms:
        held = frozenset[Atom]().union(*given[0], *given[1].values())
        if type(cls) not in _pure_names.METACLASSES:
            reader.fail(f"makes a {cls.__name__}, whose class is made in a special way", node)
        if not _ambient.is_own(cls):
            if cls.__module__ == "builtins" and issubclass(cls, BaseException):
                return reader.made(node, cls, held)
            reader.fail(f"makes a {cls.__name__}, which is not known to change nothing", node)
        if isinstance(cls, _pure_names.METACLASSES[2]):
            if any(
                _ambient.is_own(base) for base, _ in [_ambient.lookup(cls, "_missing_") or (object, None)]
            ):
                reader.fail(f"`{cls.__name__}` has _missing_", node)
            return UNKNOWN
        made = reader.made(node, cls, held)
        for hook in ("__new__", "__init__", "__post_init__"):
            found = _ambient.lookup(cls, hook)
            if found is None or not isinstance(found[1], types.FunctionType | staticmethod):
                continue
            owner, member = found
            if hook == "__new__" and not (issubclass(cls, tuple) and hasattr(cls, "_fields")):
                reader.fail(f"`{cls.__name__}` has __new__", node)
            if hook == "__init__" and self.is_generated(owner, member):
                self._factories(reader, node, owner)
                self.heap.put(next(getattr(atom, "site", 0) for atom in made), UNKNOWN)
            elif isinstance(member, types.FunctionType):
                self.function(member, owner, made, given if hook == "__init__" else self._unknowns(member))
        for hook in ("__new__", "__init__"):
            found = _ambient.lookup(cls, hook)
            if found is not None and not isinstance(found[1], types.FunctionType):
                self._fill(reader, node, found[0], given)
        return made

    def _fill(self, reader: Reader, node: ast.Call, base: type, given: Given) -> None:
        """A type of Python takes what an instance of a subclass is made of."""
        positional, named = given
        for atoms in (*positional, *named.values()):
            self.special(reader, node, atoms, _pure_names.CONVERSIONS)
        if not issubclass(base, (*_pure_names.CONTAINERS, bytes)):
            return
        for atoms in positional:
            if issubclass(base, dict):
                self._pairs(reader, node, atoms)
            else:
                self.special(reader, node, self.items(reader, node, atoms), _pure_names.CONVERSIONS)
        if "*" in named and not issubclass(base, dict):
            reader.fail(f"`{_shown(node)}` goes through things of unknown type", node)

    def _factories(self, reader: Reader, node: ast.Call, cls: type) -> None:
        for each in getattr(cls, "__dataclass_fields__", {}).values():
            if callable(each.default_factory) and each.default_factory not in (
                list,
                dict,
                set,
                tuple,
                str,
                int,
            ):
                reader.fail(f"makes a {cls.__name__}, whose field `{each.name}` has a factory", node)


def _is_super(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "super"


def _in(value: Any, trusted: frozenset[Any]) -> bool:
    try:
        return value in trusted
    except TypeError:
        return False


def _result_of(value: Any) -> Atoms:
    return UNKNOWN if value is type else PLAIN


def _shown(node: ast.AST) -> str:
    text = ast.unparse(node)
    return text if len(text) <= 60 else text[:57] + "..."


def _is_plain_format(text: str) -> bool:
    """Whether a format text takes neither attributes nor items of what it formats."""
    try:
        parts = list(string.Formatter().parse(text))
    except ValueError:
        return False
    return all(not name or not set(name) & set(".[") for _, name, _, _ in parts) and all(
        "{" not in (layout or "") for _, _, layout, _ in parts
    )
