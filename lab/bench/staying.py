"""A client that stays with the node it was given, and what its calls take.

Clients of Quorate move to the leader when a node names it. Here a client is to call through one
node, whoever leads. As a program, for a client in a node's namespace: `staying.py ENDPOINT SECONDS
METHOD [INTEGER ...]` prints milliseconds as JSON. Of a METHOD that begins with `early:` it prints
what the first word of each call takes, and waits for its decision before the next one.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Callable
from typing import Any

import quorate
from quorate import _native
from quorate._connect import Connection

CALL_S = 30.0

Call = Callable[[], object]
Pause = Callable[[], float]


def staying(endpoint: str) -> Connection[Any]:
    """Connect to an object through the endpoint's node."""
    session = _native.SessionOptions(anyone=True)
    return Connection(_native.Client(endpoint, CALL_S, None, session=session, tls=None), None)


def latencies_ms(call: Call, seconds: float, pause_s: Pause = lambda: 0.0) -> list[float]:
    """What each call takes, of calls one after the other with pauses between them."""
    took = []
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        time.sleep(pause_s())
        began = time.perf_counter()
        call()
        took.append((time.perf_counter() - began) * 1e3)
    return took


def at_random(mean_s: float, seed: str) -> Pause:
    """Pauses that are drawn, so that calls of several clients come at random."""
    drawn = random.Random(seed)
    return lambda: drawn.expovariate(1 / mean_s)


def main() -> None:
    """Call as the command line says."""
    endpoint, seconds, method, *arguments = sys.argv[1:]
    with staying(endpoint) as proxy:
        values = [int(argument) for argument in arguments]
        told: list[quorate.Early[Any]] = []
        is_early = method.startswith("early:")
        called = getattr(proxy, method.removeprefix("early:"))

        def call() -> object:
            if not is_early:
                return called(*values)
            told.append(quorate.early(called, *values))
            return told[-1].tentative

        def decided() -> float:
            while told:
                told.pop().confirmed()
            return 0.0

        call()
        print(json.dumps(latencies_ms(call, float(seconds), decided)))


if __name__ == "__main__":
    main()
