"""How long tests wait for what must come."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE_S = 30.0


def until(is_so: Callable[[], object], shown: Callable[[], object] | None = None) -> None:
    """Ask until it is so; `shown` tells how it is instead."""
    ends = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < ends, f"it never is: {shown()}" if shown else "it never is"
