"""How a command of the lab ends when it does not succeed: the exit codes and the JSON of `quorate`."""

from __future__ import annotations

import json
from typing import Any

FAILED = 1
NOT_FOUND = 3
CONFLICT = 7
NAMES = {FAILED: "failed", NOT_FOUND: "not_found", CONFLICT: "conflict"}


class LabFailure(Exception):
    """What went wrong, what to do about it, and the exit code."""

    def __init__(self, message: str, advice: str, code: int = FAILED) -> None:
        super().__init__(message)
        self.message = message
        self.advice = advice
        self.code = code

    def text(self) -> str:
        """One line for people."""
        return f"quorate: {self.message}; {self.advice}"

    def document(self) -> str:
        """The same for scripts."""
        fields: dict[str, Any] = {
            "error": NAMES[self.code],
            "message": self.message,
            "advice": self.advice,
            "exit_code": self.code,
        }
        return json.dumps(fields)
