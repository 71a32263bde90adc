"""Directories of this machine, which no text that is sent may contain."""

from __future__ import annotations

import os
import re
import sys
import sysconfig


class Places:
    """Directories that differ between replicas, which must not be in the text of an exception."""

    def __init__(self, places: list[str]) -> None:
        # The longest first: a directory inside another one is left out as a whole.
        ordered = sorted(
            {place.rstrip("/") for place in places if place.count("/") > 1}, key=len, reverse=True
        )
        self._pattern = (
            re.compile("(?:" + "|".join(map(re.escape, ordered)) + r")(?:/|(?![\w.-]))") if ordered else None
        )

    @classmethod
    def of_this_process(cls, paths: list[str]) -> Places:
        """Where modules come from."""
        return cls([*paths, *sys.path, sysconfig.get_path("stdlib"), os.path.dirname(os.__file__)])

    def leave_out(self, text: str) -> str:
        return self._pattern.sub("", text) if self._pattern else text
