"""The fixture of the package's pytest plugin, in a pytest of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import quorate

HERE = Path(__file__).parent
PROJECT = tomllib.loads((HERE.parent / "pyproject.toml").read_text())

TESTS = """
from subjects import Wallet

ENDED = []

def test_a_group_answers(quorate_group):
    group = quorate_group(Wallet, 100, nodes=1)
    other = quorate_group("subjects:Wallet", args=[1], nodes=1)
    assert group.proxy.deposit(1) == 101
    assert other.proxy.deposit(1) == 2
    third = quorate_group(Wallet, 5, in_process=True)
    third.kill(third.leader)
    assert third.proxy.deposit(1) == 6
    ENDED.extend([group, other, third])

def test_groups_end_with_their_test():
    assert len(ENDED) == 3
    for group in ENDED:
        try:
            group.proxy
        except Exception as error:
            assert "does not run" in str(error)
        else:
            raise AssertionError("it runs on")
"""


def test_the_fixture_starts_groups_and_ends_them_with_the_test(tmp_path: Path) -> None:
    (tmp_path / "test_groups.py").write_text(TESTS)
    package = str(Path(quorate.__file__).parent.parent)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([package, str(HERE)])}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "quorate._pytest_plugin"]
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "2 passed" in ran.stdout


def test_the_wheel_names_the_plugin_as_pytest_finds_it() -> None:
    # The same name as that of the module: then `-p` and the entry point are one plugin.
    assert PROJECT["project"]["entry-points"]["pytest11"] == {
        "quorate._pytest_plugin": "quorate._pytest_plugin"
    }
