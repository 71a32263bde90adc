"""How calls are made and awaited: by one thread, by many, by futures, by an event loop, with options."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import gc
import json
import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import odd_targets
import pytest
from subjects import Overdrawn, Wallet

import quorate
from quorate import _local
from quorate._connect import AsyncProxy
from quorate._proxy import flow_of


@pytest.fixture(scope="module")
def counter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The endpoint of a counter."""
    directory = tmp_path_factory.mktemp("counter")
    options = ["--port", "0", "--persist", "memory", "--dir", str(directory / "data")]
    with _local.start_group("rust:counter", options, directory) as ready:
        yield ready["endpoint"]


@contextlib.contextmanager
def stopped_group(directory: Path) -> Iterator[tuple[str, list[int]]]:
    """A counter's endpoint, and the processes of its nodes."""
    options = ["--port", "0", "--persist", "memory", "--no-restart", "--dir", str(directory / "data")]
    with _local.start_group("rust:counter", options, directory) as ready:
        pids = [int(node["pid"]) for node in ready["nodes"]]
        try:
            yield ready["endpoint"], pids
        finally:
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)


def test_threads_that_share_a_connection_get_each_their_own_answers(counter: str) -> None:
    answers: list[int] = []
    with quorate.connect(counter) as proxy:
        before = proxy.get()

        def work() -> None:
            mine = [proxy.add(1) for _ in range(200)]
            assert mine == sorted(set(mine))
            answers.extend(mine)

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(answers) == list(range(before + 1, before + 1601))


def test_threads_may_wait_for_one_future_and_see_one_result(counter: str) -> None:
    with quorate.connect(counter) as proxy:
        future = quorate.submit(proxy.get)
        seen: list[Any] = []
        threads = [threading.Thread(target=lambda: seen.append(future.result())) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert seen == [future.result()] * 4


def test_connections_of_a_process_share_one_thread(counter: str) -> None:
    before = threads_of_this_process()
    with contextlib.ExitStack() as stack:
        proxies = [stack.enter_context(quorate.connect(counter)) for _ in range(8)]
        assert len({quorate.submit(proxy.get).result() for proxy in proxies}) == 1
        assert threads_of_this_process() <= max(before, 2)


def threads_of_this_process() -> int:
    return len(list(Path("/proc/self/task").iterdir()))


def test_futures_work_with_the_standard_library(counter: str) -> None:
    with quorate.connect(counter) as proxy:
        before = proxy.get()
        futures = [quorate.submit(proxy.add, 1) for _ in range(50)]
        done, waiting = concurrent.futures.wait(futures, timeout=10)
        assert (len(done), len(waiting)) == (50, 0)
        answers = {f.result() for f in concurrent.futures.as_completed(futures, timeout=10)}
        assert answers == set(range(before + 1, before + 51))
        more = [quorate.submit(proxy.add, 1) for _ in range(50)]
        assert len({f.result() for f in concurrent.futures.as_completed(more, timeout=10)}) == 50
        assert all(isinstance(future, concurrent.futures.Future) for future in futures)


def test_who_holds_the_condition_of_a_future_sees_one_state(counter: str) -> None:
    with quorate.connect(counter) as proxy:
        futures = [quorate.submit(proxy.get) for _ in range(20)]
        with contextlib.ExitStack() as stack:
            for future in futures:
                stack.enter_context(future._condition)
            before = [future._state for future in futures]
            deadline = time.monotonic() + 10
            while not all(future.done() for future in futures):
                assert time.monotonic() < deadline, "the background thread reads what nobody waits for"
            assert [future._state for future in futures] == before
        done, waiting = concurrent.futures.wait(futures, timeout=10)
        assert (len(done), len(waiting)) == (20, 0)
        assert {future._state for future in futures} == {"FINISHED"}


def test_callbacks_of_futures_run_once_whenever_they_are_added(counter: str) -> None:
    with quorate.connect(counter) as proxy:
        heard: list[Any] = []
        told = threading.Event()
        future = quorate.submit(proxy.get)
        future.add_done_callback(lambda f: heard.append(f.result()))
        future.add_done_callback(lambda _: 1 // 0)
        future.add_done_callback(lambda _: told.set())
        assert told.wait(10), "without anybody who waits for the future itself"
        future.add_done_callback(lambda f: heard.append(f.result()))
        assert heard == [proxy.get()] * 2


def test_a_callback_may_call(counter: str) -> None:
    with quorate.connect(counter) as proxy:
        heard: list[int] = []
        told = threading.Event()

        def call_again(_: Any) -> None:
            heard.append(proxy.get())
            told.set()

        quorate.submit(proxy.get).add_done_callback(call_again)
        assert told.wait(10)
        assert heard == [proxy.get()]


def test_a_result_that_does_not_come_in_time_raises_and_comes_later(tmp_path: Path) -> None:
    with stopped_group(tmp_path) as (endpoint, pids), quorate.connect(endpoint) as proxy:
        stop(pids)
        future = quorate.submit(proxy.add, 1)
        with pytest.raises(TimeoutError):
            future.result(timeout=0.05)
        with pytest.raises(TimeoutError):
            future.exception(timeout=0)
        assert not future.done()
        resume(pids)
        assert future.result(timeout=20) == 1


@pytest.mark.parametrize("timeout", [1e12, 1e19, 1e300, float("inf")])
def test_a_timeout_may_be_longer_than_any_clock(counter: str, timeout: float) -> None:
    with quorate.connect(counter, timeout=min(timeout, 1e19)) as proxy:
        future = quorate.submit(proxy.get)
        assert future.result(timeout=timeout) == proxy.get()


@pytest.mark.parametrize(
    ("timeout", "error"),
    [
        (0, ValueError),
        (-1, ValueError),
        (float("nan"), ValueError),
        (float("inf"), ValueError),
        (1e300, ValueError),
        ("soon", TypeError),
        (None, TypeError),
        (True, TypeError),
    ],
)
def test_a_connection_is_not_begun_with_a_timeout_that_no_clock_has(timeout: Any, error: type) -> None:
    for begin in (quorate.connect, quorate.aconnect):
        with pytest.raises(
            error, match=r"use seconds above 0 and at most 1e\+19|is a number of seconds, not"
        ):
            begin("quorate://127.0.0.1:1/counter", timeout=timeout)


def test_who_waits_for_no_time_is_told_at_once(counter: str) -> None:
    with quorate.connect(counter) as proxy:
        for timeout in (0, -1, float("-inf")):
            future = quorate.submit(proxy.get)
            begun = time.monotonic()
            # It may be answered by then.
            with contextlib.suppress(TimeoutError):
                future.result(timeout=timeout)
            assert time.monotonic() - begun < 5
            assert future.result() == proxy.get()


def test_a_class_with_type_arguments_gives_its_methods(counter: str) -> None:
    with quorate.connect(counter, odd_targets.Box[int]) as proxy:
        assert "put" in dir(proxy)
        assert repr(proxy) == "<replicated Box>"
    wrong: Any = odd_targets.twice
    with pytest.raises(TypeError, match="is not a class"):
        quorate.connect(counter, wrong)


def stop(pids: list[int]) -> None:
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)


def resume(pids: list[int]) -> None:
    for pid in pids:
        os.kill(pid, signal.SIGCONT)


def test_a_future_that_was_not_sent_is_cancelled_and_its_call_is_never_executed(tmp_path: Path) -> None:
    with stopped_group(tmp_path) as (endpoint, pids), quorate.connect(endpoint) as proxy:
        stop(pids)
        # What the first 2048 calls leave no room for waits to be sent.
        sent = [quorate.submit(proxy.add, 1) for _ in range(2048)]
        with pytest.raises(TimeoutError):
            sent[-1].result(timeout=0.1)
        unsent = quorate.submit(proxy.add, 1)
        assert not sent[0].cancel(), "it was sent"
        heard: list[bool] = []
        unsent.add_done_callback(lambda f: heard.append(f.cancelled()))
        assert unsent.cancel() and unsent.cancelled() and unsent.done()
        assert heard == [True]
        with pytest.raises(concurrent.futures.CancelledError):
            unsent.result()
        resume(pids)
        assert sorted(quorate.gather(*sent)) == list(range(1, 2049))
        assert proxy.get() == 2048


def test_a_call_that_waits_until_it_may_be_begun_ends_in_its_own_time(tmp_path: Path) -> None:
    with stopped_group(tmp_path) as (endpoint, pids), quorate.connect(endpoint, timeout=60.0) as proxy:
        stop(pids)
        # About 2048 are in flight and 4096 are queued, until this one makes room for another one.
        others = [quorate.submit(proxy.add, 1) for _ in range(6100)]
        others.append(quorate.submit(quorate.options(proxy, timeout=2.0).add, 1))
        add = quorate.options(proxy, timeout=4.0).add
        for _ in range(200):
            begun = time.monotonic()
            others.append(quorate.submit(add, 1))
            if time.monotonic() - begun > 1.0:
                break
        else:
            pytest.fail("there is room without an end")
        assert isinstance(others[-1].exception(), quorate.QuorateError)
        assert time.monotonic() - begun < 5.0
        resume(pids)


def test_a_thread_that_waits_for_a_future_hears_that_it_was_cancelled(tmp_path: Path) -> None:
    with stopped_group(tmp_path) as (endpoint, pids), quorate.connect(endpoint) as proxy:
        stop(pids)
        sent = [quorate.submit(proxy.add, 1) for _ in range(2048)]
        with pytest.raises(TimeoutError):
            sent[-1].result(timeout=0.1)
        unsent = quorate.submit(proxy.add, 1)
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            waits = pool.submit(unsent.exception)
            with pytest.raises(TimeoutError):
                waits.result(timeout=0.1)
            assert unsent.cancel()
            with pytest.raises(concurrent.futures.CancelledError):
                waits.result(timeout=10)
        resume(pids)


def test_an_event_loop_makes_tasks_groups_and_timeouts_of_calls(counter: str) -> None:
    async def calls() -> None:
        async with quorate.aconnect(counter) as proxy:
            before = await proxy.get()
            task = asyncio.create_task(proxy.add(1))
            assert await task == before + 1
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(proxy.add(1)) for _ in range(100)]
            assert sorted(t.result() for t in tasks) == list(range(before + 2, before + 102))
            async with asyncio.timeout(10):
                assert await proxy.get() == before + 101
            assert await asyncio.wait_for(proxy.get(), 10) == before + 101
            assert await asyncio.shield(proxy.get()) == before + 101
            done, _ = await asyncio.wait([asyncio.ensure_future(asyncio.create_task(proxy.get()))])
            assert {d.result() for d in done} == {before + 101}
            added, seen = await quorate.agather(proxy.add(1), proxy.get())
            assert added == before + 102 and seen in (before + 101, before + 102)
            with pytest.raises(TypeError, match="not an integer"):
                await asyncio.create_task(proxy.add("many"))

    asyncio.run(calls())


def test_many_calls_of_a_loop_wake_it_a_few_times(counter: str) -> None:
    async def calls() -> int:
        async with quorate.aconnect(counter) as proxy:
            loop: Any = asyncio.get_running_loop()
            wakes = 0
            select = loop._selector.select

            def counted(timeout: float | None = None) -> Any:
                nonlocal wakes
                wakes += 1
                return select(timeout)

            loop._selector.select = counted
            await quorate.agather(*[proxy.add(1) for _ in range(1000)])
            return wakes

    assert asyncio.run(calls()) < 200


def test_calls_of_a_loop_that_were_not_sent_are_cancelled_and_never_executed(tmp_path: Path) -> None:
    async def calls(endpoint: str, pids: list[int]) -> int:
        async with quorate.aconnect(endpoint) as proxy:
            stop(pids)
            sent = [proxy.add(1) for _ in range(2048)]
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.1):
                    await asyncio.shield(sent[-1])
            waits = asyncio.create_task(proxy.add(1))
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.1):
                    await waits
            assert waits.cancelled()
            resume(pids)
            assert sorted(await quorate.agather(*sent)) == list(range(1, 2049))
            return int(await proxy.get())

    with stopped_group(tmp_path) as (endpoint, pids):
        assert asyncio.run(calls(endpoint, pids)) == 2048


def test_an_event_loop_that_calls_without_end_goes_on_while_nobody_answers(tmp_path: Path) -> None:
    async def calls(endpoint: str, pids: list[int]) -> int:
        async with quorate.aconnect(endpoint, timeout=30.0) as proxy:
            assert await proxy.get() == 0
            stop(pids)
            begun = time.monotonic()
            many = [proxy.add(1) for _ in range(8000)]
            await asyncio.sleep(0)
            assert time.monotonic() - begun < 10, "the loop does not wait for room"
            assert many.pop().cancel()
            resume(pids)
            assert sorted(await quorate.agather(*many)) == list(range(1, 8000))
            return int(await proxy.get())

    with stopped_group(tmp_path) as (endpoint, pids):
        assert asyncio.run(calls(endpoint, pids)) == 7999


def test_a_cancelled_call_that_was_sent_ends_the_waiting_and_others_go_on(counter: str) -> None:
    async def calls() -> None:
        async with quorate.aconnect(counter) as proxy:
            task = asyncio.create_task(proxy.add(0))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await proxy.get() == await proxy.get()

    asyncio.run(calls())


def test_one_connection_serves_one_event_loop_after_another() -> None:
    with quorate.local(Wallet, 5) as wallet:
        proxy: Any = AsyncProxy(flow_of(wallet))

        async def total() -> Any:
            return await proxy.total()

        async def overdraw() -> None:
            with pytest.raises(Overdrawn):
                await proxy.withdraw(6)

        assert [asyncio.run(total()) for _ in range(3)] == [5, 5, 5]
        asyncio.run(overdraw())
        assert wallet.total() == 5


def test_loops_that_end_before_their_calls_are_let_go(counter: str) -> None:
    with quorate.connect(counter) as proxy:
        shared: Any = AsyncProxy(flow_of(proxy))
        loops: list[weakref.ref[asyncio.AbstractEventLoop]] = []

        async def leave() -> None:
            loops.append(weakref.ref(asyncio.get_running_loop()))
            kept = [shared.add(0) for _ in range(50)]
            await asyncio.sleep(0)
            assert len(kept) == 50

        for _ in range(20):
            asyncio.run(leave())
        descriptors = len(list(Path("/proc/self/fd").iterdir()))
        for _ in range(20):
            asyncio.run(leave())
        assert proxy.get() == proxy.get(), "all of them have ended"
        asyncio.run(leave())
        gc.collect()
        assert sum(loop() is not None for loop in loops) <= 3
        assert len(list(Path("/proc/self/fd").iterdir())) <= descriptors + 3


def test_a_connection_that_an_event_loop_cannot_make_raises_in_time_and_can_be_cancelled() -> None:
    async def connect(timeout: float) -> None:
        async with quorate.aconnect("quorate://127.0.0.1:1/counter", timeout=timeout):
            raise AssertionError("nobody listens there")

    async def cancel() -> None:
        async with asyncio.timeout(0.05):
            await connect(30.0)

    begun = time.monotonic()
    with pytest.raises(quorate.Unavailable, match="no quorum"):
        asyncio.run(connect(0.3))
    with pytest.raises(TimeoutError):
        asyncio.run(cancel())
    assert time.monotonic() - begun < 5


def test_options_give_another_proxy_with_a_timeout_of_its_own(tmp_path: Path) -> None:
    with stopped_group(tmp_path) as (endpoint, pids), quorate.connect(endpoint, timeout=30.0) as proxy:
        hasty = quorate.options(proxy, timeout=0.2)
        assert hasty.add(1) == 1
        stop(pids)
        begun = time.monotonic()
        with pytest.raises(quorate.TimedOut):
            hasty.add(1)
        assert 0.15 < time.monotonic() - begun < 5
        resume(pids)
        assert proxy.get() in (1, 2)


def test_options_name_the_level_of_reads_and_keep_what_they_do_not_name(counter: str) -> None:
    with quorate.connect(counter) as proxy:
        total = proxy.add(0)
        for level in ("ordered", "confirmed", "broadcast", "lease", "any"):
            view = quorate.options(quorate.options(proxy, level=level), timeout=5.0)
            assert view.get() == total
            assert quorate.freshness(view).slot > 0, "it was a read"
        called = quorate.options(quorate.options(proxy, level="any"), level=None)
        assert called.add(0) == total
        assert quorate.freshness(called).slot == 0, "it was a call"


def test_a_call_without_retry_ends_with_its_connection(tmp_path: Path) -> None:
    with stopped_group(tmp_path) as (endpoint, pids), quorate.connect(endpoint, timeout=30.0) as proxy:
        once = quorate.options(proxy, retry=False)
        assert once.add(1) == 1
        stop(pids)
        future = quorate.submit(once.add, 1)
        with pytest.raises(TimeoutError):
            future.result(timeout=0.05)
        begun = time.monotonic()
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        with pytest.raises(quorate.OutcomeUnknown, match="not to be sent again") as caught:
            future.result()
        assert caught.value.cause == "connection_lost"
        assert time.monotonic() - begun < 5, "not at the timeout"


@pytest.mark.parametrize(
    ("named", "error"),
    [
        ({"timeout": 0}, ValueError),
        ({"timeout": -1.0}, ValueError),
        ({"timeout": float("nan")}, ValueError),
        ({"timeout": 1e300}, ValueError),
        ({"timeout": "soon"}, TypeError),
        ({"level": "fresh"}, ValueError),
        ({"retry": 3}, TypeError),
        ({"retries": True}, TypeError),
    ],
)
def test_options_that_do_not_exist_are_refused(counter: str, named: dict[str, Any], error: type) -> None:
    with quorate.connect(counter) as proxy, pytest.raises(error):
        quorate.options(proxy, **named)


def test_a_closed_connection_refuses_calls_and_ends_those_under_way(tmp_path: Path) -> None:
    with stopped_group(tmp_path) as (endpoint, pids):
        connection = quorate.connect(endpoint)
        stop(pids)
        future = quorate.submit(connection.proxy.add, 1)
        with pytest.raises(TimeoutError):
            future.result(timeout=0.05)
        connection.close()
        with pytest.raises(quorate.OutcomeUnknown):
            future.result(timeout=5)
        with pytest.raises(quorate.Closed):
            connection.proxy.get()
        connection.close()


def test_bench_measures_the_python_client_beside_the_rust_client(counter: str) -> None:
    words = [
        "bench",
        "--python-client",
        "--endpoint",
        counter,
        "--seconds",
        "0.2",
        "--warmup",
        "0",
        "-o",
        "json",
    ]
    environment = {**os.environ, "QUORATE_PYTHON": sys.executable}
    done = subprocess.run(
        [_local.program(), *words], capture_output=True, text=True, timeout=60, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert [row["way"] for row in report["rust"]] == ["sync", "window"]
    assert [row["way"] for row in report["python"]] == ["sync", "gather", "agather", "tasks"]
    for row in (*report["rust"], *report["python"]):
        assert row["calls_per_s"] > 0 and row["p50_us"] <= row["p99_us"]
    assert all(row["cpu_us_per_call"] > 0 for row in report["python"])


def test_bench_of_the_python_client_refuses_what_it_does_not_call() -> None:
    words = ["bench", "--python-client", "--object", "rust:kv", "--seconds", "0.1"]
    done = subprocess.run([_local.program(), *words], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "--python-client does not call rust:kv" in done.stderr
