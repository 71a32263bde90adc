"""What `quorate lint` and `quorate check` find, and how it is printed."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Level = Literal["problem", "note"]
"""A problem makes replicas differ, loses state, or raises in a group; a note is worth a thought."""


@dataclass(frozen=True, slots=True)
class Found:
    """One place in a class, what is wrong there, and what to do.

    >>> str(Found("problem", "id", "bank.py", 7, "Bank.list", "id(x) differs", "use a name"))
    'bank.py:7: id(x) differs: use a name'
    """

    level: Level
    rule: str
    file: str
    line: int
    function: str
    reason: str
    fix: str

    def __str__(self) -> str:
        note = "note: " if self.level == "note" else ""
        return f"{self.file}:{self.line}: {note}{self.reason}: {self.fix}"


def in_order(found: Iterable[Found]) -> list[Found]:
    """Each once, by place.

    >>> one = Found("note", "alias", "bank.py", 7, "Bank.list", "returned", "copy it")
    >>> len(in_order([one, one]))
    1
    """
    return sorted(dict.fromkeys(found), key=lambda each: (each.file, each.line, each.rule, each.reason))


def as_json(found: Iterable[Found], **more: Any) -> str:
    """One line for scripts.

    >>> as_json([])
    '{"found": []}'
    """
    return json.dumps({**more, "found": [dataclasses.asdict(each) for each in found]})


def table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Rows of words in columns.

    >>> print(table(["A", "B"], [["1", "leader"]]))
    A  B
    1  leader
    """
    widths = [max(len(row[column]) for row in (titles, *rows)) for column in range(len(titles))]
    lines = (
        "  ".join(word.ljust(width) for word, width in zip(row, widths, strict=True))
        for row in (titles, *rows)
    )
    return "\n".join(line.rstrip() for line in lines)


def shown_path(path: str) -> str:
    """A path as people write it here: from this directory on where the file lies below it.

    >>> shown_path("/nowhere/bank.py")
    '/nowhere/bank.py'
    """
    here = os.path.join(os.getcwd(), "")
    return path.removeprefix(here)
