"""What tests of the objects of one group share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from patience import PATIENCE_S

import quorate
from quorate import LocalGroup

collect_ignore = ["hooked_subjects.py"]
"""Searched for doctests it would be loaded, and its classes spoil what is proven of the reads of others."""


@pytest.fixture
def group(nodes: LocalGroup[Any]) -> Iterator[quorate.Group]:
    """A session of the group that the test's module serves; what it creates is dropped."""
    with quorate.group(nodes.endpoint, timeout=PATIENCE_S) as group:
        yield group
        for name in list(group.objects())[1:]:
            group.drop(name)
