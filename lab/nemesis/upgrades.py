"""A group goes to another version and back, one node after the other, while clients call.

The nodes begin as an older version: this program with `--speaks`, or with `--old PROGRAM` another program.
Each is stopped and started as the newer one; before the last one is, the group refuses the higher level. Then
the level is raised, and an older version is refused. The way back is the same: the level is lowered, and each
node is started as the older version again. Afterwards what clients saw is judged. Ends with
`N passed, N failed`, and 1 when a check failed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from checker import ROOT, checker
from group import Group, GroupPlan
from judging import judge_history, judge_load, judge_object, judge_replicas
from load import Load
from member import Member
from network import Network
from recording import Recording
from run import SNAPSHOT_AFTER
from session import default_quorate, fresh_directory, network_of
from verdict import Verdict, show_progress
from waiting import NeverHappened, wait_until
from workload import Workload, named

TITLE = "upgrades"
CLIENTS = 4
OLDER, NEWER = 19, 20
"""The levels of the two versions."""

WHOLE_S = 60.0
"""A group is whole again after a restart, on a loaded machine."""
END_S = 30.0
"""A node that does not speak the level of its group ends by itself within this."""
SET_S = 60.0
"""A level is set, and what was decided before it is in snapshots, within this."""

CONFLICT = 7
"""Exit code of what a group, or a directory, never takes as it is."""


@dataclass(frozen=True)
class Options:
    """What the command line says."""

    old: str | None
    """The program of the older version; none: this one, which speaks less."""
    served: str
    seed: int
    quorate: str
    keep: Path


@dataclass
class Campaign:
    """The way there and back of one group."""

    options: Options
    group: Group
    workload: Workload
    verdict: Verdict

    def run(self) -> None:
        """Upgrade and downgrade under load, then judge."""
        group, directory = self.group, self.group.plan.directory
        history = directory / "history.jsonl"
        with Recording(history) as recording:
            with Load(group.endpoint, self.workload, recording, CLIENTS, self.options.seed) as load:
                self._calls(recording)
                problems = self._there(recording) or self._back(recording)
            judge_load(TITLE, load, recording, group, self.verdict)
            self.verdict.check(f"{TITLE} every node upgraded and downgraded", problems)
            if not problems:
                judge_object(TITLE, group, self.workload, recording, self.verdict)
                judge_replicas(TITLE, group, WHOLE_S, self.verdict)
            recording.flush()
        judge_history(
            TITLE, os.environ["QUORATE_HISTORY"], history, len(recording.operations()), self.verdict
        )

    def _there(self, recording: Recording) -> list[str]:
        try:
            *first, last = self.group
            for member in first:
                self._restart(member, older=False)
                self._calls(recording)
            self._refused_level(last)
            self._restart(last, older=False)
            self._set_level(NEWER)
            self._calls(recording)
            self._refused_start(first[0])
        except NeverHappened as error:
            return [f"{error}: {self.group.describe()}"]
        return []

    def _back(self, recording: Recording) -> list[str]:
        try:
            self._set_level(OLDER)
            for member in self.group:
                self._calls(recording)
                self._restart(member, older=True)
            self._calls(recording)
        except NeverHappened as error:
            return [f"{error}: {self.group.describe()}"]
        return []

    def _restart(self, member: Member, *, older: bool) -> None:
        version = "older" if older else "newer"
        show_progress(f"{TITLE}: node {member.number} becomes the {version} version")
        member.terminate()
        become(member, self.options, older=older)
        member.start()
        self.group.wait_whole(WHOLE_S)

    def _calls(self, recording: Recording) -> None:
        """Clients are answered meanwhile."""
        enough = recording.counts()[0] + 20 * CLIENTS
        wait_until(lambda: recording.counts()[0] > enough, WHOLE_S, "answered calls")

    def _refused_level(self, last: Member) -> None:
        """The level is not raised while a member does not speak it, and the error names that one."""
        code, said = self._told("view", "set", f"level={NEWER}")
        problems = [] if code == CONFLICT else [f"exit code {code}: {said}"]
        if f"node {last.number} " not in said.get("message", ""):
            problems.append(f"node {last.number} is not named: {said}")
        self.verdict.check(f"{TITLE} level refused while a member does not speak it", problems, str(said))

    def _set_level(self, level: int) -> None:
        show_progress(f"{TITLE}: level {level}")
        code, said = self._told("view", "set", f"level={level}", "--timeout", f"{SET_S:g}")
        _, view = self._told("view", "show")
        problems = [] if code == 0 else [f"exit code {code}: {said}"]
        problems += [] if view.get("level") == level else [f"the view: {view}"]
        self.verdict.check(f"{TITLE} level {level} set", problems)
        if problems:
            raise NeverHappened(f"level {level} of all nodes")

    def _refused_start(self, member: Member) -> None:
        """A version that does not speak the level of the group ends and says why; the others go on."""
        member.terminate()
        become(member, self.options, older=True)
        member.start()
        member.may_end = True
        code, words = member.await_end(END_S), ""
        problems = []
        if code is None:
            problems.append(f"it runs {END_S:g} s after its start")
            member.kill()
        else:
            words = member.last_words()
            if self.options.old is None:
                expected = f"asks for level {NEWER} and this program speaks level {OLDER}"
                problems += [] if code == CONFLICT and expected in words else [f"{code}: {words}"]
            elif code == 0:
                problems.append(f"it ended with 0: {words}")
        self.verdict.check(f"{TITLE} older version refused", problems, f"exit code {code}, {words}")
        become(member, self.options, older=False)
        member.start()
        self.group.wait_whole(WHOLE_S)

    def _told(self, *words: str) -> tuple[int, dict[str, Any]]:
        endpoint = self.group.endpoint.rpartition("/")[0]
        command = [self.options.quorate, *words, "--endpoint", endpoint, "-o", "json"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        said: dict[str, Any] = json.loads(done.stdout or done.stderr or "{}")
        return done.returncode, said


def become(member: Member, options: Options, *, older: bool) -> None:
    """The next start is one of this version."""
    programs = {options.quorate, options.old or options.quorate}
    at = next(place for place, word in enumerate(member.command) if word in programs)
    wanted = options.old if older and options.old is not None else options.quorate
    command = [*member.command[:at], wanted, *member.command[at + 1 :]]
    if "--speaks" in command:
        place = command.index("--speaks")
        del command[place : place + 2]
    if older and options.old is None:
        command += ["--speaks", str(OLDER)]
    member.command = command


class OlderGroup(Group):
    """A group whose nodes begin as the older version."""

    def __init__(self, plan: GroupPlan, network: Network, options: Options) -> None:
        super().__init__(plan, network)
        self.options = options

    def _member(self, number: int, config: Path) -> Member:
        member = super()._member(number, config)
        become(member, self.options, older=True)
        return member


def run(options: Options) -> Verdict:
    """One group, there and back, all checks."""
    verdict = Verdict()
    directory = fresh_directory(options.keep, TITLE)
    print(f"seed {options.seed}, {options.served}, histories and logs in {directory}", flush=True)
    workload = named(options.served, ROOT / "examples")
    plan = GroupPlan(
        directory=directory,
        quorate=options.quorate,
        served=workload.served,
        nodes=3,
        snapshot_after=SNAPSHOT_AFTER,
        begins_at_newest_level=False,
    )
    with network_of(3) as network, OlderGroup(plan, network, options) as group:
        Campaign(options, group, workload, verdict).run()
    return verdict


def main() -> int:
    """Run, print the checks, return the exit code."""
    os.environ["QUORATE_HISTORY"] = checker()
    verdict = run(read_options(sys.argv[1:]))
    print(verdict.last_line())
    return 1 if verdict.failed or not verdict.passed else 0


def read_options(words: list[str]) -> Options:
    """The command line; wrong use ends with 2."""
    parser = argparse.ArgumentParser(prog="upgrades", description="upgrade and downgrade a group under load")
    parser.add_argument("--old", default=None, help="the program of the older version; default: --speaks")
    parser.add_argument("--object", default="rust:kv", help="shelf, rust:kv, rust:counter, ...; see run.py")
    parser.add_argument("--seed", type=int, default=None, help="seed of the calls; drawn when absent")
    parser.add_argument("--quorate", default=default_quorate(), help="the program under test")
    parser.add_argument("--keep", type=Path, default=ROOT / "out" / "nemesis", help="where all is kept")
    given = parser.parse_args(words)
    drawn = int(os.environ.get("NEMESIS_SEED", time.time_ns() % 1_000_000))
    seed = given.seed if given.seed is not None else drawn
    os.environ["NEMESIS_SEED"] = str(seed)
    return Options(old=given.old, served=given.object, seed=seed, quorate=given.quorate, keep=given.keep)


if __name__ == "__main__":
    sys.exit(main())
