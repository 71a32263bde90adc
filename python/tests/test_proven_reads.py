"""Methods that are shown to change nothing run as reads; no method that writes is taken for one."""

from __future__ import annotations

import functools
import inspect
import json
import os
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
import reading_subjects
import subjects

import quorate
from quorate import _names, _native, _proxy

_names.register(reading_subjects.Fields)


def own_methods(cls: type) -> list[str]:
    return [name for name, member in vars(cls).items() if not name.startswith("_") and callable(member)]


def output_alone(program: str) -> str:
    """What a program prints in a process that has no classes of other tests: any of them might be a key."""
    paths = [str(Path(__file__).parent), str(Path(quorate.__file__).parent.parent)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    return subprocess.run(
        [sys.executable, "-c", program],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
        timeout=60,
    ).stdout


@functools.cache
def findings() -> dict[str, dict[str, list[Any]]]:
    """What is found in a process that has no other classes than these: in this one all tests' classes are."""
    program = """if True:
        import json, reading_subjects
        from quorate import _names, _reads
        _names.register(reading_subjects.Fields)
        found = {}
        for cls in (reading_subjects.Reads, reading_subjects.Writes):
            methods = [name for name in vars(cls) if not name.startswith("_")]
            each = {name: _reads.find(cls(), name) for name in methods}
            found[cls.__name__] = {name: [f.kind, f.reason, f.file, f.line] for name, f in each.items()}
        print(json.dumps(found))
    """
    found: dict[str, dict[str, list[Any]]] = json.loads(output_alone(program))
    return found


@pytest.mark.parametrize("method", own_methods(reading_subjects.Reads))
def test_a_method_that_only_reads_is_proven(method: str) -> None:
    kind, reason, file, line = findings()["Reads"][method]
    assert kind in ("proven", "declared"), f"{file}:{line}: {reason}"


@pytest.mark.parametrize("method", own_methods(reading_subjects.Writes))
def test_a_method_that_may_write_is_not_proven_and_the_reason_has_a_line(method: str) -> None:
    kind, reason, file, line = findings()["Writes"][method]
    assert kind == ""
    assert reason
    if isinstance(vars(reading_subjects.Writes)[method], types.FunctionType):
        assert file == "reading_subjects.py"
        assert line > 0


@pytest.mark.parametrize("method", own_methods(reading_subjects.Reads))
def test_what_is_proven_leaves_the_image_as_it_was(method: str) -> None:
    target: Any = cast(Any, reading_subjects.Reads)()
    # Iterators and counts are carried too, so using them up would show.
    before = _native.dump_state(target)
    bound: Any = getattr(target, method)
    parameters = inspect.signature(bound).parameters
    bound(*(2 if name == "n" else "a" for name in parameters))
    assert _native.dump_state(target) == before


def test_a_proof_ends_when_an_attribute_gets_another_type() -> None:
    output_alone("""if True:
        import collections, reading_subjects
        from quorate import _names, _reads
        _names.register(reading_subjects.Shelf)
        shelf, reads = reading_subjects.Shelf(), _reads.Reads()
        assert reads.kind(shelf, "find") == "proven"
        shelf.books = collections.defaultdict(int)
        assert reads.kind(shelf, "find") == ""
    """)


def test_a_method_whose_code_is_not_that_of_its_source_is_not_proven() -> None:
    output_alone("""if True:
        import reading_subjects
        from quorate import _names, _reads
        _names.register(reading_subjects.Shelf)
        find = reading_subjects.Shelf.find
        assert _reads.find(reading_subjects.Shelf(), "find").is_read
        find.__code__ = find.__code__.replace(co_consts=(*find.__code__.co_consts, "another"))
        assert "no source" in _reads.find(reading_subjects.Shelf(), "find").reason
    """)


def until(holds: Callable[[], bool], go_on: Callable[[], Any]) -> None:
    """Do something until a condition holds."""
    for _ in range(10_000):
        if holds():
            return
        go_on()
    raise AssertionError("it never held")


def test_a_client_reads_what_the_host_has_proven() -> None:
    with quorate.local(subjects.Basket, nodes=3) as basket:
        flow = _proxy.flow_of(basket)
        basket.put("pear", 2)
        until(lambda: "count" in flow.proven, lambda: basket.put("apple", 1))
        assert "put" not in flow.proven
        assert quorate.reading(basket).count("pear") == 2
        assert quorate.freshness(basket).slot == 0
        assert basket.count("pear") == 2
        assert quorate.freshness(basket).slot > 0, "it was not read"


def test_a_read_whose_proof_no_longer_holds_is_ordered() -> None:
    with quorate.local(subjects.Basket, nodes=3) as basket:
        flow = _proxy.flow_of(basket)
        until(lambda: "count" in flow.proven, lambda: basket.put("apple", 1))
        basket.forgive()
        assert basket.count("plum") == 0
        assert "count" not in flow.proven
        assert basket.names() == ["apple", "plum"], "the call has changed the basket, on all replicas"
        flow.proven.add("count")
        assert quorate.submit(basket.count, "fig").result() == 0
        with pytest.raises(quorate.NotReadOnly, match="`quorate check` says why"):
            quorate.reading(basket).count("fig")


def test_many_reads_of_an_event_loop_whose_proof_no_longer_holds_are_all_ordered() -> None:
    text = """if True:
        import asyncio, quorate, subjects
        from quorate._connect import AsyncProxy
        from quorate._proxy import flow_of
        async def deposits(proxy):
            return await quorate.agather(*[proxy.deposit(1) for _ in range(2000)])
        with quorate.local(subjects.Wallet, 0) as wallet:
            flow = flow_of(wallet)
            totals = []
            for _ in range(5):
                flow.proven.add("deposit")
                totals += asyncio.run(deposits(AsyncProxy(flow)))
            print(len(totals), sorted(totals) == list(range(1, 10_001)))
    """
    assert output_alone(text) == "10000 True\n"
