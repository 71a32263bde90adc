"""The pictures of an experiment: each as SVG and as PNG."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

BLUE, RED, GREEN, GREY = "#3b6ea5", "#b03030", "#2f7d4f", "#808080"

# Equal measurements give equal files: no date in them, and no random names.
_SETTINGS = {"svg.hashsalt": "quorate"}
_METADATA = {"svg": {"Date": None}, "png": {}}


@dataclass(frozen=True)
class Plot:
    """One pair of axes of matplotlib."""

    axes: Any

    def reference(self, value: float, text: str, colour: str, side: str = "bottom") -> None:
        """A dashed line at what the paper reports; `side` is that of the text which touches the line."""
        self.axes.axhline(value, color=colour, linewidth=0.8, linestyle="--")
        where = ("axes fraction", "data")
        self.axes.annotate(text, (0.99, value), xycoords=where, fontsize=8, color=colour, ha="right", va=side)


class Drawing:
    """Draws below one directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.pictures: list[str] = []
        """Names of the files without their ends."""

    @contextlib.contextmanager
    def picture(self, name: str, title: str) -> Iterator[Plot]:
        """One picture, saved when the block ends; the block fills it."""
        matplotlib: Any = importlib.import_module("matplotlib")
        matplotlib.use("svg")
        pyplot: Any = importlib.import_module("matplotlib.pyplot")
        with matplotlib.rc_context(_SETTINGS):
            figure, axes = pyplot.subplots(figsize=(8, 4), layout="constrained")
            yield Plot(axes)
            axes.set_title(title, fontsize=10)
            for end, metadata in _METADATA.items():
                figure.savefig(self.directory / f"{name}.{end}", dpi=150, metadata=metadata)
            pyplot.close(figure)
        self.pictures.append(name)
