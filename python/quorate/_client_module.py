"""Writes the module of `quorate proxy`: by it clients know an object without the object's own module.

Only signatures, defaults, docstrings and declarations are copied. Types of other packages become `Any`.
It calls nothing of the class and refuses nothing: what cannot be written down is left open.
"""

from __future__ import annotations

import inspect
import sys
import types
import typing
from collections.abc import Callable
from typing import Any

from quorate import _data_model, _labels, _options, _reads

_HEAD = '''"""The client of {path}, written by `quorate proxy {path}`: change the class and write it again.

It needs the package quorate, and nothing of the module {module}. The group executes the methods:
here they only say how they are called.
"""

from __future__ import annotations

{imports}
import quorate


def _call_a_proxy() -> NoReturn:
    raise TypeError("the group executes this method: call it on what connect() or aconnect() gives")
'''

_FOOT = '''

def connect(
    endpoint: str, *, timeout: float = 10.0, tls: quorate.Tls | None = None
) -> quorate.Connection[{name}]:
    """Connect to the object: `with connect("quorate://127.0.0.1:7400") as it: ...`."""
    return quorate.connect(endpoint, {name}, timeout=timeout, tls=tls)


def aconnect(
    endpoint: str, *, timeout: float = 10.0, tls: quorate.Tls | None = None
) -> AbstractAsyncContextManager[Async{name}]:
    """Connect for asyncio: `async with aconnect("quorate://127.0.0.1:7400") as it: ...`."""
    connection = quorate.aconnect(endpoint, {name}, timeout=timeout, tls=tls)
    return cast("AbstractAsyncContextManager[Async{name}]", connection)
'''

_BODY = "        _call_a_proxy()"
_PLAIN = (int, float, str, bytes, bool, type(None))


def write(cls: type, path: str) -> str:
    """The text of the module for the class at `path`, which is MODULE:CLASS."""
    writer = _Writer(cls)
    sync, asyncio = writer.class_text(is_async=False), writer.class_text(is_async=True)
    imports = [
        *(f"import {module}" for module in sorted(writer.modules)),
        "from contextlib import AbstractAsyncContextManager",
        "from typing import Any, NoReturn, cast",
    ]
    module = path.partition(":")[0]
    head = _HEAD.format(path=path, module=module, imports="\n".join(imports) + "\n")
    return head + sync + asyncio + _FOOT.format(name=cls.__name__)


class _Writer:
    def __init__(self, cls: type) -> None:
        self._cls = cls
        self.modules: set[str] = set()

    def class_text(self, *, is_async: bool) -> str:
        """One class; the asyncio one has no special methods, which cannot be awaited."""
        cls = self._cls
        text = f"\n\nclass {'Async' if is_async else ''}{cls.__name__}:\n"
        text += _docstring(vars(cls).get("__doc__") or f"An object of {cls.__name__}.", "    ")
        label = getattr(cls, _labels.PARAMETER, None)
        if isinstance(label, str):
            text += f"\n    {_labels.PARAMETER} = {label!r}\n"
        names = _reads.public_methods(cls)
        if not is_async:
            names += [name for name in sorted(_data_model.SPECIAL) if _data_model.defines(cls, name)]
        for name in self._properties():
            text += self._property(name, is_async=is_async)
        for name in names:
            text += self._method(name, is_async=is_async)
        return text

    def _properties(self) -> list[str]:
        statics = {name: inspect.getattr_static(self._cls, name, None) for name in dir(self._cls)}
        return [name for name, at in statics.items() if isinstance(at, property) and not name.startswith("_")]

    def _property(self, name: str, *, is_async: bool) -> str:
        getter = inspect.getattr_static(self._cls, name).fget
        result = self._shown(_hints(getter).get("return", Any))
        if is_async:
            self.modules.add("collections.abc")
            result = f"collections.abc.Awaitable[{result}]"
        doc = _docstring(getter.__doc__, "        ")
        return f"\n    @property\n    def {name}(self) -> {result}:\n{doc}{_BODY}\n"

    def _method(self, name: str, *, is_async: bool) -> str:
        static = inspect.getattr_static(self._cls, name)
        function = getattr(static, "__func__", static)
        hints = _hints(function)
        try:
            parameters = list(inspect.signature(function).parameters.values())
        except (TypeError, ValueError):
            parameters = [
                inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY),
                inspect.Parameter("args", inspect.Parameter.VAR_POSITIONAL),
                inspect.Parameter("kwargs", inspect.Parameter.VAR_KEYWORD),
            ]
        own = parameters if isinstance(static, staticmethod) else parameters[1:]
        result = self._shown(hints.get("return", Any))
        mark = "    @quorate.readonly\n" if _options.is_readonly(self._cls, name) else ""
        word = "async def" if is_async else "def"
        doc = _docstring(getattr(function, "__doc__", None), "        ")
        shown = ", ".join(["self", *self._parameters(own, hints)])
        return f"\n{mark}    {word} {name}({shown}) -> {result}:\n{doc}{_BODY}\n"

    def _parameters(self, parameters: list[inspect.Parameter], hints: dict[str, Any]) -> list[str]:
        """As they stand between the brackets, with the marks `/` and `*`."""
        shown: list[str] = []
        marks = {"/": False, "*": False}
        for each in parameters:
            if each.kind is each.POSITIONAL_ONLY:
                marks["/"] = True
            elif marks["/"]:
                shown.append("/")
                marks["/"] = False
            if each.kind is each.KEYWORD_ONLY and not marks["*"]:
                shown.append("*")
            marks["*"] |= each.kind in (each.KEYWORD_ONLY, each.VAR_POSITIONAL)
            shown.append(self._parameter(each, hints.get(each.name, Any)))
        return [*shown, "/"] if marks["/"] else shown

    def _parameter(self, each: inspect.Parameter, hint: Any) -> str:
        star = "*" * ((each.kind is each.VAR_POSITIONAL) + 2 * (each.kind is each.VAR_KEYWORD))
        start = f"{star}{each.name}: "
        if each.default is each.empty:
            return start + self._shown(hint)
        if type(each.default) in _PLAIN and each.default == each.default:
            return f"{start}{self._shown(hint)} = {each.default!r}"
        # Another value cannot be written here. The class fills it in, so any stands for it.
        return f"{start}Any = ..."

    def _shown(self, hint: Any) -> str:
        """A type as text; what only another package knows is `Any`."""
        if hint is Any:
            return "Any"
        if hint in (None, type(None)):
            return "None"
        arguments = typing.get_args(hint)
        origin = typing.get_origin(hint)
        if origin in (typing.Union, types.UnionType):
            parts = list(dict.fromkeys(self._shown(part) for part in arguments))
            return "Any" if "Any" in parts else " | ".join(parts)
        if origin is typing.Literal and all(type(part) in _PLAIN for part in arguments):
            self.modules.add("typing")
            return f"typing.Literal[{', '.join(map(repr, arguments))}]"
        if origin is not None:
            base = self._named(origin)
            inner = ["..." if part is ... else self._inner(part) for part in arguments]
            return "Any" if base == "Any" or not inner else f"{base}[{', '.join(inner)}]"
        if isinstance(hint, type) and hint in _OPEN:
            return _OPEN[hint]
        return self._named(hint)

    def _inner(self, part: Any) -> str:
        return f"[{', '.join(map(self._shown, part))}]" if isinstance(part, list) else self._shown(part)

    def _named(self, hint: Any) -> str:
        if not isinstance(hint, type) or "<locals>" in hint.__qualname__:
            return "Any"
        if hint.__module__ == "builtins":
            return hint.__name__
        if hint.__module__.split(".")[0] not in sys.stdlib_module_names:
            return "Any"
        self.modules.add(hint.__module__)
        return f"{hint.__module__}.{hint.__qualname__}"


_OPEN: dict[Any, str] = {
    list: "list[Any]",
    set: "set[Any]",
    frozenset: "frozenset[Any]",
    dict: "dict[Any, Any]",
    tuple: "tuple[Any, ...]",
    type: "type[Any]",
}
"""Collections without arguments, which strict checkers refuse."""


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    """Annotations as types; one that cannot be evaluated is left out."""
    try:
        return typing.get_type_hints(function)
    except Exception:
        known = {}
        for name, text in getattr(function, "__annotations__", {}).items():
            try:
                known[name] = (
                    eval(text, getattr(function, "__globals__", {})) if isinstance(text, str) else text
                )
            except Exception:
                continue
        return known


def _docstring(text: str | None, indent: str) -> str:
    if not text:
        return ""
    lines = inspect.cleandoc(text).replace("\\", "\\\\").replace('"""', r"\"\"\"").splitlines()
    if len(lines) == 1 and not lines[0].endswith('"'):
        return f'{indent}"""{lines[0]}"""\n'
    body = "\n".join(f"{indent}{line}".rstrip() for line in lines[1:])
    return f'{indent}"""{lines[0]}\n{body}\n{indent}"""\n'
