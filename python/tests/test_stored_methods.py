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


def test_an_attribute_that_is_called_or_read_like_a_method_says_how_it_is_read() -> None:
    with quorate.local(Numbers, nodes=1) as numbers:
        endpoint = flow_of(numbers).origin.endpoint.rpartition("/")[0]  # type: ignore[union-attr]

        def complaint(*words: str) -> str:
            command = [_local.program(), "call", "--endpoint", endpoint, *words]
            return subprocess.run(command, check=False, capture_output=True, text=True).stderr

        for name, kind in (("limit", "not a method: read the attribute"), ("every", "a property: read it")):
            told = complaint("--read", "confirmed", "Numbers", name)
            assert f"`{name}` of Numbers is {kind}, in a shell as `.{name}`" in told
            assert "readonly" not in told
        assert "Numbers has no public method `absent`" in complaint(
            "--read", "confirmed", "Numbers", "absent"
        )
        assert "in a shell as `.limit`" in complaint("Numbers", "limit")
        assert complaint("--read", "confirmed", "Numbers", ".limit") == ""
        told = complaint("--read", "confirmed", "Numbers", "index", "2")
        assert "mark it with @quorate.readonly" in told
        told = complaint("--read", "confirmed", "Numbers", ".counted")
        assert "read it without a level, or mark its property with @quorate.readonly" in told
