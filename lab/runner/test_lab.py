"""The lab's experiments: what a short run leaves, what each verdict notices, and how wrong input is told."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from quorate import _local

import commands
from failure import LabFailure

if TYPE_CHECKING:
    from experiment import Check, Experiment, Record
    from stage import Stage

commands.prepare_imports()
latency: Any = importlib.import_module("openreplica_latency")
failures: Any = importlib.import_module("cloud_failures")
failover: Any = importlib.import_module("openreplica_failover")
experiment: Any = importlib.import_module("experiment")
results: Any = importlib.import_module("results")

NAMES = ["cloud-failures", "openreplica-failover", "openreplica-latency"]
SHORT_S_MAX = 300


def quorate_lab(*words: str, cwd: Path = commands.ROOT) -> subprocess.CompletedProcess[str]:
    """The command, as a user gives it."""
    command = [_local.program(), "lab", *words, "--python", sys.executable]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, timeout=SHORT_S_MAX, check=False)


def test_short_runs_leave_measurements_pictures_and_nothing_lost(tmp_path: Path) -> None:
    told = quorate_lab("run", "--all", "--short", "--out", str(tmp_path), "-o", "json")
    assert told.returncode == 0, told.stderr
    runs = {run["experiment"]: run for run in json.loads(told.stdout)}
    assert sorted(runs) == NAMES
    for name, run in runs.items():
        assert run["losses"] == []
        assert run["checks"]
        first, *records, last = read_lines(Path(run["measurements"]))
        assert (first["kind"], first["experiment"], first["form"]) == ("run", name, "short")
        assert (last["kind"], last["checks"]) == ("verdict", run["checks"])
        for record in records:
            assert record["kind"] == "record"
            assert record["losses"] == []
            each = record.get("latencies_us") or [worst for _, _, worst in record["timeline"]]
            assert record["acknowledged"] >= len(each) >= 30
        for picture in map(Path, run["pictures"]):
            head = picture.read_bytes()[:100]
            assert head.startswith(b"\x89PNG" if picture.suffix == ".png" else b"<?xml")
        assert sorted(each.suffix for each in Path(run["measurements"]).parent.iterdir()) == sorted(
            [".jsonl", *(Path(picture).suffix for picture in run["pictures"])]
        )
    kills = read_lines(tmp_path / "openreplica-failover" / "short" / results.FILE)[1]["kills"]
    assert [kill["operation"] for kill in kills] == [250, 500]
    assert all(kill["next_leader"] != kill["node"] for kill in kills)
    told = quorate_lab("report", "--out", str(tmp_path))
    assert told.returncode == 0, told.stderr
    assert all(name in told.stdout for name in NAMES)


def read_lines(path: Path) -> list[Any]:
    """A file of JSON lines."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def points(ms: dict[int, float], name: str, persist: str = "memory") -> list[Record]:
    """Records of a series with these medians."""
    key = "replicas" if name == "replicas" else "state_bytes"
    return [
        {"series": name, "persist": persist, key: point, "latencies_us": [int(each * 1000)] * 9}
        for point, each in ms.items()
    ]


def test_latency_in_proportion_to_the_replicas_holds_and_faster_growth_does_not() -> None:
    state = points({128: 1.0, 1 << 20: 1.1}, "state")
    for persist, ms, holds in (
        ("memory", {3: 1.0, 5: 1.6, 13: 4.3}, True),
        ("disk", {3: 1.0, 5: 1.6, 13: 9.0}, False),
        # A bump in the middle counts as well.
        ("disk", {3: 1.0, 5: 4.0, 13: 4.3}, False),
    ):
        by_replicas, by_state = latency.judge([*points(ms, "replicas", persist), *state])
        assert (by_replicas.holds, by_state.holds) == (holds, True), by_replicas.here


def test_latency_that_grows_with_the_state_does_not_hold() -> None:
    records = [*points({3: 1.0}, "replicas"), *points({128: 1.0, 1 << 20: 1.5}, "state")]
    assert [check.holds for check in latency.judge(records)] == [True, False]


def test_the_middle_one_of_the_rounds_counts() -> None:
    rounds = [each for ms in (1.0, 1.2, 9.0) for each in points({3: ms}, "replicas")]
    assert latency.medians_ms(rounds, "replicas", "memory", "replicas") == {3: 1.2}


def test_a_failover_that_takes_longer_than_in_the_paper_does_not_hold() -> None:
    for gap_us, holds in ((2_700_000, True), (2_800_000, False)):
        (check,) = failover.judge([{"kills": [{"gap_us": 20_000}, {"gap_us": gap_us}]}])
        assert check.holds is holds


def stalled(
    ordering: str, flow: str, ms: float, calls_per_s: float = 1000.0, *, has_slow: bool = True
) -> Record:
    """A case that was silent for so long, and answered so many calls before."""
    case = {"ordering": ordering, "flow": flow, "killed": "acceptor", "has_slow": has_slow}
    return {**case, "outage_ms": ms, "operations_per_s_before": calls_per_s}


FLOWS = [stalled("paxos", "retry", 9000.0), stalled("paxos", "blocking", 300.0, 400.0)]
LIBPAXOS = [stalled("libpaxos", "unbounded", 9000.0), stalled("libpaxos+", "unbounded", 900.0)]
OTHERS = [stalled("paxos", "credit", 900.0), stalled("paxos", "credit", 20.0, has_slow=False)]


def verdicts(*records: Record) -> list[bool]:
    """Whether figures 3, 4, 6 and 7, credit, and equal nodes hold."""
    return [check.holds for check in failures.judge(records)]


def test_libpaxos_stalls_and_nothing_else_does() -> None:
    for libpaxos_ms, plus_ms, holds in ((9e3, 900.0, True), (900.0, 900.0, False), (9e3, 4e3, False)):
        slow = [stalled("libpaxos", "unbounded", libpaxos_ms), stalled("libpaxos+", "unbounded", plus_ms)]
        assert verdicts(*slow, *FLOWS, *OTHERS) == [True, True, holds, True, True]
    late = [stalled("paxos", "credit", 2500.0), stalled("paxos", "credit", 2500.0, has_slow=False)]
    assert verdicts(*LIBPAXOS, *FLOWS, *late) == [True, True, True, False, False]


def test_a_leader_that_waits_is_slow_and_one_that_sends_again_stalls() -> None:
    for waits, holds in (((300.0, 400.0), True), ((300.0, 900.0), False), ((2500.0, 400.0), False)):
        flows = [FLOWS[0], stalled("paxos", "blocking", *waits)]
        assert verdicts(*LIBPAXOS, *flows, *OTHERS)[:2] == [holds, True]
    for repeated_ms in (1500.0, 1900.0):
        flows = [stalled("paxos", "retry", repeated_ms), FLOWS[1]]
        assert verdicts(*LIBPAXOS, *flows, *OTHERS)[:2] == [True, False]


def test_silence_lasts_until_the_next_answer_or_the_end_of_the_run() -> None:
    busy = [(number / 10, 100.0, 5.0) for number in range(20)]
    assert failures.outage_ms(busy, 1.0) == 5.0
    assert failures.outage_ms([*busy[:12], (1.2, 100.0, 700.0), *busy[13:]], 1.0) == 700.0
    silent = [*busy[:12], *((number / 10, 0.0, 0.0) for number in range(12, 21))]
    assert failures.outage_ms(silent, 1.0) == 800.0
    assert failures.differing({1: "a", 2: "a"}) == []
    assert len(failures.differing({1: "a", 2: "b"})) == 2


def test_an_acknowledged_call_that_is_missing_or_doubled_is_a_loss() -> None:
    whole = [(token, 1) for token in range(1, failover.OPERATIONS + 1)]
    assert failover.lost(1, whole) == []
    assert failover.lost(1, whole[:-1]) == ["node 1 has executed operation 750 0 times"]
    assert failover.lost(2, [*whole, (7, 1)]) == ["node 2 has executed operation 7 2 times"]
    assert failover.lost(2, [*whole, (751, 1)]) == ["node 2 has executed operation 751 1 times"]
    assert latency.lost([1, 2, 3], {1: 3, 2: 3}) == []
    assert latency.lost([1, 2, 2], {1: 3, 2: 2}) == [
        "call 3 was answered 2",
        "node 2 holds 2 of 3 acknowledged calls",
    ]


def made_up(losses: list[str], holds: bool = True, failure: Exception | None = None) -> Experiment:
    """An experiment that starts nothing."""

    def measure(_stage: Stage) -> Iterator[Record]:
        yield {"losses": losses}
        if failure is not None:
            raise failure

    def judge(_records: object) -> list[Check]:
        return [experiment.Check("figure 1", "a claim", "there", "here", holds)]

    made: Experiment = experiment.Experiment("made up", "none", (), measure, judge, lambda *_: None)
    return made


@pytest.mark.parametrize(
    ("losses", "holds", "form", "code"),
    [
        ([], True, [], 0),
        ([], False, ["--short"], 0),
        ([], False, [], 1),
        (["a call"], True, ["--short"], 1),
    ],
)
def test_a_loss_fails_every_run_and_another_shape_the_long_form(
    losses: list[str],
    holds: bool,
    form: list[str],
    code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(commands, "find", lambda _name: made_up(losses, holds))
    assert commands.main(["run", "made-up", *form, "--out", str(tmp_path)]) == code
    said = capsys.readouterr().out
    assert ("LOST  a call" in said) == bool(losses)
    assert ("DOES NOT HOLD" in said) == (code == 1 and not form)


def test_a_run_that_fails_leaves_the_results_of_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = ["run", "made-up", "--out", str(tmp_path)]
    kept = tmp_path / "made-up" / "long" / results.FILE
    monkeypatch.setattr(commands, "find", lambda _name: made_up([]))
    assert commands.main(run) == 0
    before = kept.read_text()
    monkeypatch.setattr(commands, "find", lambda _name: made_up([], failure=OSError("no more ports")))
    assert commands.main(run) == 1
    assert "made-up could not be measured: no more ports; look at" in capsys.readouterr().err
    assert kept.read_text() == before


def test_two_runs_do_not_measure_into_one_directory(tmp_path: Path) -> None:
    with results.Measurements(tmp_path), pytest.raises(LabFailure, match="another run") as refused:
        results.Measurements(tmp_path)
    assert refused.value.code == 7


def test_an_unknown_experiment_is_told_with_those_that_there_are(tmp_path: Path) -> None:
    told = quorate_lab("run", "openreplica-latency", "paxos-latency", "--out", str(tmp_path / "out"))
    assert told.returncode == 3
    assert told.stderr == f"quorate: there is no experiment 'paxos-latency'; there are {', '.join(NAMES)}\n"
    assert not (tmp_path / "out").exists()
    told = quorate_lab("run", "paxos-latency", "-o", "json")
    error = json.loads(told.stderr)
    assert (error["error"], error["exit_code"], told.stdout) == ("not_found", 3, "")


def test_a_missing_matplotlib_is_told_before_anything_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setattr(commands, "find", lambda _name: made_up([]))
    assert commands.main(["run", "made-up", "--out", str(tmp_path / "out")]) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "python -m pip install matplotlib" in said
    assert not (tmp_path / "out").exists()


def test_an_interpreter_without_the_package_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "quorate", None)
    assert commands.main(["list"]) == 1
    said = capsys.readouterr().err
    assert "cannot import the package quorate" in said
    assert "name another interpreter with --python" in said


def test_a_directory_that_cannot_be_written_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(commands, "find", lambda _name: made_up([]))
    assert commands.main(["run", "made-up", "--out", str(tmp_path / "file")]) == 1
    assert "name another --out" in capsys.readouterr().err


def test_a_report_of_nothing_and_of_a_cut_file_say_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert commands.main(["report", "--out", str(tmp_path)]) == 3
    assert "no experiment has been run" in capsys.readouterr().err
    cut = tmp_path / NAMES[0] / "long" / results.FILE
    cut.parent.mkdir(parents=True)
    for content in ("", "{}\n", '{"kind":"verdict","holds":tr', "[]\n"):
        cut.write_text(content)
        assert commands.main(["report", "--out", str(tmp_path)]) == 1
        assert f"measure again with `quorate lab run {NAMES[0]}`" in capsys.readouterr().err


def test_the_list_names_every_experiment_and_its_figures() -> None:
    told = quorate_lab("list", "-o", "json")
    assert told.returncode == 0, told.stderr
    rows = json.loads(told.stdout)
    assert [row["experiment"] for row in rows] == NAMES
    assert all(row["references"] for row in rows)
    table = quorate_lab("list").stdout.splitlines()
    assert [line.split()[0] for line in table] == ["EXPERIMENT", *NAMES]


def test_a_reader_that_leaves_early_is_no_failure() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [_local.program(), "lab", "list", "--python", sys.executable]
    with os.fdopen(writer, "w") as output:
        ended = subprocess.run(
            command, stdout=output, stderr=subprocess.PIPE, text=True, cwd=commands.ROOT, check=False
        )
    assert (ended.returncode, ended.stderr) == (0, "")
