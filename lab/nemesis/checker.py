"""Asks the lab's own history checker whether what clients saw has an order that explains it.

The checker is a program of the simulator's crate; it is built before the lab enters its namespaces.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

CHECK_S = 300
"""A search is bounded by configurations; this only catches a checker that hangs."""

_BUILD = ["build", "--quiet", "-p", "quorate-sim", "--bin", "history"]


def checker() -> str:
    """The program, built if it is not there; `QUORATE_HISTORY` names another."""
    named = os.environ.get("QUORATE_HISTORY")
    if named:
        return named
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    cargo = shutil.which("cargo")
    if cargo is not None:
        subprocess.run([cargo, *_BUILD], cwd=ROOT, check=True)
    program = target / "debug" / "history"
    if not program.exists():
        raise FileNotFoundError(f"{program} is missing and cargo cannot build it")
    return str(program)


def judge(program: str, history: Path) -> tuple[bool, str]:
    """Whether the history is linearizable, and what the checker says."""
    done = subprocess.run(
        [program, "check", str(history)], capture_output=True, text=True, check=False, timeout=CHECK_S
    )
    said = (done.stdout or done.stderr).strip()
    return done.returncode == 0, said
