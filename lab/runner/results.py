"""What runs leave: `measurements.jsonl` and pictures, in a directory for each experiment and form.

The first line of the file says what was run and where, the last one is the verdict, and each line between
them is a record of the experiment. The file gets its name when the run is over, so an interrupted run leaves
the one before as it is.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TextIO

from failure import CONFLICT, NOT_FOUND, LabFailure

FILE = "measurements.jsonl"
UNFINISHED = "measurements.unfinished"
FORMS = ("long", "short")


@dataclass(frozen=True)
class Result:
    """One run that has ended."""

    experiment: str
    form: str
    directory: Path
    verdict: dict[str, Any]
    pictures: list[str]
    seconds: float

    def document(self) -> dict[str, Any]:
        """The same as JSON."""
        return {
            "experiment": self.experiment,
            "form": self.form,
            **self.verdict,
            "seconds": self.seconds,
            "measurements": str(self.directory / FILE),
            "pictures": [str(picture) for picture in self.paths()],
        }

    def paths(self) -> Iterator[Path]:
        """The files of the pictures."""
        for name in self.pictures:
            yield self.directory / f"{name}.svg"
            yield self.directory / f"{name}.png"


class Measurements:
    """The file of a run while it is written; one run at a time writes below a directory."""

    def __init__(self, directory: Path) -> None:
        self._unfinished = directory / UNFINISHED
        self._finished = directory / FILE
        try:
            directory.mkdir(parents=True, exist_ok=True)
            self._file: TextIO = self._unfinished.open("a")
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise LabFailure(
                f"another run measures into {directory}", "wait for it, or name another --out", CONFLICT
            ) from error
        except OSError as error:
            raise LabFailure(f"nothing can be written: {error}", "name another --out") from error
        self._file.truncate(0)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()
        if kind is None:
            self._unfinished.rename(self._finished)

    def add(self, kind: str, fields: dict[str, Any]) -> None:
        """One line."""
        self._file.write(json.dumps({"kind": kind, **fields}, separators=(",", ":")) + "\n")
        self._file.flush()


def place() -> dict[str, Any]:
    """What of this machine the measurements depend on."""
    system = os.uname()
    return {"cores": os.cpu_count(), "system": system.sysname, "machine": system.machine}


def results(out: Path, names: list[str]) -> list[Result]:
    """The last run of each experiment and form."""
    found = [
        result_of(name, form, out / name / form)
        for name in names
        for form in FORMS
        if (out / name / form / FILE).is_file()
    ]
    if not found:
        raise LabFailure(
            f"no experiment has been run in {out}", "run one with `quorate lab run NAME`", NOT_FOUND
        )
    return found


def result_of(name: str, form: str, directory: Path) -> Result:
    """The run whose measurements lie there."""
    path = directory / FILE
    try:
        *_, last = path.read_text().splitlines()
        line = json.loads(last)
        verdict = {key: line[key] for key in ("holds", "checks", "losses")}
        return Result(name, form, directory, verdict, line["pictures"], line["seconds"])
    except (ValueError, KeyError, TypeError) as error:
        raise LabFailure(
            f"{path} does not end as the lab writes it ({type(error).__name__})",
            f"remove it, or measure again with `quorate lab run {name}`",
        ) from error
