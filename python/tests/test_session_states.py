"""Whether a session lives, as its client is told: on groups whose nodes stop, die and come back."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from fenced_classes import Store
from patience import PATIENCE_S, until

import quorate
from quorate import LocalGroup, SessionState

CONNECTED, SUSPENDED, LOST = SessionState.CONNECTED, SessionState.SUSPENDED, SessionState.LOST


@pytest.fixture(scope="module")
def nodes() -> Iterator[LocalGroup[Store]]:
    """Three nodes."""
    with (running := quorate.local(Store, persist="disk", timeout=PATIENCE_S)):
        yield running


def kill_all(nodes: LocalGroup[Store]) -> None:
    """As when the power fails."""
    for node in nodes.nodes:
        nodes.kill(node)


def restart_all(nodes: LocalGroup[Store]) -> None:
    """All at once, for one alone does not serve."""
    with ThreadPoolExecutor(len(nodes.nodes)) as threads:
        list(threads.map(nodes.restart, nodes.nodes))


def test_a_group_that_is_killed_and_comes_back_suspends_a_session(nodes: LocalGroup[Store]) -> None:
    told: list[SessionState] = []
    with quorate.connect(nodes.endpoint, Store, session_timeout=60, timeout=PATIENCE_S) as store:
        assert quorate.session_state(store) is CONNECTED
        stop = quorate.on_session_state(store, told.append)
        kill_all(nodes)
        until(lambda: told == [SUSPENDED])
        assert quorate.session_state(store) is SUSPENDED
        restart_all(nodes)
        store.write(1, "row")
        until(lambda: told == [SUSPENDED, CONNECTED])
        stop()
        stop()
    assert told == [SUSPENDED, CONNECTED], "it was ended before the connection was closed"


def test_a_session_of_which_nobody_hears_is_lost_and_a_new_one_takes_its_place(
    nodes: LocalGroup[Store],
) -> None:
    told: list[SessionState] = []
    with quorate.connect(nodes.endpoint, Store, session_timeout=1, timeout=PATIENCE_S) as store:
        quorate.on_session_state(store, told.append)
        states = quorate.session_states(store)
        assert next(states) is CONNECTED
        kill_all(nodes)
        assert [next(states), next(states)] == [SUSPENDED, LOST]
        restart_all(nodes)
        assert next(states) is CONNECTED
        until(lambda: told == [SUSPENDED, LOST, CONNECTED])
    assert next(states) is LOST
    assert list(states) == []
    until(lambda: told == [SUSPENDED, LOST, CONNECTED, LOST])


STOOD_STILL = """
import os, signal, sys
import quorate
from fenced_classes import Store

with quorate.connect(sys.argv[1], Store, session_timeout=1) as store:
    states = quorate.session_states(store)
    print(next(states).name, flush=True)
    os.kill(os.getpid(), signal.SIGSTOP)
    while (state := next(states).name) != "CONNECTED":
        print(state, flush=True)
    print(state, flush=True)
"""


OWN_SESSIONS = 1
"""The group that a test starts has a client of its own."""


def sessions(nodes: LocalGroup[Store]) -> int:
    """How many sessions the leader holds."""
    said = nodes.status(nodes.leader)
    assert said is not None
    return int(said["counts"]["sessions"])


def test_a_client_that_stood_still_is_told_that_its_session_is_lost(nodes: LocalGroup[Store]) -> None:
    # Those of clients before it end first, and are not its own.
    until(lambda: sessions(nodes) == OWN_SESSIONS)
    command = [sys.executable, "-c", STOOD_STILL, nodes.endpoint]
    holder = subprocess.Popen(command, cwd=Path(__file__).parent, stdout=subprocess.PIPE, text=True)
    try:
        os.waitpid(holder.pid, os.WUNTRACED)
        until(lambda: sessions(nodes) == OWN_SESSIONS)
        holder.send_signal(signal.SIGCONT)
        said, _ = holder.communicate(timeout=PATIENCE_S)
    finally:
        holder.kill()
        holder.wait()
    assert said.split() == ["CONNECTED", "LOST", "CONNECTED"]


def test_the_asyncio_twin_tells_the_same(nodes: LocalGroup[Store]) -> None:
    async def follow() -> list[SessionState]:
        told = []
        async with quorate.aconnect(nodes.endpoint, Store, session_timeout=1) as store:
            states = quorate.asession_states(store)
            told.append(await anext(states))
            for node in nodes.nodes:
                nodes.cut(node)
            told += [await anext(states), await anext(states)]
            nodes.heal()
            told.append(await anext(states))
        return told + [state async for state in states]

    assert asyncio.run(follow()) == [CONNECTED, SUSPENDED, LOST, CONNECTED, LOST]


def test_a_callback_that_raises_stops_no_other(
    nodes: LocalGroup[Store], caplog: pytest.LogCaptureFixture
) -> None:
    told: list[SessionState] = []

    def fail(state: SessionState) -> None:
        raise ValueError("a callback that fails")

    with quorate.connect(nodes.endpoint, Store) as store:
        quorate.on_session_state(store, fail)
        quorate.on_session_state(store, told.append)
    until(lambda: told == [LOST])
    assert "a callback that fails" in caplog.text
    assert quorate.session_state(store) is LOST
