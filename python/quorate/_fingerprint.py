"""What the outcomes of calls rest on beside the calls: interpreter, packages, sources of the objects.

The host tells it to the node, which keeps it in the data directory and refuses a start with another one:
acknowledged calls would be executed again with other code. Nothing here decides what is refused.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib
import importlib.util
import json
import platform
import site
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from quorate import _names

TEXT_BYTES_MAX = 256 << 10
"""Source of one module that is told in full, to show a change. Of a longer one only the hash is told."""

TEXTS_BYTES_MAX = 2 << 20
"""Source of all modules that is told in full: a node keeps it, and compares it at each start."""

_LOADED_BEFORE = frozenset(sys.modules)
"""What the interpreter and this package import themselves."""


def fingerprint(budgets: dict[str, int]) -> str:
    """The interpreter, packages and sources of this process, and steps that calls may take, as JSON.

    >>> sorted(json.loads(fingerprint({"Account": 1000})))
    ['budgets', 'hash', 'packages', 'python', 'sources']
    """
    own, packages = _loaded()
    told: dict[str, Any] = {
        "budgets": budgets,
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "packages": {name: _version(name) for name in sorted(packages)},
        "sources": _described(_with_imports(own)),
    }
    told["hash"] = hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()
    return json.dumps(told, sort_keys=True)


def _loaded() -> tuple[dict[str, Path], set[str]]:
    """The files of the objects' own modules, and the names of installed packages that they have imported."""
    own: dict[str, Path] = {}
    packages: set[str] = set()
    for name, module in sorted(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if name in _LOADED_BEFORE or not isinstance(file, str):
            continue
        if is_own(name, file):
            own[name] = Path(file)
        elif _lies_in(file, _installed()) and not _lies_in(file, _standard()):
            packages.add(name.partition(".")[0])
    return own, packages


def is_own(name: str, file: str) -> bool:
    """Whether a module is neither of the standard library, nor of an installed package, nor of this one.

    The sources of `quorate.objects` count wherever they lie: they change with the version of this package.

    >>> is_own("json", json.__file__), is_own("bank", "/srv/bank.py")
    (False, True)
    """
    top = _names.top_of(name)
    if top in ("quorate", _names.OBJECTS):
        return top == _names.OBJECTS
    return not _lies_in(file, [*_standard(), *_installed()])


@functools.cache
def _installed() -> list[str]:
    places = [*site.getsitepackages(), site.getusersitepackages()]
    return [*places, *(sysconfig.get_path(kind) for kind in ("purelib", "platlib"))]


@functools.cache
def _standard() -> list[str]:
    return [sysconfig.get_path(kind) for kind in ("stdlib", "platstdlib")]


def _lies_in(file: str, places: list[str]) -> bool:
    """Whether a file lies in one of the directories; packages lie inside of the standard library's directory.

    >>> _lies_in(json.__file__, _standard()), _lies_in("/lib/python3/site-packages/a.py", ["/lib/python3"])
    (True, False)
    """
    # A virtual environment has its installed packages inside of a directory of its standard library.
    below = (file[len(place) :] for place in places if file.startswith(place.rstrip("/") + "/"))
    return any("site-packages" not in rest and "dist-packages" not in rest for rest in below)


def _version(package: str) -> str:
    """The version of an installed package, which may have another name than its distribution."""
    # Most objects need no package, and loading this takes as long as all else here.
    metadata = importlib.import_module("importlib.metadata")
    try:
        return str(metadata.version(package))
    except metadata.PackageNotFoundError:
        pass
    distributions = sorted(set(metadata.packages_distributions().get(package, [])))
    if distributions:
        return " ".join(f"{name} {metadata.version(name)}" for name in distributions)
    return str(getattr(sys.modules.get(package), "__version__", "unknown"))


def _with_imports(own: dict[str, Path]) -> dict[str, Path]:
    """The modules, and those beside them that they import, if only in a method that did not run yet."""
    found = dict(own)
    waiting = sorted(own)
    while waiting:
        name = waiting.pop()
        file = found[name]
        home = _home(name, file)
        for imported in _imports(name, file):
            is_sought = imported not in found and _names.top_of(imported) != "quorate"
            beside = _file_of(imported, home) if is_sought else None
            if beside is not None:
                found[imported] = beside
                waiting.append(imported)
    return found


def _home(name: str, file: Path) -> Path:
    """The directory in which the top package of a module lies.

    >>> _home("a.b", Path("/srv/a/b.py")), _home("a.b", Path("/srv/a/b/__init__.py"))
    (PosixPath('/srv'), PosixPath('/srv'))
    """
    depth = name.count(".") + (file.name.partition(".")[0] == "__init__")
    return file.parents[depth] if depth < len(file.parents) else file.parent


def _file_of(name: str, home: Path) -> Path | None:
    path = home.joinpath(*name.split("."))
    candidates = (path / "__init__.py", path.with_name(path.name + ".py"))
    return next((candidate for candidate in candidates if candidate.is_file()), None)


def _imports(name: str, file: Path) -> Iterator[str]:
    """The names of modules that a source may import, wherever the import stands."""
    try:
        tree = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return
    package = name if file.stem == "__init__" else name.rpartition(".")[0]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for each in node.names:
                yield from _with_parents(each.name)
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(node, package)
            if base is not None:
                yield from _with_parents(base)
                yield from (f"{base}.{each.name}" for each in node.names if base)


def _with_parents(name: str) -> Iterator[str]:
    while name:
        yield name
        name = name.rpartition(".")[0]


def _absolute(node: ast.ImportFrom, package: str) -> str | None:
    if not node.level:
        return node.module
    try:
        return importlib.util.resolve_name("." * node.level + (node.module or ""), package)
    except ImportError:
        return None


def _described(modules: dict[str, Path]) -> dict[str, Any]:
    """For each module the name of its file, the hash of it, and its text where that is not long."""
    told = {}
    left = TEXTS_BYTES_MAX
    for name, file in sorted(modules.items()):
        try:
            content = file.read_bytes()
        except OSError:
            continue
        shown = name.replace(".", "/") + ("/__init__" if file.stem == "__init__" else "") + file.suffix
        each: dict[str, Any] = {"file": shown, "hash": hashlib.sha256(content).hexdigest()}
        if file.suffix == ".py" and len(content) <= min(TEXT_BYTES_MAX, left):
            left -= len(content)
            each["text"] = content.decode(errors="replace")
        told[name] = each
    return told
