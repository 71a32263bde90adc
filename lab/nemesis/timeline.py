"""What a group looked like over time while its members changed, and its picture.

`Watch` asks the nodes at their admin ports, on a thread of its own; `draw` puts throughput, views, members
and faults below each other. Called by the campaign of views.
"""

from __future__ import annotations

import importlib
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

from member import ask
from recording import Operation

EVERY_S = 0.1
"""Between two questions to all nodes: as fine as the picture, and little work for them."""

BUCKET_NS = 100_000_000

BLUE, RED, GREEN, GREY = "#3b6ea5", "#b03030", "#2f7d4f", "#808080"
# Equal runs give equal files: no date in them, and no random names.
_SETTINGS = {"svg.hashsalt": "quorate"}
_METADATA: dict[str, dict[str, Any]] = {"svg": {"Date": None}, "png": {}}


class Axes(Protocol):
    """What is used of axes of matplotlib."""

    axvspan: Callable[..., object]
    axvline: Callable[..., object]
    fill_between: Callable[..., object]
    step: Callable[..., object]
    barh: Callable[..., object]
    plot: Callable[..., object]
    text: Callable[..., object]
    set: Callable[..., object]
    invert_yaxis: Callable[[], object]
    get_ylim: Callable[[], tuple[float, float]]


@dataclass(frozen=True)
class Sample:
    """The newest view that some node knew in force, and who took itself for its leader."""

    at_ns: int
    view: int
    members: tuple[int, ...]
    leader: int | None


@dataclass(frozen=True)
class Mark:
    """A fault, from its beginning to its end."""

    start_ns: int
    end_ns: int
    text: str


@dataclass
class Timeline:
    """All that is drawn."""

    samples: list[Sample] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    start_ns: int = 0
    end_ns: int = 0

    def stays(self) -> dict[int, tuple[int, int]]:
        """When each node was a member, by number."""
        found: dict[int, tuple[int, int]] = {}
        for sample in self.samples:
            for node in sample.members:
                found[node] = (found.get(node, (sample.at_ns, 0))[0], sample.at_ns)
        return found

    def rates(self, operations: Sequence[Operation]) -> list[int]:
        """Acknowledged calls per second in each tenth of a second."""
        buckets = [0] * ((self.end_ns - self.start_ns) // BUCKET_NS)
        for operation in operations:
            if operation.is_acknowledged and operation.return_ns is not None:
                bucket = (operation.return_ns - self.start_ns) // BUCKET_NS
                if 0 <= bucket < len(buckets):
                    buckets[bucket] += 1_000_000_000 // BUCKET_NS
        return buckets


class Watch:
    """Samples a group until the `with` ends."""

    def __init__(self, admins: Sequence[str], timeline: Timeline) -> None:
        self._admins = admins
        self._timeline = timeline
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Watch:
        """Start."""
        self._timeline.start_ns = time.monotonic_ns()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()
        self._timeline.end_ns = time.monotonic_ns()

    def _run(self) -> None:
        while not self._ended.wait(EVERY_S):
            answers = [status for status in map(ask, self._admins) if status is not None]
            newest = max(answers, key=lambda status: (status.view, status.decided), default=None)
            samples = self._timeline.samples
            if newest is not None and (not samples or newest.view >= samples[-1].view):
                leader = next(
                    (each.node for each in answers if each.leads and each.view == newest.view), None
                )
                samples.append(Sample(time.monotonic_ns(), newest.view, newest.members, leader))


def draw(timeline: Timeline, operations: Sequence[Operation], title: str, directory: Path) -> list[Path]:
    """The pictures, as SVG and as PNG; refuses with ModuleNotFoundError where matplotlib is missing."""
    matplotlib: Any = importlib.import_module("matplotlib")
    matplotlib.use("svg")
    pyplot: Any = importlib.import_module("matplotlib.pyplot")
    length = (timeline.end_ns - timeline.start_ns) / 1e9
    with matplotlib.rc_context(_SETTINGS):
        figure, (calls, views, members) = pyplot.subplots(
            3, 1, figsize=(10, 7), sharex=True, layout="constrained", height_ratios=(3, 1.5, 2.5)
        )
        _draw_rates(calls, timeline.rates(operations))
        _draw_views(views, timeline)
        _draw_members(members, timeline)
        for axes in (calls, views, members):
            _draw_marks(axes, timeline, has_text=axes is calls)
        members.set(xlim=(0, length), xlabel="seconds")
        calls.set_title(title, fontsize=10)
        pictures = []
        for end, metadata in _METADATA.items():
            pictures.append(directory / f"timeline.{end}")
            figure.savefig(pictures[-1], dpi=150, metadata=metadata)
        pyplot.close(figure)
    return pictures


def _draw_rates(axes: Axes, rates: list[int]) -> None:
    seconds = [index * BUCKET_NS / 1e9 for index in range(len(rates))]
    axes.fill_between(seconds, rates, step="post", color=BLUE, alpha=0.8)
    axes.set(ylabel="acknowledged calls/s", ylim=(0, max(rates, default=1) * 1.35))


def _draw_views(axes: Axes, timeline: Timeline) -> None:
    seconds = [(sample.at_ns - timeline.start_ns) / 1e9 for sample in timeline.samples]
    axes.step(seconds, [sample.view for sample in timeline.samples], where="post", color=BLUE)
    last = max((sample.view for sample in timeline.samples), default=1)
    axes.set(ylabel="view", yticks=range(1, last + 1, max(1, last // 5)))


def _draw_members(axes: Axes, timeline: Timeline) -> None:
    stays = timeline.stays()
    for node, (start_ns, end_ns) in stays.items():
        start = (start_ns - timeline.start_ns) / 1e9
        is_there = bool(timeline.samples) and node in timeline.samples[-1].members
        axes.barh(node, (end_ns - start_ns) / 1e9, left=start, height=0.6, color=GREEN if is_there else GREY)
    for node in stays:
        led = [
            (sample.at_ns - timeline.start_ns) / 1e9 for sample in timeline.samples if sample.leader == node
        ]
        axes.plot(led, [node] * len(led), linestyle="none", marker="s", markersize=2, color=BLUE)
    axes.set(ylabel="member (blue: leads)", yticks=sorted(stays))
    axes.invert_yaxis()


def _draw_marks(axes: Axes, timeline: Timeline, *, has_text: bool) -> None:
    top = axes.get_ylim()[1]
    for index, mark in enumerate(timeline.marks):
        start, end = ((at - timeline.start_ns) / 1e9 for at in (mark.start_ns, mark.end_ns))
        axes.axvspan(start, end, color=RED, alpha=0.25, linewidth=0)
        axes.axvline(start, color=RED, linewidth=1)
        if has_text:
            axes.text(
                start + 0.1, top * (0.97 - 0.08 * (index % 3)), mark.text, color=RED, fontsize=8, va="top"
            )
