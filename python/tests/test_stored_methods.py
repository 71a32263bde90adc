"""A method that only the instance has, or that an attribute gives, is called like one of the class."""

from __future__ import annotations

import asyncio
import subprocess
from typing import Any

import pytest
from stored_subjects import Numbers, Triggered

import quorate
from quorate import _local
from quorate._connect import AsyncProxy
from quorate._proxy import flow_of


def test_methods_that_only_the_instance_has_are_called() -> None:
    with quorate.local(Numbers, nodes=1) as numbers:
        proxy: Any = numbers
        assert (proxy.index(2), proxy.grow(), proxy.items, proxy.limit) == (1, 4, [1, 2, 3, 4], 5)
        assert proxy.every(2) == [1, 3]
        with pytest.raises(quorate.NoSuchMethod, match="`limit` of Numbers is not a method"):
            flow_of(proxy).call("limit", (), {})
        for name in ("_add", "kind", "absent"):
            with pytest.raises(quorate.NoSuchMethod):
                flow_of(proxy).call(name, (1,), {})

        async def call() -> Any:
            other: Any = AsyncProxy(flow_of(proxy))
            return await other.limit, await other.index(3)

        assert asyncio.run(call()) == (5, 2)


def test_methods_that_are_made_when_they_are_asked_for_are_called() -> None:
    with quorate.local(Triggered, nodes=1) as machine:
        proxy: Any = machine
        assert (proxy.to_done(), proxy.state) == (True, "done")
        with pytest.raises(AttributeError, match="there is no other"):
            proxy.other()
        endpoint = flow_of(proxy).origin.endpoint  # type: ignore[union-attr]
        command = [_local.program(), "call", "--endpoint", endpoint.rpartition("/")[0], "Triggered", "to_new"]
        assert subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip() == "true"
        assert proxy.state == "new"
