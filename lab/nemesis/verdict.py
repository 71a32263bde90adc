"""The checks of a run: one line each, passed or failed, and the sum at the end."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field

SHOWN_MAX = 8
"""Problems listed below a failed check: more do not help a reader."""


@dataclass
class Verdict:
    """Counts checks and prints them as they are made."""

    passed: int = 0
    failed: int = 0
    failures: list[str] = field(default_factory=list)

    def check(self, name: str, problems: list[str], note: str = "") -> None:
        """Passed when there are no problems."""
        clear_progress()
        if not problems:
            self.passed += 1
            print(f"ok    {name}{f': {note}' if note else ''}", flush=True)
            return
        self.failed += 1
        self.failures.append(name)
        print(f"FAIL  {name}: {problems[0]}", flush=True)
        for problem in problems[1:SHOWN_MAX]:
            print(f"      {problem}", flush=True)
        if len(problems) > SHOWN_MAX:
            print(f"      and {len(problems) - SHOWN_MAX} more", flush=True)
        if note:
            print(f"      measured: {note}", flush=True)

    def last_line(self) -> str:
        """The sum."""
        return f"{self.passed} passed, {self.failed} failed"


def show_progress(text: str) -> None:
    """One line on a terminal, rewritten; nothing elsewhere."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text[:110]}", end="", file=sys.stderr, flush=True)


def clear_progress() -> None:
    """Make the terminal's line free."""
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr, flush=True)
