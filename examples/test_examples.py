"""The examples of objects that wait and own, run to their end as their first lines say."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import test_readme

HERE = Path(__file__).resolve().parent
LINES_MAX = 60
RUN_SECONDS_MAX = 60


def lock(lines: list[str]) -> None:
    """The second writer comes in between, and the first one writes once only."""
    refused, *written = lines
    (older, first), (newer, second) = (line.split(" ", 1) for line in written)
    assert (first, second) == ("first writer", "second writer")
    assert int(older) < int(newer)
    assert refused.startswith(f"first writer refused: token {older} is older than {newer}")


def jobs(lines: list[str]) -> None:
    """The job of the worker that was killed is done by the other one."""
    taken = [line for line in lines if line.startswith("quick takes")]
    assert sorted(taken) == [f"quick takes job {number}" for number in (1, 2, 3)]
    done = [line for line in lines if line.startswith("job ")]
    # The slow one may be killed before it says so.
    assert {*lines} - {*taken, *done} <= {"slow takes job 1"}
    assert done == [
        f"job {number}: {job}, done by quick"
        for number, job in enumerate(("wash", "dry", "iron"), start=1)
    ]


def leaders(lines: list[str]) -> None:
    """Each leads once, in growing terms."""
    killed = [re.fullmatch(r"term (\d+): (\S+) is killed", line) for line in lines]
    terms = [(int(found[1]), found[2]) for found in killed if found]
    assert [number for number, _ in terms] == sorted({number for number, _ in terms})
    assert sorted(name for _, name in terms) == ["host-1", "host-2", "host-3"]
    assert {line for line in lines if " leads " in line} <= {
        f"{name} leads in term {number}" for number, name in terms
    }


def rate(lines: list[str]) -> None:
    """Fifteen calls, of which five may be made at once and five in a second."""
    *made, last = lines
    assert sorted(line.split(" ", 1)[1] for line in made) == [
        f"client-{client} makes call {number}" for client in range(3) for number in range(5)
    ]
    took = re.fullmatch(r"15 calls took (\S+) s", last)
    assert took is not None
    assert float(took[1]) >= 1.9


def chat(lines: list[str]) -> None:
    """All hear all, in the same order."""
    heard = {name: said for name, said in (line.split(" heard: ") for line in lines)}
    assert sorted(heard) == ["ben", "mia", "zoe"]
    shortest = min(heard.values(), key=len).split(", ")
    for said in heard.values():
        assert said.split(", ")[: len(shortest)] == shortest
        assert all(f"{name}: hello" in said for name in heard)


EXAMPLES: dict[str, Callable[[list[str]], None]] = {
    "locked_file": lock,
    "job_queue": jobs,
    "leader_election": leaders,
    "rate_limit": rate,
    "chat_room": chat,
}


def run(example: str, *arguments: str) -> list[str]:
    """The lines that it prints."""
    ran = subprocess.run(
        [sys.executable, f"{example}.py", *arguments],
        cwd=HERE,
        # Without a buffer, lines of several processes mix.
        env={name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"},
        capture_output=True,
        text=True,
        check=False,
        timeout=RUN_SECONDS_MAX,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr == ""
    return ran.stdout.splitlines()


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_runs_on_a_group_of_its_own_and_is_short(example: str) -> None:
    """As `python examples/NAME.py`."""
    EXAMPLES[example](run(example))
    assert len((HERE / f"{example}.py").read_text("utf-8").splitlines()) < LINES_MAX


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_runs_on_the_group_that_its_first_lines_name(
    example: str, tmp_path: Path
) -> None:
    """As `python examples/NAME.py ENDPOINT`."""
    up = re.search(r"`(quorate up .*?)`", (HERE / f"{example}.py").read_text("utf-8"))
    assert up is not None
    environment = {**os.environ, "PYTHONPATH": f"{HERE}:{os.environ.get('PYTHONPATH', '')}"}
    with test_readme.running(
        shlex.split(up[1]), tmp_path, test_readme.QUORATE, environment
    ) as endpoint:
        EXAMPLES[example](run(example, endpoint))
