"""One run of an experiment: measure, draw, judge, and write all of it down."""

from __future__ import annotations

import importlib.util
import subprocess
import time
from pathlib import Path
from typing import Any

from quorate import QuorateError
from quorate._local import program
from quorate._progress import Progress

from bar import Bar
from drawing import Drawing
from experiment import Experiment, Record, verdict_of
from failure import LabFailure
from results import Measurements, Result, place, result_of
from stage import Stage
from waiting import NeverHappened

NODES = "nodes"
"""The directory, below the results, of the group that runs."""


def require_matplotlib() -> None:
    """Fail before anything is measured that could not be drawn."""
    if importlib.util.find_spec("matplotlib") is None:
        raise LabFailure(
            "the lab draws with matplotlib, which this Python does not have",
            "install it with `python -m pip install matplotlib`, or use the .venv of `make venv`",
        )


def measure(name: str, experiment: Experiment, is_short: bool, out: Path) -> Result:
    """Run an experiment; the results of the run before stay until it has ended."""
    form = "short" if is_short else "long"
    directory = out.resolve() / name / form
    began = time.monotonic()
    with Measurements(directory) as measurements:
        measurements.add("run", {"experiment": name, "form": form, "version": version(), **place()})
        records: list[Record] = []
        try:
            with Progress() as line:
                for record in experiment.measure(Stage(directory / NODES, is_short, Bar(name, line))):
                    measurements.add("record", record)
                    records.append(record)
        except (NeverHappened, QuorateError, OSError) as error:
            where = f"look at the nodes' logs in {directory / NODES}"
            raise LabFailure(f"{name} could not be measured: {error}", where) from error
        drawing = Drawing(directory)
        experiment.draw(records, drawing)
        verdict: dict[str, Any] = verdict_of(experiment, records).document()
        seconds = round(time.monotonic() - began, 1)
        measurements.add("verdict", {**verdict, "pictures": drawing.pictures, "seconds": seconds})
    return result_of(name, form, out / name / form)


def version() -> str:
    """The program under test."""
    told = subprocess.run([program(), "--version"], capture_output=True, text=True, check=False)
    return told.stdout.strip()
