"""The wheel alone in an empty environment: no cargo, no checkout, nothing of the caller's environment.

Run by `make wheel-test`, which builds the wheel and says in QUORATE_WHEELS where it is.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest
import test_readme

ROOT = Path(__file__).resolve().parents[2]
WHEELS = Path(os.environ.get("QUORATE_WHEELS", ROOT / "target/wheels"))
VERSION = re.search(r'^version = "(.*)"', (ROOT / "Cargo.toml").read_text(), re.MULTILINE)


@pytest.fixture(scope="module")
def wheel() -> Path:
    """The wheel that was built last."""
    (found,) = WHEELS.glob("quorate-*.whl")
    return found


@pytest.fixture(scope="module")
def home(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with the wheel and what it depends on."""
    shelf, home = tmp_path_factory.mktemp("shelf"), tmp_path_factory.mktemp("home")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    # The one dependency comes from wherever the caller's pip finds packages; what follows asks nobody.
    needed = re.findall(
        r'^dependencies = \["(.*)"\]', (ROOT / "python/pyproject.toml").read_text(), re.MULTILINE
    )
    subprocess.run([*pip, "download", "--no-deps", "--dest", shelf, *needed], check=True)
    venv.create(home, with_pip=True)
    offline = ["--no-index", "--find-links", str(shelf)]
    run(home, "python", "-m", "pip", "install", "--quiet", *offline, str(wheel), folder=shelf)
    return home


def environment(home: Path) -> dict[str, str]:
    """What a program of the environment sees: as after `env -i`, with the system's programs and its own."""
    return {"PATH": f"{home / 'bin'}:/usr/bin:/bin", "HOME": str(home), "LANG": "C.UTF-8"}


def run(home: Path, program: str, *words: str, folder: Path) -> str:
    """What a program of the environment prints."""
    ran = subprocess.run(
        [home / "bin" / program, *words],
        env=environment(home),
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, f"{program} {words}: {ran.stderr}"
    return ran.stdout


def test_the_program_and_the_package_are_of_one_version(home: Path, tmp_path: Path) -> None:
    assert VERSION
    of_program = run(home, "quorate", "--version", folder=tmp_path)
    assert of_program == f"quorate {VERSION[1]}\n"
    assert run(home, "python", "-m", "quorate", "--version", folder=tmp_path) == of_program
    asked = "import quorate, importlib.metadata as m; print(quorate.__version__, m.version('quorate'))"
    assert run(home, "python", "-c", asked, folder=tmp_path).split() == [VERSION[1]] * 2


def test_the_readme_example_runs_from_the_wheel_alone(home: Path, tmp_path: Path) -> None:
    test_readme.follow(tmp_path, home / "bin/quorate", home / "bin/python", environment(home))


LOCAL = """
import quorate
from bank import Account

with quorate.local(Account, "A-1", balance=100, nodes=1) as account:
    print(account.deposit(10))
"""


def test_a_group_for_tests_finds_its_program_without_a_path(home: Path, tmp_path: Path) -> None:
    (tmp_path / "bank.py").write_text(test_readme.blocks()["bank.py"])
    (tmp_path / "test.py").write_text(LOCAL)
    command = [str(home / "bin/python"), "test.py"]
    ran = subprocess.run(command, env={}, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.stdout == "110\n", ran.stderr


def test_the_program_needs_no_newer_system_than_the_wheel_says(wheel: Path) -> None:
    said = re.search(r"manylinux_2_(\d+)_", wheel.name)
    assert said, f"{wheel.name} is for no system but this one"
    with zipfile.ZipFile(wheel) as archive:
        binaries = [name for name in archive.namelist() if name.endswith((".so", "scripts/quorate"))]
        assert len(binaries) == 2
        for name in binaries:
            wants = [int(minor) for minor in re.findall(rb"GLIBC_2\.(\d+)", archive.read(name))]
            assert max(wants) <= int(said[1]), name


def test_the_wheel_loads_on_later_versions_of_python_and_holds_no_tests(wheel: Path) -> None:
    assert "-cp311-abi3-" in wheel.name
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (about,) = [name for name in names if name.endswith(".dist-info/METADATA")]
        metadata = archive.read(about).decode()
    assert {"quorate/py.typed", "quorate/__main__.py", "quorate/_native.abi3.so"} <= set(names)
    assert any(name.endswith("/licenses/LICENSE") for name in names)
    assert "quorate/testing.py" in names, "users test their classes with it"
    own = re.compile(r"(^|/)(tests?/|test_|conftest|packaging/)")
    assert not [name for name in names if own.search(name)]
    assert "License-Expression: Apache-2.0" in metadata
    assert "Operating System :: POSIX :: Linux" in metadata
    assert "Project-URL: Source" in metadata
    assert "$ pip install quorate" in metadata


def test_the_source_distribution_holds_what_builds_the_wheel() -> None:
    (sdist,) = WHEELS.glob("quorate-*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    wanted = ["PKG-INFO", "pyproject.toml", "Cargo.lock", "shell/cli/src/main.rs", "python/LICENSE"]
    assert set(wanted) <= names
    assert not [name for name in names if name.startswith(("target/", ".venv"))]
