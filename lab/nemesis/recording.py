"""What clients saw, written down while it happens: JSON lines in the form that the history checker reads.

The form is stated by `lab/sim/src/history.rs`. A call is written once it has ended; a call without an
answer is written as one whose outcome is unknown, never as one that did not happen.
"""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

LATEST = 64
"""Operations that `latest` gives: several per client."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One call of one client, and how it ended."""

    client: int
    object: str
    op: str
    args: tuple[Any, ...]
    invoke_ns: int
    return_ns: int | None
    """None: no answer came."""
    result: Any = None
    keeps_result: bool = True
    error: str | None = None

    @property
    def is_acknowledged(self) -> bool:
        """Whether an answer came."""
        return self.return_ns is not None and self.error is None

    @property
    def is_refused(self) -> bool:
        """Whether it certainly had no effect."""
        return self.error is not None and self.error.startswith("refused")

    @property
    def is_unknown(self) -> bool:
        """Whether it may or may not have taken effect."""
        return not self.is_acknowledged and not self.is_refused

    def describe(self) -> str:
        """One line for messages."""
        ended = "acknowledged" if self.is_acknowledged else self.error or "without an answer"
        return f"{self.op}{self.args!r} of client {self.client} ({ended})"

    def line(self) -> str:
        """The line of the history."""
        fields: dict[str, Any] = {
            "client": self.client,
            "object": self.object,
            "op": self.op,
            "args": list(self.args),
            "invoke": self.invoke_ns,
            "return": self.return_ns if self.is_acknowledged else None,
        }
        if self.is_acknowledged and self.keeps_result:
            fields["result"] = self.result
        if self.error is not None:
            fields["error"] = self.error
        return json.dumps(fields, separators=(",", ":"))


class Recording:
    """A history in a file and in memory, fed by several threads."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._operations: list[Operation] = []
        self._file = path.open("w")

    def add(self, operation: Operation) -> None:
        """Write one operation down."""
        with self._lock:
            self._operations.append(operation)
            self._file.write(operation.line() + "\n")

    def operations(self) -> list[Operation]:
        """All so far."""
        with self._lock:
            return list(self._operations)

    def latest(self) -> list[Operation]:
        """The newest few, cheap enough to ask often."""
        with self._lock:
            return self._operations[-LATEST:]

    def counts(self) -> tuple[int, int, int]:
        """Acknowledged, refused and unknown calls so far."""
        with self._lock:
            done = self._operations
            answered = sum(operation.is_acknowledged for operation in done)
            refused = sum(operation.is_refused for operation in done)
        return answered, refused, len(done) - answered - refused

    def flush(self) -> None:
        """Bring everything to the file."""
        with self._lock:
            self._file.flush()

    def __enter__(self) -> Recording:
        """Itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()
