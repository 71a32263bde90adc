"""A line on a terminal that says how far a long work is; nothing where nobody watches."""

from __future__ import annotations

import sys
from typing import Self

CLEAR = "\r\x1b[K"


class Progress:
    """The line; as a context manager it is gone when the block ends.

    >>> with Progress() as progress:
    ...     progress.show("3 of 20 seeds")
    """

    def __init__(self) -> None:
        # There is none in a process without a console.
        is_watched = sys.stderr is not None and sys.stderr.isatty()
        self._stream = sys.stderr if is_watched else None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.show("")

    def show(self, text: str) -> None:
        """Replace the line."""
        if self._stream is not None:
            self._stream.write(CLEAR + text)
            self._stream.flush()
