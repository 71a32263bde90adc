"""Pyright, as the tests ask it."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

PACKAGE = Path(__file__).parent.parent


@dataclass
class Told:
    """The types that a checker was asked for, and each error as its rule and its line of source."""

    revealed: list[str] = field(default_factory=list)
    errors: list[tuple[str, str]] = field(default_factory=list)


def pyright(folder: Path, *files: str) -> Told:
    """Check files of a folder with all rules of pyright."""
    settings = {"typeCheckingMode": "strict", "include": files, "extraPaths": [str(PACKAGE)]}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [sys.executable, "-m", "basedpyright", "--outputjson", "--pythonpath", sys.executable]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    told = Told()
    for each in json.loads(ran.stdout)["generalDiagnostics"]:
        if each["severity"] == "information":
            told.revealed.append(each["message"].rpartition(" is ")[2].strip('"'))
        else:
            line = Path(each["file"]).read_text().splitlines()[each["range"]["start"]["line"]]
            told.errors.append((each.get("rule", ""), line.strip()))
    return told
