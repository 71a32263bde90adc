"""Certificates of Python clients, against a group of real processes that takes sealed connections only."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import quorate
from quorate._local import start_group


@pytest.fixture(scope="module")
def group() -> Iterator[dict[str, Any]]:
    with start_group("rust:counter", ["--tls", "--nodes", "1", "--port", "0"], Path.cwd()) as ready:
        yield ready


def test_both_flavours_bring_their_certificates(group: dict[str, Any]) -> None:
    tls = quorate.Tls(**group["tls"])
    with quorate.connect(group["endpoint"], tls=tls) as counter:
        assert counter.add(5) == 5

    async def add() -> Any:
        async with quorate.aconnect(group["endpoint"], tls=tls) as counter:
            return await counter.add(1)

    assert asyncio.run(add()) == 6


def test_a_plain_client_is_told_what_to_bring(group: dict[str, Any]) -> None:
    with pytest.raises(quorate.Refused, match=r"speaks TLS.*quorate\.Tls"):
        quorate.connect(group["endpoint"])


def test_a_file_that_cannot_be_read_is_named(group: dict[str, Any], tmp_path: Path) -> None:
    absent = tmp_path / "absent.key"
    with pytest.raises(quorate.Refused, match=r"absent\.key"):
        quorate.connect(group["endpoint"], tls=quorate.Tls(**{**group["tls"], "key": absent}))
