"""The package's surface: names, stub, types, and the absence of side effects."""

from __future__ import annotations

import copy
import inspect
import pkgutil
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
import type_checkers

import quorate
from quorate import _errors, _native, _special, testing
from quorate._options import Options
from quorate._proxy import Flow, Proxy

PACKAGE = Path(quorate.__file__).parent


def test_public_names_live_in_init_and_nowhere_else() -> None:
    # Where the package is installed, pytest rewrites its modules and adds names that are no identifiers.
    names = filter(str.isidentifier, vars(quorate))
    own = {name for name in names if not name.startswith("_")} | {"__version__"}
    own -= {"annotations", "objects", "testing"}
    assert testing.__all__ == sorted(testing.__all__)
    assert own == set(quorate.__all__)
    assert quorate.__all__ == sorted(quorate.__all__)
    public_modules = [m.name for m in pkgutil.iter_modules([str(PACKAGE)]) if not m.name.startswith("_")]
    assert public_modules == ["objects", "testing"]


def test_every_public_name_has_a_docstring_with_an_example() -> None:
    things = [(name, getattr(quorate, name)) for name in quorate.__all__]
    for name, thing in things + [(name, getattr(testing, name)) for name in testing.__all__]:
        if isinstance(thing, type) or inspect.isfunction(thing):
            text = inspect.getdoc(thing) or ""
            assert ">>>" in text or "::" in text, f"{name} shows no example"


def test_errors_form_one_tree_that_tells_whether_a_call_was_executed() -> None:
    errors = [getattr(quorate, n) for n in quorate.__all__ if isinstance(getattr(quorate, n), type)]
    errors = [e for e in errors if issubclass(e, BaseException)]
    assert len(errors) == 37
    for error in errors:
        assert issubclass(error, quorate.QuorateError)
        assert error.fault in ("caller", "service", "method")
        assert not error.retry or error.executed is False, "only what did not happen may be repeated blindly"


def test_the_class_of_a_failed_call_follows_from_how_it_ended_and_why() -> None:
    branches = {
        "not_executed": quorate.NotExecuted,
        "outcome_unknown": quorate.OutcomeUnknown,
        "invalid": quorate.Refused,
        "closed": quorate.Closed,
        "forked": quorate.Forked,
    }
    for end, branch in branches.items():
        for cause in _native.call_causes():
            error = _errors.of_call(end, cause, "words that say nothing: overloaded, expired, deadline")
            assert isinstance(error, branch)
            assert error.cause == cause
    assert type(_errors.of_call("not_executed", "no_leader", "overloaded")) is quorate.Unavailable
    leaves = {cause for _, cause in _errors._LEAVES}
    assert leaves <= set(_native.call_causes()), "a class is kept for a cause that does not exist"


def test_the_stub_tells_what_the_native_half_has() -> None:
    stub = (PACKAGE / "_native.pyi").read_text()
    for name, member in vars(_native).items():
        if name.startswith("_"):
            continue
        assert f"def {name}(" in stub or f"class {name}:" in stub, f"{name} is missing in the stub"
        if callable(member) and not isinstance(member, type):
            parameters = ", ".join(inspect.signature(member).parameters)
            declared = stub.split(f"def {name}(")[1].split(") ->")[0]
            names = ", ".join(p.split(":")[0].strip() for p in split_parameters(declared))
            assert names == parameters, f"{name}({parameters}) is declared as ({names})"


def split_parameters(text: str) -> list[str]:
    parts, depth = [""], 0
    for letter in text:
        depth += (letter == "[") - (letter == "]")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part for part in parts if part.strip()]


def test_importing_the_package_changes_nothing_in_this_process() -> None:
    assert type(time.time).__name__ == "builtin_function_or_method"
    assert random.Random.__module__ == "random"
    assert random.randint.__self__ is random._inst  # type: ignore[attr-defined]


def test_the_module_runs_the_program_with_this_interpreter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "quorate"
    program.write_text('#!/bin/sh\necho "$QUORATE_PYTHON" "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("QUORATE_PROGRAM", str(program))
    monkeypatch.delenv("QUORATE_PYTHON", raising=False)
    command = [sys.executable, "-m", "quorate", "status", "-o", "json"]
    told = subprocess.run(command, capture_output=True, text=True, check=True, cwd=PACKAGE.parent).stdout
    assert told == f"{sys.executable} status -o json\n"


SAID_TWICE = ("reportUnknownMemberType", "reportUnusedImport")
TYPED = """
import quorate
from concurrent.futures import Future

class Account:
    def deposit(self, amount: int) -> int:
        return amount

    def owner(self) -> str:
        return ""

async def later(number: int) -> int:
    return number

async def named() -> str:
    return ""

async def wait() -> None:
    number, name = await quorate.agather(later(1), named())
    reveal_type(number)
    reveal_type(name)
    reveal_type(await quorate.agather(*[later(1)]))

with quorate.connect("quorate://a:1", Account) as account:
    reveal_type(account)
    reveal_type(account.deposit(1))
    reveal_type(quorate.submit(account.deposit, 1))
    reveal_type(quorate.weak(account))
    reveal_type(quorate.gather(quorate.submit(account.deposit, 1)))
    both = quorate.gather(quorate.submit(account.deposit, 1), quorate.submit(account.owner))
    reveal_type(both[0])
    reveal_type(both[1])
    reveal_type(quorate.options(account, timeout=1.0, level="any", retry=False))
    account.deposit("ten")
    account.withdraw(1)
    quorate.submit(account.deposit, "ten")
    quorate.options(account, level="fresh")
with quorate.local(Account) as test_account:
    reveal_type(test_account)
"""


def test_editors_and_checkers_see_the_class_through_the_proxy(tmp_path: Path) -> None:
    source = tmp_path / "typed.py"
    source.write_text(TYPED)
    told = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", str(source)],
        capture_output=True,
        text=True,
        cwd=PACKAGE.parent,
        check=False,
    ).stdout
    revealed = [line.split('"')[1] for line in told.splitlines() if "Revealed type" in line]
    assert [r.replace("builtins.", "").replace("concurrent.futures._base.", "") for r in revealed] == [
        "int",
        "str",
        "list[int]",
        "typed.Account",
        "int",
        "Future[int]",
        "typed.Account",
        "list[int]",
        "int",
        "str",
        "typed.Account",
        "typed.Account",
    ], told
    errors = [line.rpartition("[")[2].rstrip("]") for line in told.splitlines() if "error:" in line]
    assert errors == ["arg-type", "attr-defined", "arg-type", "arg-type"], told


def test_pyright_sees_the_class_through_a_proxy_and_through_what_gathers_its_calls(tmp_path: Path) -> None:
    (tmp_path / "typed.py").write_text(TYPED)
    told = type_checkers.pyright(tmp_path, "typed.py")
    assert told.revealed == [
        *("int", "str", "list[int]", "Account", "int", "Future[int]", "Account", "list[int]", "int", "str"),
        *("Account", "Account"),
    ], told
    assert [error for error in told.errors if error[0] not in SAID_TWICE] == [
        ("reportArgumentType", 'account.deposit("ten")'),
        ("reportAttributeAccessIssue", "account.withdraw(1)"),
        ("reportArgumentType", 'quorate.submit(account.deposit, "ten")'),
        ("reportArgumentType", 'quorate.options(account, level="fresh")'),
    ], told


def test_private_names_and_attributes_are_refused_before_anything_is_sent() -> None:
    class Account:
        limit = 3

        def deposit(self) -> None: ...

    proxy = Proxy(Flow(None, Account, Options()))  # type: ignore[arg-type]
    for name in ("_secret", "__reduce_ex__x", "__len__"):
        with pytest.raises(quorate.NoSuchMethod):
            getattr(proxy, name)
    with pytest.raises(AttributeError, match="call a method"):
        proxy.deposit = 1
    assert "deposit" in repr(proxy.deposit)


def test_proxies_beside_one_whose_class_is_kept_no_more_are_whole() -> None:
    class Account:
        def deposit(self) -> None: ...

    proxy = Proxy(Flow(None, Account, Options()))  # type: ignore[arg-type]
    # As when another thread made a class at the same time, or 256 other classes came since.
    _special._made.cache_clear()
    for other in (quorate.options(proxy, timeout=5), copy.copy(proxy)):
        assert type(other) is type(proxy)
        assert "deposit" in repr(other.deposit)
