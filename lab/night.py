"""`make night`: simulator, zoo, nemesis and fuzzing with fresh seeds, for a given time.

Each part gets a share of the minutes and seeds that no run had before. What fails is kept below
out/night/<date>/: the output, the schedule that the simulator made small, the histories, and in
replay.txt the command that shows each failure again. Ends with 1 when anything failed.

The programs are built before the clock starts; `make night` does that.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SEEDS_AT_ONCE = 40
"""Seeds of one simulator process: a few seconds, so that the end of the time is met."""
GRACE_S = 90.0
"""For what has begun when the time is over: making a failure small, ending a group, judging."""
FEW_SECONDS = 60.0
"""With less, real processes meet a few kinds of faults only."""
FEW_FAULTS = "kill-leader,stop-leader"
ZOO_SEEDS = 1500
"""For each plant: fresh seeds may show it later than those it was tried with."""
FUZZ_TARGETS = ("frame", "message", "record", "snapshot", "value")
SHARES = {"sim": 0.4, "zoo": 0.2, "nemesis": 0.25, "fuzz": 0.15}


@dataclass
class Night:
    """One run: where things are kept, and what failed."""

    directory: Path
    seed: int
    programs: Path
    failures: list[str] = field(default_factory=list)

    def log(self, name: str) -> Path:
        """The file of a part's output."""
        return self.directory / f"{name}.log"

    def failed(self, what: str, replay: str) -> None:
        """Keep the command that shows a failure again."""
        self.failures.append(what)
        with (self.directory / "replay.txt").open("a") as file:
            file.write(f"# {what}\n{replay}\n")
        print(f"FAILED  {what}\n        replay: {replay}", flush=True)


def run(command: list[str], log: Path, seconds: float, **variables: str) -> int | None:
    """Run a command, append what it says to a log; its exit code, None when the time was over."""
    with log.open("ab") as file:
        file.write(f"$ {shlex.join(command)}\n".encode())
        file.flush()
        process = subprocess.Popen(
            command, cwd=ROOT, stdout=file, stderr=file, env={**os.environ, **variables}
        )
        try:
            return process.wait(timeout=max(seconds, 0.1))
        except subprocess.TimeoutExpired:
            process.terminate()
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            return None


def simulate(night: Night, until: float) -> str:
    """Seeds upon seeds, a process per core."""
    running: list[tuple[subprocess.Popen[bytes], int, Path]] = []
    seed, done = night.seed, 0
    while time.monotonic() < until or running:
        while len(running) < (os.cpu_count() or 1) and time.monotonic() < until:
            log = night.log(f"sim-{seed}")
            command = [
                str(night.programs / "sim"),
                "--from",
                str(seed),
                "--seeds",
                str(SEEDS_AT_ONCE),
                "--workers",
                "1",
            ]
            with log.open("wb") as file:
                running.append(
                    (subprocess.Popen(command, cwd=ROOT, stdout=file, stderr=file), seed, log)
                )
            seed += SEEDS_AT_ONCE
        process, first, log = running.pop(0)
        try:
            code = process.wait(timeout=max(until + GRACE_S - time.monotonic(), 1.0))
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
        done += SEEDS_AT_ONCE
        if code == 0:
            log.unlink()
        else:
            keep_simulated(night, first, log)
    return f"{done} seeds from {night.seed} on"


def keep_simulated(night: Night, first: int, log: Path) -> None:
    """Name the seed that failed and keep its smallest schedule."""
    text = log.read_text(errors="replace")
    found = re.search(r"seed (\d+) FAILED: (.*)", text)
    if found is None:
        seeds = f"--from {first} --seeds {SEEDS_AT_ONCE}"
        night.failed(f"sim {seeds} ended early", f"{night.programs / 'sim'} {seeds}")
        return
    seed, violation = found.groups()
    small = ROOT / "target" / f"sim-{seed}.txt"
    if small.exists():
        shutil.copy(small, night.directory)
    night.failed(f"sim: {violation}", f"make sim SEED={seed}")


def visit_zoo(night: Night, until: float) -> str:
    """Plants in a drawn order, each looked for on fresh seeds."""
    zoo = str(night.programs / "zoo")
    listed = subprocess.run([zoo, "--list"], capture_output=True, text=True, check=True)
    plants = listed.stdout.split()
    random.Random(night.seed).shuffle(plants)
    visited = 0
    for plant in plants:
        left = until - time.monotonic()
        if left <= 0:
            break
        words = ["--only", plant, "--from", str(night.seed), "--within", str(ZOO_SEEDS)]
        code = run([zoo, *words], night.log("zoo"), left)
        if code is None:
            break
        visited += 1
        if code != 0:
            command = f"cargo run -p quorate-sim --features zoo --bin zoo -- {shlex.join(words)}"
            night.failed(f"zoo: {plant} is not found, or something is found without it", command)
    return f"{visited} of {len(plants)} plants"


def torment(night: Night, until: float) -> str:
    """Real processes under faults."""
    seconds = max(until - time.monotonic(), 1.0)
    number = night.seed % 1_000_000
    words = ["--seed", str(number), "--seconds", f"{seconds:.0f}"]
    if seconds < FEW_SECONDS:
        words += ["--faults", FEW_FAULTS]
    keep = night.directory / "nemesis"
    command = [sys.executable, "lab/nemesis/run.py", *words]
    code = run([*command, "--keep", str(keep)], night.log("nemesis"), seconds + GRACE_S)
    if code == 0:
        shutil.rmtree(keep, ignore_errors=True)
    else:
        how = "was not over in time" if code is None else f"ended with {code}"
        night.failed(f"nemesis {how}, histories in {keep}", shlex.join(["python3", *command[1:]]))
    last = night.log("nemesis").read_text(errors="replace").strip().splitlines()[-1:]
    return f"seed {number}: {' '.join(last)}"


def fuzz(night: Night, until: float) -> str:
    """Readers of bytes: by cargo-fuzz where it is installed, else by mutation tests."""
    if shutil.which("cargo-fuzz") is None or not has_nightly():
        return "cargo-fuzz with a nightly compiler is missing; " + mutate(night, until)
    for number, target in enumerate(FUZZ_TARGETS):
        left = (until - time.monotonic()) / (len(FUZZ_TARGETS) - number)
        options = [f"-max_total_time={max(left, 1):.0f}", f"-seed={night.seed % 2**31}"]
        options.append(f"-artifact_prefix={night.directory}/{target}-")
        command = ["cargo", "+nightly", "fuzz", "run", target, "--", *options]
        if run(command, night.log(f"fuzz-{target}"), left + GRACE_S) not in (0, None):
            crash = next(night.directory.glob(f"{target}-*"), Path("(no input was kept)"))
            night.failed(f"fuzz: {target}", f"cargo +nightly fuzz run {target} {crash}")
    return f"{len(FUZZ_TARGETS)} targets"


def mutate(night: Night, until: float) -> str:
    """The mutation tests of core/wire, again and again with another seed."""
    command = ["cargo", "test", "--quiet", "--workspace", "--test", "wire", "hostile"]
    # What is not compiled yet must not pass for a reader that hangs.
    subprocess.run([*command[:-1], "--no-run"], cwd=ROOT, check=True)
    seed, rounds = night.seed, 0
    while time.monotonic() < until or rounds == 0:
        if run(command, night.log("mutations"), GRACE_S, QUORATE_SEED=str(seed)) != 0:
            replay = f"QUORATE_SEED={seed} {shlex.join(command)}"
            night.failed(f"mutated samples with seed {seed}", replay)
        seed, rounds = seed + 1, rounds + 1
    return f"{rounds} rounds of mutated samples instead"


def has_nightly() -> bool:
    """Whether rustup has a nightly compiler."""
    asked = subprocess.run(
        ["rustup", "toolchain", "list"], capture_output=True, text=True, check=False
    )
    return "nightly" in asked.stdout


PARTS: dict[str, Callable[[Night, float], str]] = {
    "sim": simulate,
    "zoo": visit_zoo,
    "nemesis": torment,
    "fuzz": fuzz,
}


def main() -> int:
    """Run the parts, one after the other."""
    parser = argparse.ArgumentParser(prog="night", description=__doc__)
    parser.add_argument("--minutes", type=float, default=480.0, help="for all parts together")
    parser.add_argument(
        "--seed", type=int, help="where seeds begin; drawn from the clock when absent"
    )
    parser.add_argument(
        "--only", choices=list(PARTS), action="append", help="this part; may be repeated"
    )
    parser.add_argument(
        "--programs", type=Path, default=ROOT / "target" / "debug", help="sim and zoo"
    )
    given = parser.parse_args()
    directory = ROOT / "out" / "night" / time.strftime("%Y%m%d-%H%M%S")
    directory.mkdir(parents=True)
    seed = given.seed if given.seed is not None else time.time_ns() // 1_000_000
    night = Night(directory, seed, given.programs.resolve())
    parts = given.only or list(PARTS)
    whole = sum(SHARES[part] for part in parts)
    print(f"seeds from {seed} on, {given.minutes:g} minutes, kept in {directory}", flush=True)
    for part in parts:
        began = time.monotonic()
        said = PARTS[part](night, began + given.minutes * 60 * SHARES[part] / whole)
        print(f"{part:8} {time.monotonic() - began:6.0f} s  {said}", flush=True)
    print(f"{len(night.failures)} failed")
    if night.failures:
        print(f"each with the command that shows it again: {directory / 'replay.txt'}")
    return 1 if night.failures else 0


if __name__ == "__main__":
    sys.exit(main())
