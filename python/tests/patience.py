"""How long tests wait for what must come."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE_S = 30.0


def until(is_so: Callable[[], object]) -> None:
    """Ask until it is so."""
    ends = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < ends, "it never is"
