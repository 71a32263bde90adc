"""The lab's own judgement: a lost call, a doubled one, a long silence and a filled disk are each noticed."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from ages import SLACK_NS, Ages, Marks, Told
from catalogue import CATALOGUE, chosen, described, title_of, usual
from crowd import AttackProcess
from fault import Scene
from faults_clients import Descriptors
from faults_noise import Noise, noise, peaks_early_and_late
from memory import peaks_of
from outage import WRITES, Row
from outages import MS, answered_between, outage, p99_ms, slowed, told_p99
from pulse import longest_gap
from recording import Operation, Recording
from verdict import Verdict
from waiting import NeverHappened, wait_until
from workload import named

EXAMPLES = Path()


def append(client: int, number: int, *, error: str | None = None, answered: bool = True) -> Operation:
    """An append to the key `log-0-0`."""
    args = ("log-0-0", f"{client}.{number};")
    at = number * MS
    returned = at + 1 if answered else None
    return Operation(client, "kv/Shelf", "append", args, at, returned, None, False, error)


def read(text: str | None) -> Operation:
    """The final read of that key."""
    return Operation(0, "kv/Shelf", "get", ("log-0-0",), 10**12, 10**12 + 1, text)


def problems(operations: list[Operation], text: str | None) -> list[str]:
    """What the workload says of these calls and that end."""
    return named("shelf", EXAMPLES).problems(operations, [read(text)])


def test_each_acknowledged_call_once_is_no_problem() -> None:
    """Order does not matter here; the checker of histories judges that."""
    assert problems([append(1, 1), append(2, 1)], "2.1;1.1;") == []


def test_a_lost_call_is_named() -> None:
    """Acknowledged and absent."""
    assert "present 0 times" in problems([append(1, 1)], None)[0]


def test_a_doubled_call_is_named_even_if_nobody_got_an_answer() -> None:
    """At most once holds for calls without an answer too."""
    unknown = append(1, 1, error="unknown: TimedOut", answered=False)
    assert problems([unknown], "1.1;") == []
    assert problems([unknown], None) == []
    assert "present 2 times" in problems([unknown], "1.1;1.1;")[0]


def test_a_refused_call_that_took_effect_is_named() -> None:
    """Refused means that it never happens."""
    assert problems([append(1, 1, error="refused: Overloaded", answered=False)], "1.1;")


def test_what_nobody_appended_is_named() -> None:
    """Nothing comes from nowhere."""
    assert "never appended" in problems([], "9.9;")[0]


@pytest.mark.parametrize(("total", "is_fine"), [(5, True), (9, True), (4, False), (10, False), (None, False)])
def test_a_total_outside_what_was_added_is_named(total: int | None, is_fine: bool) -> None:
    """Five are sure, four more may be."""
    sums = named("rust:counter", EXAMPLES)
    sure = Operation(1, "counter/Counter", "add", (5,), 1, 2, 5)
    unknown = Operation(1, "counter/Counter", "add", (4,), 3, None, error="unknown: TimedOut")
    final = Operation(0, "counter/Counter", "get", (), 8, 9, total)
    assert (sums.problems([sure, unknown], [final]) == []) is is_fine


def test_an_outage_is_the_longest_silence_that_touches_the_span() -> None:
    """Silence before and after the span does not count, unanswered calls do not end it."""
    times = [0, 500, 510, 900, 2000]
    operations = [append(1, time) for time in times]
    operations.append(append(1, 700, error="refused: Unavailable", answered=False))
    assert outage(operations, 505 * MS, 800 * MS).longest_ms == 390
    assert outage([], 0, 7 * MS).longest_ms == 7


def test_an_answer_to_a_call_from_before_is_no_service() -> None:
    """Who is served has called and was answered within the span."""
    operations = [append(1, 5)]
    assert answered_between(operations, 4 * MS, 6 * MS)
    assert not answered_between(operations, 5 * MS + 1, 6 * MS)


def test_a_history_says_what_is_unknown_and_keeps_no_doubtful_result(tmp_path: Path) -> None:
    """The form is that of the history checker."""
    with Recording(tmp_path / "history.jsonl") as recording:
        recording.add(append(1, 1))
        recording.add(append(1, 2, error="unknown: TimedOut", answered=False))
        assert recording.counts() == (1, 0, 1)
    answered, unknown = (tmp_path / "history.jsonl").read_text().splitlines()
    assert '"return":1000001' in answered
    assert "result" not in answered
    assert '"return":null' in unknown
    assert "TimedOut" in unknown


def test_a_verdict_counts(capsys: pytest.CaptureFixture[str]) -> None:
    """And says so in its last line."""
    verdict = Verdict()
    verdict.check("one", [])
    verdict.check("two", ["it is broken"])
    assert verdict.last_line() == "1 passed, 1 failed"
    assert "FAIL  two: it is broken" in capsys.readouterr().out


def test_faults_are_chosen_by_name_or_beginning() -> None:
    """And a name that is no fault is refused."""
    assert chosen(["bridge"]) == ["bridge"]
    assert "kill-leader" in chosen(["kill"])
    assert "host-kill-leader" not in chosen(["kill"])
    with pytest.raises(ValueError, match="no fault unplug"):
        chosen(["unplug"])


def test_every_fault_belongs_to_one_group() -> None:
    """Those that need own disks or forgetting nodes do not meet the others."""
    titles = {name: title_of(name, "disk") for name in CATALOGUE}
    assert titles["disk-full-leader"] == "own-disks"
    assert titles["forget-follower"] == "memory"
    assert titles["kill-all"] == "disk"


def test_waiting_ends() -> None:
    """With the name of what did not happen."""
    with pytest.raises(NeverHappened, match="a miracle"):
        wait_until(lambda: None, 0.05, "a miracle")


def test_peaks_do_not_see_the_breath_between_them() -> None:
    """Growth shows, the saw's teeth do not."""
    assert peaks_of([1, 9] * 50) == [9] * 10
    assert peaks_of(list(range(100)))[-1] == 99


def test_the_longest_gap_is_the_one_that_touches_the_span() -> None:
    """A longer one before the span or after it belongs to another event."""
    answers = [0, 900 * MS, 1000 * MS, 1300 * MS, 1310 * MS, 1320 * MS, 5000 * MS]
    gap = longest_gap(answers, 1010 * MS, 1305 * MS)
    assert (gap.length_ms, gap.end_ns) == (300.0, 1300 * MS)
    assert longest_gap([], 0, 50 * MS).length_ms == 50.0


def test_reads_that_come_back_late_and_kills_that_last_are_told() -> None:
    """One slow read among fast ones is no problem; a slow median is, and one kill above the longest bound."""
    assert Row("stop-leader", "lease", [500.0] * 3, [10.0, 20.0, 900.0]).problems() == []
    assert Row("stop-leader", "lease", [500.0] * 3, [10.0, 200.0, 900.0]).problems()
    assert Row("kill-leader", WRITES, [40.0, 50.0, 290.0]).problems() == []
    assert Row("kill-leader", WRITES, [40.0, 50.0, 990.0]).problems() == ["longest above 300 ms"]


def test_calls_that_take_more_than_three_times_as_long_are_a_problem() -> None:
    """Calls without an answer count with the whole time that they waited."""
    quick = [append(1, number) for number in range(200)]
    before = p99_ms(quick, 0, 200 * MS)
    assert before is not None
    assert before < 1.0
    silent = [append(1, number, error="unknown: TimedOut", answered=False) for number in range(5)]
    during = p99_ms([*quick, *silent], 0, 400 * MS)
    assert slowed(before, during, 3.0)
    assert slowed(before, before, 3.0) == []
    assert slowed(None, before, 3.0)
    assert slowed(2.0, 30.0, 3.0)
    assert told_p99(2.0, 30.0) == "2.0 ms before and 30.0 ms: 15.0 times"


def test_faults_of_minutes_are_met_only_when_they_are_asked_for() -> None:
    """So is what a fault is compared with. Every other one is usual, and each says in a line what it is."""
    asked_for = {"crowd-closes-millions", "crowd-noise-long", "crowd-half-frames-elsewhere"}
    assert set(CATALOGUE) - set(usual()) == asked_for
    assert all(described(name) for name in CATALOGUE)


def test_nodes_get_their_own_commands_back_when_a_fault_ends_halfway(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node that was not started otherwise keeps its command."""
    members = [SimpleNamespace(number=number, command=["quorate", "node", "run"]) for number in (1, 2, 3)]

    def restart(_scene: object, member: SimpleNamespace, command: list[str]) -> None:
        member.command = command
        if member.number == 2 and command[0] == "prlimit":
            raise NeverHappened("a whole group")

    monkeypatch.setattr(Descriptors, "_restart", staticmethod(restart))
    scene = cast(Scene, SimpleNamespace(group=members))
    fault = Descriptors()
    with pytest.raises(NeverHappened):
        fault.prepare(scene)
    fault.heal(scene)
    assert [member.command for member in members] == [["quorate", "node", "run"]] * 3


def test_noise_that_nobody_heard_is_a_problem_and_so_is_memory_that_rises(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A node with a sawtooth is flat; one that holds more in the last quarter than in the second is not."""
    flat, rising = [1000, 9000] * 20, [1000 * at for at in range(40)]
    assert peaks_early_and_late(flat) == (9000, 9000)
    fault = noise()
    assert isinstance(fault, Noise)
    monkeypatch.setattr("faults_noise.watch_kib", lambda *_: {1: flat, 2: rising})
    silent = cast(AttackProcess, SimpleNamespace(count=lambda _what: 0))
    monkeypatch.setattr(fault, "_ports_of", {"node 1": silent})
    found = fault.problems(cast(Scene, SimpleNamespace(group=[])))
    assert ["node 2 grows" in found[0], "only 0 connections" in found[1]] == [True, True]
    assert len(found) == 2


def test_an_age_that_begins_after_a_mark_that_is_missing_was_acknowledged_is_told() -> None:
    """What is older than it must be is no lie, and a mark that nobody acknowledged is none either."""
    marks = Marks("age-0", [10 * MS, 20 * MS, 30 * MS])
    asked = 100 * MS

    def told(seen: int, age_ns: int) -> Told:
        return Told(2, asked, seen, age_ns)

    assert told(2, asked - 30 * MS).lie(marks) is None
    assert told(2, 2 * asked).lie(marks) is None
    assert told(3, 0).lie(marks) is None
    assert told(4, 0).lie(marks) is None
    young = told(1, asked - 20 * MS - SLACK_NS - 1).lie(marks)
    assert young is not None
    assert "node 2" in young
    ages = Ages("", {})
    ages.judge(told(1, 0), marks)
    ages.judge(told(3, 0), marks)
    assert (ages.answers, len(ages.lies), ages.stalest_ns) == (2, 1, 80 * MS)
