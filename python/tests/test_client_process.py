"""What a client's process may do: fork, end, be interrupted, wait for a name service, write a log."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

import quorate
from quorate import _local


@pytest.fixture(scope="module")
def counter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The endpoint of a counter."""
    directory = tmp_path_factory.mktemp("counter")
    options = ["--port", "0", "--persist", "memory", "--dir", str(directory / "data")]
    with _local.start_group("rust:counter", options, directory) as ready:
        yield ready["endpoint"]


def program(text: str, *words: str, **environment: str) -> subprocess.Popen[str]:
    """A Python program of its own; its first line says that it is ready."""
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(text), *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )


def outcome(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    try:
        said, complained = process.communicate(timeout=30)
    finally:
        process.kill()
    return process.returncode, said, complained


def test_callbacks_that_call_close_or_cancel_hold_up_no_other_call(counter: str) -> None:
    text = """
        import sys, threading, quorate
        heard, told = [], threading.Event()
        def call(future):
            heard.append(counter.add(1) > future.result())
            if len(heard) == 300:
                told.set()
        connection = quorate.connect(sys.argv[1])
        counter = connection.proxy
        for _ in range(300):
            quorate.submit(counter.add, 1).add_done_callback(call)
        print(told.wait(20), all(heard))
        closed = threading.Event()
        def close(_):
            for future in futures:
                future.cancel()
            connection.close()
            closed.set()
        futures = [quorate.submit(counter.add, 1) for _ in range(3000)]
        for future in futures:
            future.add_done_callback(close)
        print(closed.wait(20))
        """
    assert outcome(program(text, counter)) == (0, "True True\nTrue\n", "")


# What the main thread runs itself is over before the program ends.
CALL_BACK_ELSEWHERE = """
        import sys, threading, time, quorate
        runs = threading.Event()
        def callback(_):
            if threading.current_thread() is threading.main_thread():
                return
            runs.set()
            WORK
        counter = quorate.connect(sys.argv[1]).proxy
        while not runs.wait(0.01):
            for future in [quorate.submit(counter.add, 1) for _ in range(200)]:
                future.add_done_callback(callback)
        print("ends")
        """


@pytest.mark.parametrize("work", ["while True: pass", "while True: time.sleep(0.001)"])
def test_a_callback_that_never_ends_does_not_outlive_the_interpreter(counter: str, work: str) -> None:
    """It is interrupted where it still runs a second after the main thread is done."""
    code, said, complained = outcome(program(CALL_BACK_ELSEWHERE.replace("WORK", work), counter))
    assert (code, said) == (0, "ends\n")
    assert complained.rstrip().endswith("SystemExit:"), complained


def test_callbacks_that_have_not_begun_are_left_out_at_the_end(counter: str) -> None:
    """Two hundred times 0.2 seconds are not waited for."""
    work = "end = time.monotonic() + 0.2\n            while time.monotonic() < end: pass"
    begun = time.monotonic()
    process = program(CALL_BACK_ELSEWHERE.replace("WORK", work), counter)
    assert outcome(process) == (0, "ends\n", "")
    assert time.monotonic() - begun < 20


def test_a_forked_process_is_refused_and_its_parent_goes_on(counter: str) -> None:
    code, said, complained = outcome(
        program(
            """
            import os, sys, quorate
            connection = quorate.connect(sys.argv[1])
            counter = connection.proxy
            pending = quorate.submit(counter.get)
            before = counter.add(1)
            child = os.fork()
            if child == 0:
                try:
                    for use in (counter.get, lambda: quorate.submit(counter.get), pending.result):
                        try:
                            use()
                        except quorate.Forked as error:
                            print(error.executed, error.retry, "connect in this process" in str(error))
                    connection.close()
                    with quorate.connect(sys.argv[1]) as own:
                        print("own", own.add(1) - before)
                    del connection, counter, pending
                finally:
                    sys.stdout.flush()
                    os._exit(0)
            os.waitpid(child, 0)
            print("parent", counter.add(1) - before, [quorate.submit(counter.add, 1).result() - before])
            """,
            counter,
        )
    )
    assert (code, complained) == (0, "")
    lines = said.splitlines()
    assert lines[:2] == ["False False True"] * 2
    assert lines[-2:] == ["own 1", "parent 2 [3]"]


def test_a_process_that_multiprocessing_forks_may_end_in_order(counter: str) -> None:
    code, said, complained = outcome(
        program(
            """
            import multiprocessing, sys, quorate
            counter = quorate.connect(sys.argv[1]).proxy
            counter.get()
            def work():
                try:
                    counter.get()
                except quorate.Forked:
                    print("refused", flush=True)
            child = multiprocessing.get_context("fork").Process(target=work)
            child.start(); child.join(20)
            print(child.exitcode, counter.get() >= 0)
            """,
            counter,
        )
    )
    assert (code, said, complained) == (0, "refused\n0 True\n", "")


def test_a_process_that_is_forked_while_a_callback_runs_ends_at_once(counter: str) -> None:
    text = """
        import atexit, os, sys, threading, time
        ends = []
        atexit.register(lambda: print(time.monotonic() - ends[0] < 0.5, flush=True))
        import quorate
        atexit.register(lambda: ends.append(time.monotonic()))
        connection = quorate.connect(sys.argv[1])
        runs, forked = threading.Event(), threading.Event()
        def callback(_):
            runs.set()
            forked.wait(20)
        quorate.submit(connection.proxy.get).add_done_callback(callback)
        runs.wait(20)
        child = os.fork()
        if child == 0:
            sys.exit()
        forked.set()
        os.waitpid(child, 0)
        """
    assert outcome(program(text, counter)) == (0, "True\nTrue\n", "")


@pytest.mark.parametrize(
    "begin",
    [
        "[quorate.submit(counter.add, 0) for _ in range(3000)]",
        "[quorate.submit(counter.add, 0).add_done_callback(print) for _ in range(300)]",
        "__import__('threading').Thread(target=counter.add, args=(0,), daemon=True).start()",
    ],
)
def test_an_interpreter_that_ends_with_calls_pending_is_silent_and_quick(counter: str, begin: str) -> None:
    text = f"""
        import os, signal, sys, quorate
        connection = quorate.connect(sys.argv[1], timeout=30.0)
        counter = connection.proxy
        counter.get()
        kept = {begin}
        print("ready", flush=True)
        """
    begun = time.monotonic()
    code, said, complained = outcome(program(text, counter))
    assert (code, complained) == (0, "")
    assert "ready" in said
    assert time.monotonic() - begun < 10


def test_an_event_loop_that_ends_with_calls_that_nobody_awaits_is_silent(counter: str) -> None:
    text = """
        import asyncio, sys, quorate
        async def calls():
            async with quorate.aconnect(sys.argv[1]) as counter:
                kept = [counter.add(0) for _ in range(100)]
                await counter.get()
                kept += [counter.add(0) for _ in range(100)]
            await asyncio.sleep(0.01)
        for _ in range(5):
            asyncio.run(calls())
        """
    assert outcome(program(text, counter)) == (0, "", "")


def test_an_interpreter_that_ends_while_nobody_answers_is_silent_and_quick(tmp_path: Path) -> None:
    options = ["--port", "0", "--persist", "memory", "--dir", str(tmp_path / "data")]
    with _local.start_group("rust:counter", options, tmp_path) as ready:
        pids = [int(node["pid"]) for node in ready["nodes"]]
        text = """
            import asyncio, os, signal, sys, time, quorate
            counter = quorate.connect(sys.argv[1], timeout=30.0).proxy
            counter.get()
            for pid in sys.argv[2:]:
                os.kill(int(pid), signal.SIGSTOP)
            kept = [quorate.submit(counter.add, 1) for _ in range(3000)]
            async def calls():
                async with quorate.aconnect(sys.argv[1], timeout=30.0) as proxy:
                    pass
            try:
                asyncio.run(asyncio.wait_for(calls(), 0.1))
            except TimeoutError:
                print(time.monotonic())
            """
        try:
            code, said, complained = outcome(program(text, ready["endpoint"], *map(str, pids)))
            assert (code, complained) == (0, "")
            assert time.monotonic() - float(said) < 2
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGCONT)


# Who starts the tests in the background may have them ignore Ctrl-C, and programs inherit that.
INTERRUPTED = """
    import signal, sys, time, quorate
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        print("ready", flush=True)
        {act}
    except KeyboardInterrupt:
        print(time.monotonic())
    """


def interrupted_after(process: subprocess.Popen[str], pause: float) -> float:
    """Seconds from Ctrl-C to KeyboardInterrupt."""
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(pause)
    sent = time.monotonic()
    process.send_signal(signal.SIGINT)
    code, said, complained = outcome(process)
    assert (code, complained) == (0, "")
    return float(said) - sent


def is_interrupted_at_once(
    text: str, pause: float, words: Sequence[str] = (), stopped: Sequence[int] = ()
) -> bool:
    """Whether one of three such programs is: a loaded machine may hold up one or the other."""
    for _ in range(3):
        taken = interrupted_after(program(text, *words), pause)
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)
        if taken < 0.1:
            return True
    return False


def test_ctrl_c_interrupts_a_connect_at_once() -> None:
    act = "quorate.connect('quorate://127.0.0.1:1/counter', timeout=30.0)"
    assert is_interrupted_at_once(INTERRUPTED.format(act=act), 0.3)


def test_ctrl_c_interrupts_a_connect_of_an_event_loop_at_once() -> None:
    act = """__import__("asyncio").run(
            quorate.aconnect('quorate://127.0.0.1:1/counter', timeout=30.0).__aenter__())"""
    assert is_interrupted_at_once(INTERRUPTED.format(act=act), 0.5)


UNANSWERED = """
        import asyncio, os, signal
        def stop():
            for pid in sys.argv[2:]:
                os.kill(int(pid), signal.SIGSTOP)
        async def wait():
            async with quorate.aconnect(sys.argv[1], timeout=30.0) as own:
                stop()
                await own.get()
        counter = quorate.connect(sys.argv[1], timeout=30.0).proxy
        {use}"""


@pytest.fixture(scope="module")
def stoppable(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, list[int]]]:
    """The endpoint of a counter, and the processes of its nodes."""
    directory = tmp_path_factory.mktemp("stoppable")
    options = ["--port", "0", "--persist", "memory", "--dir", str(directory / "data")]
    with _local.start_group("rust:counter", options, directory) as ready:
        yield ready["endpoint"], [int(node["pid"]) for node in ready["nodes"]]


@pytest.mark.parametrize(
    "use",
    [
        "stop(); counter.get()",
        "stop(); quorate.submit(counter.get).result()",
        "stop(); quorate.gather(*[quorate.submit(counter.get) for _ in range(3000)])",
        "asyncio.run(wait())",
    ],
)
def test_ctrl_c_interrupts_calls_at_once(stoppable: tuple[str, list[int]], use: str) -> None:
    endpoint, pids = stoppable
    text = INTERRUPTED.format(act=UNANSWERED.format(use=use))
    assert is_interrupted_at_once(text, 0.5, [endpoint, *map(str, pids)], pids)


SLOW_NAMES = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netdb.h>
#include <stdlib.h>
#include <unistd.h>
static int asked;
int getaddrinfo(const char *n, const char *s, const struct addrinfo *h, struct addrinfo **r) {
    int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **) =
        dlsym(RTLD_NEXT, "getaddrinfo");
    if (asked++ && getenv("SLOW_ONCE"))
        return real(n, s, h, r);
    sleep(20);
    return EAI_AGAIN;
}
"""


@pytest.fixture(scope="module")
def slow_names(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A library that makes the name service of a process slow; with SLOW_ONCE only when it is asked first."""
    if shutil.which("cc") is None:
        pytest.skip("a slow name service is written in C")
    directory = tmp_path_factory.mktemp("names")
    (directory / "slow.c").write_text(SLOW_NAMES)
    library = directory / "slow.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, directory / "slow.c"], check=True)
    return str(library)


@pytest.mark.parametrize(
    ("words", "code"),
    [(["status"], 4), (["call", "--read", "any"], 4)],
)
def test_a_command_overruns_no_timeout_for_a_name_service(
    slow_names: str, words: list[str], code: int
) -> None:
    command = [_local.program(), words[0], "--endpoint", "quorate://nodes.example:7400", "--timeout", "0.5"]
    command += [*words[1:], "counter", "get"] if words[0] == "call" else []
    environment = {**os.environ, "LD_PRELOAD": slow_names}
    begun = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=environment)
    assert done.returncode == code, done.stderr
    assert time.monotonic() - begun < 5


def test_a_name_service_that_does_not_answer_overruns_no_timeout(slow_names: str) -> None:
    text = """
        import asyncio, time, quorate
        begun = time.monotonic()
        try:
            quorate.connect("quorate://nodes.example:7400/counter", timeout=0.5)
        except quorate.Unavailable as error:
            print(time.monotonic() - begun, error)
        begun = time.monotonic()
        async def connect():
            async with quorate.aconnect("quorate://nodes.example:7400/counter", timeout=0.5):
                pass
        try:
            asyncio.run(connect())
        except quorate.Unavailable as error:
            print(time.monotonic() - begun, error)
        """
    code, said, complained = outcome(program(text, LD_PRELOAD=slow_names))
    assert (code, complained) == (0, "")
    lines = said.splitlines()
    assert len(lines) == 2
    assert all(float(line.split()[0]) < 2 for line in lines), said


def test_a_forked_process_does_not_wait_for_names_that_its_parent_looks_up(
    slow_names: str, counter: str
) -> None:
    text = """
        import os, pathlib, sys, threading, quorate
        def connect():
            return quorate.connect(sys.argv[1], timeout=5.0)
        threading.Thread(target=connect, daemon=True).start()
        def threads():
            return [task.read_text() for task in pathlib.Path("/proc/self/task").glob("*/comm")]
        while not any(name.startswith("quorate-resolve") for name in threads()):
            pass
        child = os.fork()
        if child == 0:
            try:
                with connect() as own:
                    print(own.get() >= 0, flush=True)
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        os._exit(0)
        """
    one = counter.removeprefix("quorate://").split(",")[0].split("/")[0]
    named = f"quorate://{one.replace('127.0.0.1', 'localhost')}/counter"
    code, said, complained = outcome(program(text, named, LD_PRELOAD=slow_names, SLOW_ONCE="1"))
    assert (code, said, complained) == (0, "True\n", "")


def test_a_name_that_has_an_address_is_connected_to(counter: str) -> None:
    with quorate.connect(counter.replace("127.0.0.1", "localhost")) as proxy:
        assert proxy.get() >= 0


def test_the_log_is_silent_until_it_is_set_up(counter: str) -> None:
    text = """
        import sys, quorate
        with quorate.connect(sys.argv[1]) as counter:
            counter.get()
        try:
            quorate.connect("quorate://127.0.0.1:1/counter", timeout=0.2)
        except quorate.Unavailable:
            pass
        """
    assert outcome(program(text, counter)) == (0, "", "")


def test_the_log_tells_connections_that_are_made_and_lost_and_what_is_sent_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="quorate")
    options = ["--port", "0", "--persist", "memory", "--no-restart", "--dir", str(tmp_path / "data")]
    with _local.start_group("rust:counter", options, tmp_path) as ready:
        endpoint = "quorate://127.0.0.1:1," + ready["endpoint"].removeprefix("quorate://")
        with quorate.connect(endpoint, timeout=20.0) as counter:
            counter.add(1)
            leader = current_node(caplog)
            node = next(n for n in ready["nodes"] if n["address"] == leader)
            os.kill(int(node["pid"]), signal.SIGKILL)
            assert counter.add(1) == 2
    told = [(record.levelname, record.getMessage()) for record in caplog.records]
    assert ("INFO", f"connected to node {node['id']} at {leader}") in told
    lost = [text for level, text in told if level == "WARNING" and text.startswith("lost the connection")]
    assert any(leader in text for text in lost), told
    assert any(level == "INFO" and "without an answer are sent there" in text for level, text in told), told


def current_node(caplog: pytest.LogCaptureFixture) -> str:
    said = [r.getMessage() for r in caplog.records if r.getMessage().startswith("connected")]
    return said[-1].split(" at ")[1].split(": ")[0]
