"""Classes whose constructors take what JSON cannot say, and names that `quorate.local` has as options."""

from __future__ import annotations

import dataclasses
from typing import Any


@dataclasses.dataclass
class Limit:
    name: str
    most: int


class Keeper:
    """Keeps its arguments."""

    def __init__(self, *given: Any, nodes: int = 0, **named: Any) -> None:
        self.given, self.nodes, self.named = given, nodes, named

    def told(self) -> Any:
        return [list(self.given), self.nodes, self.named]
