"""How long a session lives whose client died: as long as that client asked for."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mailbox_class import Mailbox
from patience import PATIENCE_S

import quorate
from quorate import LocalGroup

WAITER = """
import sys
from mailbox_class import Mailbox
import quorate
with quorate.connect(sys.argv[1], Mailbox, timeout=30.0, session_timeout=float(sys.argv[2])) as mailbox:
    mailbox.take()
"""


@pytest.fixture(scope="module")
def group() -> Iterator[LocalGroup[Mailbox]]:
    """Three nodes with logs in memory."""
    group = quorate.local(Mailbox, timeout=PATIENCE_S)
    with group:
        yield group


def waits_in_another_process(group: LocalGroup[Mailbox], session_seconds: float) -> subprocess.Popen[bytes]:
    """A process that waits for a letter."""
    before = group.proxy.waiting()
    command = [sys.executable, "-c", WAITER, group.endpoint, str(session_seconds)]
    process = subprocess.Popen(command, cwd=Path(__file__).parent)
    ends = time.monotonic() + PATIENCE_S
    while group.proxy.waiting() == before:
        assert time.monotonic() < ends, "it never waits"
        time.sleep(0.01)
    return process


def seconds_until_forgotten(group: LocalGroup[Mailbox], left: int) -> float:
    """How long it takes until only so many wait."""
    began = time.monotonic()
    while group.proxy.waiting() > left:
        assert time.monotonic() < began + PATIENCE_S, "it is never forgotten"
        time.sleep(0.01)
    return time.monotonic() - began


def open_sessions(group: LocalGroup[Mailbox]) -> int:
    """How many sessions a node holds."""
    said = group.status(group.leader)
    assert said is not None
    return int(said["counts"]["sessions"])


def test_a_client_that_dies_is_forgotten_after_the_time_that_it_asked_for(group: LocalGroup[Mailbox]) -> None:
    patient = waits_in_another_process(group, 3600)
    hasty = waits_in_another_process(group, 1.5)
    time.sleep(2.5)
    assert group.proxy.waiting() == 2, "keepalives follow the time"
    patient.kill()
    hasty.kill()
    # Its newest keepalive may be a third of the time old.
    assert 0.9 < seconds_until_forgotten(group, left=1) < 10
    time.sleep(6)
    assert group.proxy.waiting() == 1, "the usual time is over, and not its own"
    assert group.proxy.refuse_all("nobody") == 1
    for process in (patient, hasty):
        process.wait(PATIENCE_S)


def test_a_client_that_closes_ends_a_session_that_would_live_for_long(group: LocalGroup[Mailbox]) -> None:
    connections = [
        quorate.connect(group.endpoint, Mailbox, timeout=PATIENCE_S, session_timeout=600) for _ in range(20)
    ]
    for connection in connections:
        connection.proxy.put("letter")
    before = open_sessions(group)
    assert before >= 20
    for connection in connections:
        connection.close()
    began = time.monotonic()
    while open_sessions(group) > before - 20:
        assert time.monotonic() < began + PATIENCE_S, "they never end"
        time.sleep(0.01)


@pytest.mark.parametrize("seconds", [0.5, 3601, -1, float("nan"), float("inf")])
def test_a_time_out_of_bounds_is_refused_with_advice(seconds: float) -> None:
    with pytest.raises(ValueError, match="use 1 to 3600 seconds"):
        quorate.connect("quorate://127.0.0.1:1/A", session_timeout=seconds)
    with pytest.raises(ValueError, match="use 1 to 3600 seconds"):
        quorate.aconnect("quorate://127.0.0.1:1/A", session_timeout=seconds)


@pytest.mark.parametrize("seconds", ["5", True, None])
def test_what_is_no_time_is_refused(seconds: Any) -> None:
    with pytest.raises(TypeError, match="session_timeout is a number of seconds"):
        quorate.connect("quorate://127.0.0.1:1/A", session_timeout=seconds)
