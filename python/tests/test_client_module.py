"""`quorate proxy`: a client module that knows an object without the object's own module."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import type_checkers

from quorate import _commands, _local

LEDGER = '''
from __future__ import annotations

import datetime
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Optional

import quorate

if TYPE_CHECKING:
    from absent import Absent


@dataclass
class Entry:
    amount: int


class Ledger:
    """Amounts, and when they came."""

    def __init__(self) -> None:
        self.amounts: list[int] = []

    def add(self, amount: int, /, at: datetime.date | None = None, *, note: str = 'a "note"') -> int:
        """Append an amount.

        The count comes back.
        """
        self.amounts.append(amount)
        return len(self.amounts)

    def many(self, amounts: Iterable[int], *rest: int, **named: int) -> dict[str, list[int]]:
        self.amounts += [*amounts, *rest, *named.values()]
        return {"amounts": self.amounts}

    @quorate.readonly
    def total(self, kind: Literal["sum", "count"] = "sum", scale: float = 1.0) -> Optional[float]:
        return sum(self.amounts) * scale if kind == "sum" else len(self.amounts)

    def entry(self, entry: Entry, absent: Absent, start=Entry(1), bare: list = ()) -> Entry: return entry

    def bare(self, a, b=2): return a + b

    def __len__(self) -> int:
        return len(self.amounts)

    @property
    def newest(self) -> int:
        return self.amounts[-1]

    __quorate_label__ = "who"

    def whose(self, *, who: int | None = None) -> int | None:
        return who
'''

USER = """
import asyncio
import datetime
import sys

from ledger_client import Ledger, aconnect, connect

import quorate


async def later() -> int:
    async with aconnect(sys.argv[1]) as ledger:
        return await ledger.add(5)


with connect(sys.argv[1]) as ledger:
    assert ledger.add(7, datetime.date(2020, 1, 1)) == 1
    assert ledger.many([1], 2, three=3) == {"amounts": [7, 1, 2, 3]}
    assert ledger.total() == 13.0
    assert ledger.total(kind="count") == 4
    assert ledger.bare("a", "b") == "ab"
    assert len(ledger) == 4
    first: int = quorate.submit(ledger.add, 4).result()
    assert first == 5
    assert ledger.whose() == quorate.label()
assert asyncio.run(later()) == 6
try:
    Ledger().total()
except TypeError as error:
    assert "call it on what connect() or aconnect() gives" in str(error)
else:
    raise AssertionError("the class itself executed a method")
assert "ledger" not in sys.modules
"""


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "ledger.py").write_text(LEDGER)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "ledger", raising=False)
    assert _commands.main(["proxy", "ledger:Ledger", "--out", "ledger_client.py"]) == 0
    return tmp_path


def test_a_written_client_runs_against_a_group_without_the_class(shop: Path) -> None:
    (shop / "client").mkdir()
    (shop / "ledger_client.py").rename(shop / "client/ledger_client.py")
    (shop / "client/user.py").write_text(USER)
    with _local.start_group("ledger:Ledger", ["--port", "0", "--nodes", "1"], shop) as ready:
        command = [sys.executable, "user.py", ready["endpoint"]]
        ran = subprocess.run(command, cwd=shop / "client", capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr


def test_a_client_that_cannot_be_written_or_read_is_told_with_its_file(
    shop: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for code, words in ((1, ["--out", "nowhere/client.py"]), (2, ["--out", str(shop), "--check"])):
        assert _commands.main(["proxy", "ledger:Ledger", *words]) == code
        told = capsys.readouterr().err
        assert told.startswith(f"quorate: {words[1]} cannot be "), told
        assert "name another file with --out" in told


def test_strict_checkers_accept_a_written_client_and_its_user(shop: Path) -> None:
    (shop / "user.py").write_text(USER)
    command = [sys.executable, "-m", "mypy", "--strict", "ledger_client.py", "user.py"]
    told = subprocess.run(command, cwd=shop, capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stdout


TYPED_USER = """
from ledger_client import aconnect, connect

import quorate

with connect("quorate://a:1") as ledger:
    reveal_type(ledger.add(7))
    reveal_type(quorate.gather(quorate.submit(ledger.add, 7)))
    reveal_type(ledger.newest)
    ledger.add("seven")
    ledger.total("mean")
    quorate.submit(ledger.add, "seven")


async def later() -> None:
    async with aconnect("quorate://a:1") as ledger:
        reveal_type(await ledger.add(7))
        reveal_type(await ledger.newest)
        count, total = await quorate.agather(ledger.add(7), ledger.total())
        reveal_type(count)
        reveal_type(total)
        await ledger.add("seven")
        await quorate.agather(ledger.add(at=7))
"""
WRONG = (
    'ledger.add("seven")',
    'ledger.total("mean")',
    'quorate.submit(ledger.add, "seven")',
    'await ledger.add("seven")',
    "await quorate.agather(ledger.add(at=7))",
)
REVEALED = ["int", "list[int]", "int", "int", "int", "int", "float | None"]


def test_mypy_sees_the_class_through_a_written_client_also_in_asyncio(shop: Path) -> None:
    (shop / "user.py").write_text(TYPED_USER)
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "user.py"]
    told = subprocess.run(command, cwd=shop, capture_output=True, text=True, check=False).stdout.splitlines()
    revealed = [line.split('"')[1].replace("builtins.", "") for line in told if "Revealed type" in line]
    assert revealed == REVEALED, told
    lines = TYPED_USER.splitlines()
    wrong = [lines[int(line.split(":")[1]) - 1].strip() for line in told if "error:" in line]
    assert list(dict.fromkeys(wrong)) == list(WRONG), told


def test_pyright_sees_the_class_through_a_written_client_also_in_asyncio(shop: Path) -> None:
    (shop / "user.py").write_text(TYPED_USER)
    told = type_checkers.pyright(shop, "ledger_client.py", "user.py")
    assert told.revealed == REVEALED, told
    assert list(dict.fromkeys(line for _, line in told.errors)) == list(WRONG), told


def test_pyright_has_nothing_against_a_written_client_and_its_user(shop: Path) -> None:
    (shop / "user.py").write_text(USER)
    assert type_checkers.pyright(shop, "ledger_client.py", "user.py") == type_checkers.Told()


def test_a_written_client_copies_signatures_and_leaves_open_what_is_foreign(shop: Path) -> None:
    text = (shop / "ledger_client.py").read_text()
    for line in (
        "def add(self, amount: int, /, at: datetime.date | None = None, *, note: str = 'a \"note\"') -> int:",
        "async def total(self, kind: typing.Literal['sum', 'count'] = 'sum', scale: float = 1.0) "
        "-> float | None:",
        "def entry(self, entry: Any, absent: Any, start: Any = ..., bare: Any = ...) -> Any:",
        "def bare(self, a: Any, b: Any = 2) -> Any:",
        "The count comes back.",
        "def newest(self) -> collections.abc.Awaitable[int]:",
    ):
        assert line in text, text
    assert text.count("@quorate.readonly") == 2
    assert "import ledger" not in text


def test_a_check_shows_what_is_stale_and_changes_nothing(
    shop: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["proxy", "ledger:Ledger", "--out", "ledger_client.py", "--check"]
    assert _commands.main(words) == 0
    assert capsys.readouterr().out == ""
    stale = (shop / "ledger_client.py").read_text().replace("amount: int", "amount: float")
    (shop / "ledger_client.py").write_text(stale)
    assert _commands.main(words) == 1
    told = capsys.readouterr().out
    assert "-    def add(self, amount: float" in told
    assert "+    def add(self, amount: int" in told
    assert (shop / "ledger_client.py").read_text() == stale


def test_the_command_writes_what_its_python_half_writes(shop: Path) -> None:
    words = ["proxy", "ledger:Ledger", "--python", sys.executable]
    told = subprocess.run([_local.program(), *words], capture_output=True, text=True, check=True)
    assert told.stdout == (shop / "ledger_client.py").read_text()
    stale = [*words, "--out", "absent.py", "--check"]
    assert subprocess.run([_local.program(), *stale], capture_output=True, check=False).returncode == 1
