"""`quorate check` and `quorate lint` find planted faults, and do not complain of sound classes."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import planted_faults
import pytest
import sound_classes

import quorate
from quorate import _check, _commands, _guesses, _lint, _local

HERE = str(Path(__file__).parent)
BANK = """
from shop import lazy

class Account:
    def __init__(self, owner: str = "A", balance: int = 0) -> None:
        self.balance, self.name = balance, owner

    def deposit(self, amount: int) -> None:
        self.balance += amount

    def read(self) -> int:
        return self.balance

    def owner(self) -> str:
        return self.name
"""
HOOKED = """
SEEN = []

class Lazy:
    def __getattribute__(self, name):
        SEEN.append(name)
        return object.__getattribute__(self, name)
"""
SOUND = [cls.__name__ for cls in sound_classes.SOUND]
RULES = [(name, method, rule) for name, (method, rule) in planted_faults.FAULTS.items() if rule]
UNREAD = [name for name, _, rule in RULES if rule != "locale"]
"""Faults that lint knows, and that show when the class runs too."""


def plan(path: str, **more: Any) -> _check.Plan:
    return _check.Plan(path, [HERE], **{"calls": 80, "restores": 1, **more})


@pytest.fixture(scope="module")
def reports() -> Callable[[str], _check.Report]:
    """Reports by class, three checks at a time: each is a handful of processes, and waits a second."""
    plans = {name: plan(f"planted_faults:{name}") for name in planted_faults.FAULTS}
    plans |= {name: plan(f"sound_classes:{name}") for name in SOUND}
    plans |= {f"{name} unread": plan(f"planted_faults:{name}", reads_source=False) for name in UNREAD}
    with ThreadPoolExecutor(3) as pool:
        found = dict(zip(plans, pool.map(_check.check, plans.values()), strict=True))
    return found.__getitem__


@pytest.mark.parametrize("name", planted_faults.FAULTS)
def test_a_planted_fault_is_found_with_its_line(name: str, reports: Callable[[str], _check.Report]) -> None:
    method, _ = planted_faults.FAULTS[name]
    found = [each for each in reports(name).found if each.function == f"{name}.{method}"]
    assert found, reports(name).found
    assert all(each.file.endswith("planted_faults.py") and each.line > 0 for each in found)


@pytest.mark.parametrize("name", UNREAD)
def test_running_the_class_alone_finds_the_fault_too(
    name: str, reports: Callable[[str], _check.Report]
) -> None:
    method, _ = planted_faults.FAULTS[name]
    report = reports(f"{name} unread")
    assert [each for each in report.found if each.function == f"{name}.{method}"], report.found


@pytest.mark.parametrize("name", SOUND)
def test_a_sound_class_gives_no_alarm(name: str, reports: Callable[[str], _check.Report]) -> None:
    report = reports(name)
    assert report.found == []
    assert all(method.calls and not method.unguessed for method in report.methods), report.methods


@pytest.mark.parametrize(("name", "method", "rule"), RULES)
def test_lint_finds_the_fault_in_the_source(name: str, method: str, rule: str) -> None:
    found = _lint.lint(getattr(planted_faults, name))
    assert [each.rule for each in found] == [rule]
    assert found[0].function == f"{name}.{method}"


@pytest.mark.parametrize("name", SOUND)
def test_lint_does_not_complain_of_a_sound_class(name: str) -> None:
    assert _lint.lint(getattr(sound_classes, name)) == []


def test_methods_that_end_the_process_or_never_return_are_named_and_left_out() -> None:
    report = _check.check(plan("odd_classes:Odd", calls=40))
    rules = {each.function: each.rule for each in report.found}
    assert rules == {"Odd.end": "ends", "Odd.spin": "endless", "Odd.lock": "travels"}
    rows = {method.name: method for method in report.methods}
    assert rows["count"].calls > 0
    assert rows["lock"].cells()[2] == "NO"
    assert "Callable" in rows["apply"].unguessed


def test_methods_that_hear_no_signal_are_named_and_the_others_are_checked() -> None:
    report = _check.check(plan("odd_classes:Endless", calls=40))
    assert {each.function: each.rule for each in report.found} == {
        "Endless.in_c": "endless",
        "Endless.stubborn": "endless",
    }
    assert all("loops in C" in each.reason and each.line > 0 for each in report.found)
    rows = {method.name: method.cells() for method in report.methods}
    assert rows["in_c"][-1] == rows["stubborn"][-1] == "does not end"
    assert rows["count"][:-1] == ["count", "no", "yes", "yes", "yes"]


def test_a_check_that_is_killed_leaves_no_process() -> None:
    package = str(Path(quorate.__file__).parent.parent)
    # A loaded machine gives the loop little time: nothing but the end of the check is to end it.
    patience = "_trials.Answers.__init__.__kwdefaults__['call_seconds'] = 600.0"
    script = (
        f"from quorate import _commands, _trials; {patience}; _commands.main(['check', 'odd_classes:OnlyC'])"
    )
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, cwd=HERE, env={**os.environ, "PYTHONPATH": package}) as check:
        children = Path(f"/proc/{check.pid}/task/{check.pid}/children")
        # The first one imports the module, and ends.
        while not (pids := [pid for pid in children.read_text().split() if is_trial(pid)]):
            assert check.poll() is None
        child = os.pidfd_open(int(pids[0]))
        # So much time is spent in the loop only.
        while cpu_seconds(int(pids[0])) < 1.0:
            assert not select.select([child], [], [], 0.05)[0], "the check has ended it before"
        check.kill()
    try:
        assert select.select([child], [], [], 30.0)[0], "the process of the check goes on"
    finally:
        os.close(child)


def is_trial(process: str) -> bool:
    try:
        return b"quorate._trial" in Path(f"/proc/{process}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return False


def cpu_seconds(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) / os.sysconf("SC_CLK_TCK")


def test_a_state_that_cannot_be_kept_is_said_with_the_reason() -> None:
    report = _check.check(plan("odd_classes:Filed", reads_source=False))
    assert [(each.function, each.rule) for each in report.found] == [("Filed.__init__", "state")]
    assert "the state is not kept: self.file: TextIOWrapper" in report.found[0].reason
    rows = {method.name: method.cells() for method in report.methods}
    assert [rows[name][4] for name in ("add", "count")] == ["NO", "NO"]
    assert "changed nothing" not in rows["add"][1]


def test_a_state_that_a_method_makes_unfit_is_said_with_the_method() -> None:
    report = _check.check(plan("odd_classes:Opening"))
    assert [(each.function, each.rule) for each in report.found] == [("Opening.open", "state")]
    assert "the state that `open` leaves is not kept: self.held[0]" in report.found[0].reason


def test_a_method_that_assigns_a_variable_of_its_module_is_not_advised_to_be_a_read() -> None:
    ended = run("check", "odd_classes:Counted")
    names = ("seen", "total", "shown")
    said = {name: [line for line in ended.stdout.splitlines() if name in line] for name in names}
    assert not any("@quorate.readonly" in line for name in ("seen", "total") for line in said[name])
    assert any("is no part of the object" in line for line in said["seen"]), ended.stdout
    assert any("a variable of a module is no part" in line for line in said["total"]), ended.stdout
    assert any("@quorate.readonly" in line for line in said["shown"]), ended.stdout


def run(*words: str) -> subprocess.CompletedProcess[str]:
    package = str(Path(quorate.__file__).parent.parent)
    environment = {**os.environ, "PYTHONPATH": package}
    command = [sys.executable, "-m", "quorate._commands", *words]
    return subprocess.run(command, cwd=HERE, env=environment, capture_output=True, text=True, check=False)


def test_the_calls_of_a_file_come_first(tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    calls.write_text('["open", "sesame"]\n{"method": "open", "kwargs": {"word": "sesame"}}\n')
    ended = run("check", "odd_classes:Guarded", "--calls", str(calls), "--short", "-o", "json")
    method = json.loads(ended.stdout)["methods"][0]
    assert method["changed"] >= 2
    calls.write_text("open\n")
    ended = run("check", "odd_classes:Guarded", "--calls", str(calls))
    assert ended.returncode == 2
    assert "calls:1: a call is a JSON list" in ended.stderr


def test_the_exit_code_tells_problems_from_wrong_words() -> None:
    assert run("check", "sound_classes:Dice", "--short").returncode == 0
    ended = run("check", "planted_faults:Ticket", "--short", "-o", "json")
    assert ended.returncode == 1
    assert {each["rule"] for each in json.loads(ended.stdout)["found"]} == {"kept", "outside"}
    assert run("lint", "planted_faults:Queue").returncode == 1
    assert run("lint", "planted_faults:Journal").returncode == 0, "a note is no problem"
    wrong = run("check", "sound_classes:Dice", "--args", "A-1").stderr
    assert "write for example --args '[\"A-1\", 100]'; text is in double quotes" in wrong
    for words in (["check", "nowhere:Dice"], ["check", "sound_classes:Dice", "--args", "3"], ["check"]):
        assert run(*words).returncode == 2


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("nowhere:Dice", "there is no module 'nowhere'"),
        ("odd_targets", "is not MODULE:CLASS"),
        ("odd_targets:Absent", "has no class 'Absent'; its classes: "),
        ("odd_targets:twice", "has no class 'twice': it is a function; its classes: "),
        ("odd_targets:THREE", "has no class 'THREE': it is a int; its classes: "),
        ("odd_targets.py:Box", "name it without its file, as in odd_targets:Box"),
        ("./odd_targets:Box", "name it without its file, as in odd_targets:Box"),
        ("raising:X", "importing 'raising' raised RuntimeError: at import"),
        ("lacking:X", "needs 'nowhere_at_all', which is not installed for "),
        ("rust:counter", "is built in, and is no class of Python"),
    ],
)
def test_what_is_no_class_is_refused_with_the_reason(
    target: str,
    said: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "raising.py").write_text('raise RuntimeError("at import")')
    (tmp_path / "lacking.py").write_text("import nowhere_at_all")
    monkeypatch.chdir(tmp_path)
    for command in (["lint"], ["check", "--short"]):
        assert _commands.main([*command, target]) == 2
        assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("Choosy", "raised ValueError: port 7400, not"),
        ("Unguessed", "no Callable can be made up: see --args and --kwargs"),
        ("Abstract", "Can't instantiate abstract class Abstract"),
        ("Leaving", "raised SystemExit: 3"),
        ("Factory", "made a builtins.int: replicate what it is to make"),
    ],
)
def test_a_class_that_cannot_be_made_is_refused_with_the_reason(
    name: str, said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(HERE)
    assert _commands.main(["check", "--short", f"odd_targets:{name}"]) == 1
    assert said in capsys.readouterr().err


def test_a_check_that_called_nothing_says_so_and_reasons_are_sentences(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(HERE)
    assert _commands.main(["check", "odd_targets:OnlySpecial"]) == 0
    assert "nothing was called" in capsys.readouterr().out
    assert _check.because("`data` may run code") == "`data` may run code"
    assert _check.because("calls `print`") == "it calls `print`"


def test_a_special_method_of_another_class_that_stands_against_all_proofs_is_named_once(
    tmp_path: Path,
) -> None:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "__init__.py").touch()
    (tmp_path / "shop" / "lazy.py").write_text(HOOKED)
    (tmp_path / "shop" / "bank.py").write_text(BANK)
    words = [sys.executable, "-m", "quorate", "check", "shop.bank:Account"]
    environment = {**os.environ, "PYTHONPATH": str(Path(quorate.__file__).parent.parent)}
    told = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stderr
    named = [line for line in told.stdout.splitlines() if "Lazy.__getattribute__" in line]
    assert len(named) == 1, told.stdout
    assert named[0].startswith("shop/lazy.py:5: note: `Lazy.__getattribute__` may run in every method")
    assert "calls `SEEN.append(name)`" in named[0]
    assert "calls of `owner`, `read` of Account are ordered, though they changed nothing" in named[0]
    assert "nothing found" not in told.stdout and "read changed nothing" not in told.stdout


def test_a_class_with_type_arguments_and_a_factory_of_a_subclass_are_checked(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(HERE)
    for name in ("Box[int]", "Numbers", "Chooser", "Guessed"):
        assert _commands.main(["check", "--short", f"odd_targets:{name}"]) == 0, capsys.readouterr()


def test_errors_are_objects_where_json_is_asked_for() -> None:
    for words, code, error in (
        (["nowhere:Dice"], 2, "usage"),
        (["sound_classes:Dice", "--args", "[1, 2, 3]"], 1, "failed"),
    ):
        ended = run("check", *words, "-o", "json")
        told = json.loads(ended.stderr)
        assert (ended.returncode, told["error"], told["exit_code"]) == (code, error, code)
        assert told["message"] and told["advice"]


def test_an_interpreter_without_the_package_is_named(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" -I -S "$@"\n')
    python.chmod(0o755)
    for command in ("check", "lint", "proxy"):
        words = [_local.program(), command, "sound_classes:Dice", "--python", str(python)]
        ended = subprocess.run(words, cwd=HERE, capture_output=True, text=True, check=False)
        assert ended.returncode == 1
        assert ended.stderr.startswith("quorate: the package quorate is not installed for ")


def test_the_program_has_both_commands() -> None:
    for words in (["lint", "planted_faults:Queue"], ["check", "--short", "planted_faults:Ticket"]):
        package = str(Path(quorate.__file__).parent.parent)
        environment = {**os.environ, "QUORATE_PYTHON": sys.executable, "PYTHONPATH": package}
        for program in ([_local.program()], [sys.executable, "-m", "quorate"]):
            ended = subprocess.run(
                [*program, *words, "-o", "json"],
                cwd=HERE,
                env=environment,
                capture_output=True,
                text=True,
                check=False,
            )
            assert ended.returncode == 1, ended.stderr
            assert json.loads(ended.stdout)["found"]


@pytest.mark.parametrize(("more", "warns"), [([], True), (["--no-check"], False)])
def test_up_warns_of_the_problems_of_a_new_class(more: list[str], warns: bool) -> None:
    environment = {**os.environ, "QUORATE_PYTHON": sys.executable}
    command = [_local.program(), "up", "planted_faults:Forgetful", "--port", "0", "--nodes", "1", *more]
    with subprocess.Popen(
        command, cwd=HERE, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as group:
        assert group.stdout is not None
        assert group.stderr is not None
        assert group.stdout.readline().startswith("quorate://")
        first = group.stderr.readline() if warns else ""
        group.terminate()
        _, rest = group.communicate(timeout=60)
    assert ("after a restore `history`" in first + rest) == warns


def test_the_same_seed_makes_the_same_arguments() -> None:
    def method(amount: int, name: str | None, tags: list[str], *, colour: sound_classes.Colour) -> None: ...

    first, again = ([guesser.arguments(method) for _ in range(20)] for guesser in _guessers())
    assert first == again
    assert {type(positional[0]) for positional, _ in first} == {int}
    assert {type(positional[1]) for positional, _ in first} == {str, type(None)}
    assert all(isinstance(named["colour"], sound_classes.Colour) for _, named in first)


class Seat(NamedTuple):
    row: int
    name: str
    price: float = 1.0


def test_fields_of_a_named_tuple_get_values_of_their_kinds() -> None:
    def method(seat: Seat) -> None: ...

    made = [guesser.arguments(method)[0][0] for guesser in _guessers() for _ in range(20)]
    kinds = {(type(seat.row), type(seat.name), type(seat.price)) for seat in made}
    assert kinds == {(int, str, float)}


def _guessers() -> list[_guesses.Guesser]:
    return [_guesses.Guesser(5), _guesses.Guesser(5)]
