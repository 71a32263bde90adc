"""What keeps a call from its answer, as the nodes tell it: nodes that are down, frozen objects, a hung call.

A client itself hears only that no replica serves. The nodes are asked when a call has reached its deadline,
for a quarter of its timeout and at most half a second; `quorate call` says the same.
"""

from __future__ import annotations

import asyncio
import json
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from quorate import _native
from quorate._errors import QuorateError

PATIENCE_SECONDS = 0.5

ASKING_MAX = 2
"""Threads that ask for event loops: one inquiry serves all calls of a client that fail at the same time."""

_EXPLAINED = "_quorate_explained"


def explain(error: BaseException, client: _native.Client, timeout: float) -> None:
    """Add to the error of a call without an answer what the nodes say, once."""
    if not is_unanswered(error):
        return
    vars(error)[_EXPLAINED] = True
    said = client.statuses(min(PATIENCE_SECONDS, timeout / 4))
    nodes = [(node, address, json.loads(status) if status else None) for node, address, status in said]
    if why := hindrance(nodes):
        error.args = (f"{error}: {why}",)


def is_unanswered(error: BaseException) -> bool:
    """Whether it is that of a call whose deadline passed, and nothing was added to it."""
    is_late = isinstance(error, QuorateError) and error.cause == "deadline_passed"
    return is_late and _EXPLAINED not in vars(error)


def explain_later(
    future: asyncio.Future[Any], error: BaseException, client: _native.Client, timeout: float
) -> bool:
    """Explain in another thread, and give the future the error then; False if it can have it at once."""
    if not is_unanswered(error):
        return False

    def tell(_: asyncio.Future[None]) -> None:
        if not future.done():
            future.set_exception(error)

    try:
        asked = future.get_loop().run_in_executor(_askers.pool(), explain, error, client, timeout)
    except RuntimeError:
        # The interpreter ends, and starts no threads.
        return False
    asked.add_done_callback(tell)
    return True


class _Askers:
    """The threads that ask for event loops; a forked process has its own."""

    def __init__(self) -> None:
        self._pool: ThreadPoolExecutor | None = None

    def pool(self) -> ThreadPoolExecutor:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(ASKING_MAX, thread_name_prefix="quorate-asks")
        return self._pool

    def forget(self) -> None:
        self._pool = None


_askers = _Askers()
os.register_at_fork(after_in_child=_askers.forget)


def hindrance(nodes: list[tuple[int, str, dict[str, Any] | None]]) -> str:
    """What keeps the objects of a group from answering, as far as its status shows.

    >>> hindrance([(1, "a:1", {"leader": 1}), (2, "b:1", None), (3, "c:1", None)])
    'no majority of 3 nodes answers, for node 2 (b:1) and node 3 (c:1) do not: start them again'
    """
    told = [status for _, _, status in nodes if status is not None]
    stuck = next((status["stuck"] for status in told if status.get("stuck")), None)
    if stuck is not None:
        return _stuck(stuck)
    frozen = next((status["frozen"] for status in told if status.get("frozen") is not None), None)
    if frozen is not None:
        drift = next((status["drift"] for status in told if status.get("drift")), None)
        return (
            f"the objects are frozen at slot {frozen}, because no majority agrees on their state"
            f"{_drift(drift) if drift else ''}; an operator must choose whose state "
            "counts: quorate object reset --from NODE"
        )
    down = [f"node {number} ({address})" for number, address, status in nodes if status is None]
    if not down:
        return ""
    names = " and ".join(down)
    verb = "do" if len(down) > 1 else "does"
    if 2 * len(told) <= len(nodes):
        them = "them" if len(down) > 1 else "it"
        return f"no majority of {len(nodes)} nodes answers, for {names} {verb} not: start {them} again"
    return f"{names} {verb} not answer"


def _stuck(stuck: dict[str, Any]) -> str:
    call = f"{stuck['object']}.{stuck['method']}"
    what = f"the read {call}" if stuck["slot"] is None else f"the call {call} of slot {stuck['slot']}"
    seconds = stuck["since_ms"] // 1000
    return f"{what} has kept the objects from going on for {seconds} s: {stuck['to_do']}"


def _drift(drift: dict[str, Any]) -> str:
    at = "at" if drift["is_exact"] else "at or before"
    call = f", in {drift['object']}.{drift['method']}" if drift["object"] and drift["method"] else ""
    return f"; node {drift['node']} had another outcome than others, first {at} slot {drift['slot']}{call}"
