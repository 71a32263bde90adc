"""`quorate lab list | run | report`: figures of the papers, measured on this machine.

`quorate lab` runs this in a checkout. Data goes to stdout, everything else to stderr. `run` ends with 1 when
an acknowledged call is lost, in the long form also when the paper's shape does not hold.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from failure import NOT_FOUND, LabFailure

if TYPE_CHECKING:
    from experiment import Experiment
    from results import Result

ROOT = Path(__file__).resolve().parents[2]
EXPERIMENTS = ROOT / "lab" / "experiments"
OUT = Path("out/lab")
PATHS = (EXPERIMENTS, EXPERIMENTS / "objects", ROOT / "lab" / "nemesis", ROOT / "examples")
"""Where experiments, their objects, and the lab's groups of processes are imported from."""


def main(arguments: list[str] | None = None) -> int:
    """Run a command; returns the exit code."""
    options = parser().parse_args(arguments)
    as_json = options.output == "json"
    try:
        prepare_imports()
        if options.command == "list":
            return list_experiments(as_json)
        if options.command == "report":
            return report(options.out, as_json)
        names = known_names() if options.all else options.names
        return run(names, options.short, options.out, as_json)
    except LabFailure as failure:
        print(failure.document() if as_json else failure.text(), file=sys.stderr)
        return failure.code
    except BrokenPipeError:
        # Who reads has seen enough; nothing is left to be flushed at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


def parser() -> argparse.ArgumentParser:
    """The command line, as `quorate lab` writes it."""
    whole = argparse.ArgumentParser(prog="quorate lab", description=__doc__)
    whole.add_argument("--output", choices=("table", "json"), default="table")
    commands = whole.add_subparsers(dest="command", required=True)
    commands.add_parser("list")
    running = commands.add_parser("run")
    running.add_argument("names", nargs="*")
    running.add_argument("--all", action="store_true")
    running.add_argument("--short", action="store_true")
    for command in (running, commands.add_parser("report")):
        command.add_argument("--out", type=Path, default=OUT)
    return whole


def prepare_imports() -> None:
    """Let experiments be found, and say so when the package is not."""
    for path in PATHS:
        if str(path) not in sys.path:
            sys.path.append(str(path))
    try:
        importlib.import_module("quorate")
    except ImportError as error:
        raise LabFailure(
            f"{sys.executable} cannot import the package quorate: {error}",
            "use the .venv of `make build`, or name another interpreter with --python",
        ) from error


def known_names() -> list[str]:
    """The experiments: modules of lab/experiments, with hyphens."""
    return sorted(path.stem.replace("_", "-") for path in EXPERIMENTS.glob("*.py"))


def find(name: str) -> Experiment:
    """An experiment by name."""
    if name not in known_names():
        raise LabFailure(
            f"there is no experiment {name!r}", f"there are {', '.join(known_names())}", NOT_FOUND
        )
    found: Experiment = importlib.import_module(name.replace("-", "_")).EXPERIMENT
    return found


def list_experiments(as_json: bool) -> int:
    """What there is."""
    found = {name: find(name) for name in known_names()}
    if as_json:
        rows = [
            {
                "experiment": name,
                "paper": each.paper,
                "title": each.title,
                "references": [{"figure": ref.figure, "says": ref.says} for ref in each.references],
            }
            for name, each in found.items()
        ]
        print(json.dumps(rows))
        return 0
    width = max(map(len, found))
    print(f"{'EXPERIMENT'.ljust(width)}  WHAT IT MEASURES")
    for name, each in found.items():
        print(f"{name.ljust(width)}  {each.title} ({each.paper}, {each.figures})")
    return 0


def run(names: list[str], is_short: bool, out: Path, as_json: bool) -> int:
    """Run experiments, one after the other; a name that is unknown stops all before anything starts."""
    from measuring import measure, require_matplotlib

    found = {name: find(name) for name in names}
    require_matplotlib()
    ended = [measure(name, each, is_short, out) for name, each in found.items()]
    if as_json:
        print(json.dumps([each.document() for each in ended]))
    else:
        for each in ended:
            print_result(each)
    return int(any(each.verdict["losses"] or not (is_short or each.verdict["holds"]) for each in ended))


def report(out: Path, as_json: bool) -> int:
    """What the last runs have measured."""
    from results import results

    found = results(out, known_names())
    if as_json:
        print(json.dumps([each.document() for each in found]))
        return 0
    for each in found:
        print_result(each)
    return 0


def print_result(result: Result) -> None:
    """A run for people."""
    said = "the paper's shape holds" if result.verdict["holds"] else "the paper's shape DOES NOT HOLD"
    failed = "FAIL"
    if result.form == "short":
        said, failed = "too few calls to judge the paper's shape", "off "
    print(f"{result.experiment} ({result.form} form, {result.seconds:.0f} s): {said}")
    for check in result.verdict["checks"]:
        print(f"  {'ok  ' if check['holds'] else failed}  {check['claim']} ({check['figure']})")
        print(f"          paper: {check['paper']}")
        print(f"          here:  {check['here']}")
    for loss in result.verdict["losses"]:
        print(f"  LOST  {loss}")
    if not result.verdict["losses"]:
        print("  ok    every acknowledged call stands exactly once on every replica")
    for path in result.paths():
        print(f"  {path}")


if __name__ == "__main__":
    # As Ctrl-C does: groups end, and their directories go.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    sys.exit(main())
