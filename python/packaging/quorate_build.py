"""Builds what people install: the wheel with the program `quorate` in it, and the source distribution.

maturin builds the wheel of the native half from python/pyproject.toml. It knows either a library or a
program, so the program is built first and handed to it as a script. `make build` and `make wheel` run this
file, `pip install .` calls its functions. Needs cargo, a C compiler and binutils; the wheel needs none of
them. It tests nothing: test_wheel.py does.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PYTHON = ROOT / "python"
# Where maturin looks for what goes into the `.data` of the wheel.
DATA = PYTHON / "quorate._native.data"
PROGRAM = "quorate"


def main() -> None:
    """Build from the command line: the wheel, and the source distribution when it is asked for."""
    parser = argparse.ArgumentParser(description="build the wheel, with the program in it")
    parser.add_argument("--profile", default="release", help="cargo's profile: release or dev")
    parser.add_argument("--program", help="the program, when it is built already")
    parser.add_argument("--out", type=Path, required=True, help="where the files go")
    parser.add_argument("--sdist", action="store_true", help="build the source distribution too")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    # One directory holds one version: `pip install DIRECTORY/*.whl` then has one meaning.
    for old in [*args.out.glob("quorate-*.whl"), *args.out.glob("quorate-*.tar.gz")]:
        old.unlink()
    settings = {"profile": args.profile, "program": args.program}
    print(args.out / build_wheel(str(args.out), settings))
    if args.sdist:
        print(args.out / build_sdist(str(args.out)))


def build_wheel(
    wheel_directory: str,
    config_settings: dict[str, Any] | None = None,
    metadata_directory: str | None = None,
) -> str:
    """The wheel's file name; called by pip, and by `main`."""
    settings = config_settings or {}
    profile = settings.get("profile") or "release"
    program = settings.get("program") or build_program(profile)
    out = Path(wheel_directory).resolve()
    scripts = DATA / "scripts"
    scripts.mkdir(parents=True, exist_ok=True)
    try:
        # Names of functions stay, for the backtrace of a panic.
        subprocess.run(["strip", "--strip-debug", "-o", scripts / PROGRAM, program], check=True)
        interpreter = ["--interpreter", sys.executable]
        maturin("build", "--profile", profile, *interpreter, "--out", str(out))
    finally:
        shutil.rmtree(DATA)
    (wheel,) = out.glob("quorate-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        if not any(name.endswith(f".data/scripts/{PROGRAM}") for name in archive.namelist()):
            raise SystemExit(f"{wheel} lacks the program {PROGRAM}: maturin did not take it from {DATA}")
    return wheel.name


def build_program(profile: str) -> Path:
    """Compiles `quorate`; gives the path of the program."""
    cargo = os.environ.get("CARGO", "cargo")
    command = [cargo, "build", "--profile", profile, "--package", PROGRAM, "--message-format=json"]
    # Compilers speak on stderr; stdout names what was made.
    made = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout
    artifacts = [json.loads(line) for line in made.splitlines() if line.startswith("{")]
    found = [artifact["executable"] for artifact in artifacts if artifact.get("executable")]
    return Path(found[-1])


def prepare_metadata_for_build_wheel(
    metadata_directory: str, config_settings: dict[str, Any] | None = None
) -> str:
    """Writes the metadata without compiling; gives the name of its directory."""
    maturin("pep517", "write-dist-info", "--metadata-directory", str(Path(metadata_directory).resolve()))
    (made,) = Path(metadata_directory).glob("quorate-*.dist-info")
    return made.name


def build_sdist(sdist_directory: str, config_settings: dict[str, Any] | None = None) -> str:
    """The file name of the source distribution: all that git tracks, since the wheel is built from it."""
    with tempfile.TemporaryDirectory() as directory:
        made = prepare_metadata_for_build_wheel(directory)
        metadata = Path(directory, made, "METADATA").read_bytes()
    stem = made.removesuffix(".dist-info")
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    sdist = Path(sdist_directory) / f"{stem}.tar.gz"
    with tarfile.open(sdist, "w:gz", format=tarfile.PAX_FORMAT) as archive:
        tracked = [ROOT / path for path in listing.stdout.split("\0")[:-1]]
        # What is deleted and not committed yet is no part of the sources.
        for path in [path for path in tracked if os.path.lexists(path)]:
            archive.add(path, f"{stem}/{path.relative_to(ROOT)}", recursive=False)
        told = tarfile.TarInfo(f"{stem}/PKG-INFO")
        told.size = len(metadata)
        archive.addfile(told, io.BytesIO(metadata))
    return sdist.name


def maturin(*words: str) -> None:
    """Runs the maturin of this interpreter where the package is described; what it says goes to stderr."""
    command = [sys.executable, "-m", "maturin", *words]
    subprocess.run(command, cwd=PYTHON, stdout=sys.stderr, check=True)


if __name__ == "__main__":
    main()
