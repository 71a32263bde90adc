"""The fixture `quorate_group`, which pytest finds where quorate is installed.

::

    def test_deposits(quorate_group):
        group = quorate_group(Account, "A-1", balance=100)
        assert group.proxy.deposit(10) == 110
        group.kill(group.leader)
        assert group.proxy.deposit(10) == 120

    def test_without_processes(quorate_group):
        group = quorate_group(Account, "A-1", in_process=True)
        assert group.proxy.deposit(10) == 10
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest


@pytest.fixture
def quorate_group() -> Iterator[Callable[..., Any]]:
    """Start groups as `quorate.local` does, or `quorate.testing.local` with `in_process=True`.

    They end with the test, the last one first.
    """
    # Sessions that use no group do not pay for the package.
    import quorate.testing  # noqa: PLC0415

    with contextlib.ExitStack() as block:

        def start(
            cls: Any, /, *args: Any, in_process: bool = False, **options: Any
        ) -> quorate.LocalGroup[Any] | quorate.testing.RehearsedGroup[Any]:
            group: quorate.LocalGroup[Any] | quorate.testing.RehearsedGroup[Any]
            group = (quorate.testing.local if in_process else quorate.local)(cls, *args, **options)
            block.enter_context(group)
            return group

        yield start
