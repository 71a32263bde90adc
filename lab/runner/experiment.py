"""What an experiment is: figures of a paper, measured here, drawn, and compared with what the paper reports.

A module of lab/experiments defines one as `EXPERIMENT`. Only `measure` starts processes. `judge` and `draw`
see what it recorded and nothing else, so both can be tested without a group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from drawing import Drawing
from stage import Stage

Record = dict[str, Any]
"""One line of the measurements. `losses` lists what acknowledged calls have lost, in words."""


@dataclass(frozen=True)
class Reference:
    """What the paper reports."""

    figure: str
    says: str


@dataclass(frozen=True)
class Check:
    """One claim of the paper, and whether it holds here."""

    figure: str
    claim: str
    paper: str
    here: str
    holds: bool

    def document(self) -> dict[str, Any]:
        """The same as JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Experiment:
    """What a module of lab/experiments defines."""

    title: str
    paper: str
    references: tuple[Reference, ...]
    measure: Callable[[Stage], Iterator[Record]]
    """Yields the records, one by one; the groups that it starts have ended when it ends."""
    judge: Callable[[Sequence[Record]], list[Check]]
    draw: Callable[[Sequence[Record], Drawing], None]

    @property
    def figures(self) -> str:
        """The figures of the paper that it measures."""
        numbers = [reference.figure.removeprefix("figure ") for reference in self.references]
        return f"figure{'s' if len(numbers) > 1 else ''} {', '.join(numbers)}"


def losses(records: Sequence[Record]) -> list[str]:
    """What acknowledged calls have lost in a whole run: empty, or Quorate is wrong."""
    return [loss for record in records for loss in record["losses"]]


@dataclass(frozen=True)
class Verdict:
    """How a run ended."""

    checks: list[Check]
    losses: list[str]

    @property
    def holds(self) -> bool:
        """Whether the paper's shape was found, and nothing was lost."""
        return not self.losses and all(check.holds for check in self.checks)

    def document(self) -> dict[str, Any]:
        """The same as JSON."""
        return {
            "holds": self.holds,
            "checks": [check.document() for check in self.checks],
            "losses": self.losses,
        }


def verdict_of(experiment: Experiment, records: Sequence[Record]) -> Verdict:
    """Judge a whole run."""
    return Verdict(experiment.judge(records), losses(records))
