"""The fixture `quorate_group`, which pytest finds where quorate is installed.

::

    def test_deposits(quorate_group):
        group = quorate_group(Account, "A-1", balance=100)
        assert group.proxy.deposit(10) == 110
        group.kill(group.leader)
        assert group.proxy.deposit(10) == 120
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import quorate


@pytest.fixture
def quorate_group() -> Iterator[Callable[..., quorate.LocalGroup[Any]]]:
    """Start groups as `quorate.local` does; they end with the test, the last one first."""
    # Sessions that use no group do not pay for the package.
    import quorate  # noqa: PLC0415

    with contextlib.ExitStack() as block:

        def start(cls: type[Any] | str, /, *args: Any, **options: Any) -> quorate.LocalGroup[Any]:
            group: quorate.LocalGroup[Any] = quorate.local(cls, *args, **options)
            block.enter_context(group)
            return group

        yield start
