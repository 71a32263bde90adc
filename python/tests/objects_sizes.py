"""Lines of code of the objects of the library, and how many of them know of replication."""

from __future__ import annotations

import ast
import inspect
import io
import re
import sys
import tokenize
from collections.abc import Callable
from typing import Any

WAITS = re.compile(r"quorate|caller|calling|park|wake|on_session_end|\.wait\(|wait_and_tell", re.IGNORECASE)
"""What a line mentions that lets callers wait: Quorate's names, and what stands for them."""

OF_SESSIONS = re.compile("session")
"""What a line mentions that says to whom something belongs."""

_NO_CODE = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)


def size(*parts: Callable[..., Any]) -> tuple[int, int, int]:
    """Lines of code without docstrings, comments and blanks; those that wait; others of sessions."""
    lines = [line for part in parts for line in code_of(part)]
    waiting = [line for line in lines if WAITS.search(line)]
    owning = [line for line in lines if OF_SESSIONS.search(line) and not WAITS.search(line)]
    return len(lines), len(waiting), len(owning)


def code_of(part: Callable[..., Any]) -> list[str]:
    """The lines of a class or function that hold code."""
    source = inspect.getsource(sys.modules[part.__module__])
    named = (each for each in ast.parse(source).body if isinstance(each, ast.ClassDef | ast.FunctionDef))
    node = next(each for each in named if each.name == part.__name__)
    texts = {
        line
        for each in ast.walk(node)
        if isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant)
        for line in range(each.lineno, (each.end_lineno or 0) + 1)
        if each.value.value is not ...
    }
    code = {
        line
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type not in _NO_CODE
        for line in range(token.start[0], token.end[0] + 1)
        if node.lineno <= line <= (node.end_lineno or 0) and line not in texts
    }
    lines = source.splitlines()
    return [lines[line - 1] for line in sorted(code)]
