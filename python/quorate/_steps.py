"""Steps of a call: the code of the objects' modules is compiled so that it counts them.

A step is a round of a loop or of a comprehension, and the start of a function. Counting follows the source
alone, so a call that never ends is ended at the same step on every replica. What C code does, and what the
standard library and installed packages do, is not counted. Only the host installs this.
"""

from __future__ import annotations

import ast
import builtins
import types
from collections.abc import Iterable
from importlib import machinery
from typing import Any

from quorate import _fingerprint, _hashes, _native

NAME = "__quorate_step__"
"""The variable whose operator `~` is one step."""


class Spent(BaseException):
    """Ends a call that took too many steps. No `except Exception` of the call's own catches it."""


_files: set[str] = set()
"""Whose code counts."""

_tops: set[str] = set()
"""Packages that count wherever they lie."""


def count(path: str) -> None:
    """From here on the package of this MODULE:CLASS counts, if it is not imported yet."""
    _tops.add(path.partition(":")[0].partition(".")[0])


def install(classes: Iterable[str]) -> None:
    """From here on modules that are nobody's package, and the packages of these MODULE:CLASS, count steps."""
    for path in classes:
        count(path)
    setattr(builtins, NAME, _native.Step())
    loader: Any = machinery.SourceFileLoader
    read = loader.get_code

    def get_code(self: Any, name: str) -> types.CodeType | None:
        file = self.get_filename(name)
        if name.partition(".")[0] not in _tops and not _fingerprint.is_own(name, file):
            code: types.CodeType | None = read(self, name)
            return code
        # Not from a file with compiled code, and not into one: that would count in other processes too.
        _files.add(file)
        counted: types.CodeType = _hashes.settled(compiled(self.get_data(file), file))
        return counted

    loader.get_code = get_code


def compiled(source: str | bytes, file: str) -> types.CodeType:
    """A module's code as this process runs it.

    >>> compiled("x = 1", "a.py").co_names
    ('x',)
    """
    if file not in _files:
        code: types.CodeType = compile(source, file, "exec", dont_inherit=True)
        return code
    return compile(counted(source, file), file, "exec", dont_inherit=True)


def counted(source: str | bytes, file: str) -> ast.Module:
    """The source with a step where a loop's round or a function begins.

    >>> print(ast.unparse(counted("for x in y: f(x)", "a.py")))
    for x in y:
        ~__quorate_step__
        f(x)
    >>> print(ast.unparse(counted("f = lambda: [x for x in y if x]", "a.py")))
    f = lambda: ~__quorate_step__ and [x for x in y if ~__quorate_step__ if x]
    """
    tree = _Counter().visit(ast.parse(source, file))
    assert isinstance(tree, ast.Module)
    return tree


def _step(place: ast.AST) -> ast.expr:
    """One step, true, at the place of another node."""
    name = ast.copy_location(ast.Name(NAME, ast.Load()), place)
    return ast.copy_location(ast.UnaryOp(ast.Invert(), name), place)


class _Counter(ast.NodeTransformer):
    def _begin(self, node: Any) -> Any:
        self.generic_visit(node)
        first = node.body[0]
        is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        after = int(is_function and ast.get_docstring(node, clean=False) is not None)
        node.body.insert(after, ast.copy_location(ast.Expr(_step(first)), first))
        return node

    visit_For = visit_AsyncFor = visit_While = visit_FunctionDef = visit_AsyncFunctionDef = _begin

    def visit_Lambda(self, node: ast.Lambda) -> ast.Lambda:
        self.generic_visit(node)
        both = ast.BoolOp(ast.And(), [_step(node.body), node.body])
        node.body = ast.copy_location(both, node.body)
        return node

    def visit_comprehension(self, node: ast.comprehension) -> ast.comprehension:
        self.generic_visit(node)
        node.ifs.insert(0, _step(node.target))
        return node
