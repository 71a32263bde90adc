"""What a method can learn of process, thread and machine is the same on all replicas, or refused."""

from __future__ import annotations

import subprocess
import sys

TOLD = """
from quorate import _environment, _native
_environment.install()
_native.set_environment(1_700_000_000_123_456_789, 2, 3, 4)
_environment.refuse_effects(True)
import _random, os, random, threading, time, uuid
def numbers(): yield
class Slotted: __slots__ = ()
print(os.getrandom(4), os.urandom(4), _random.Random().random(), random.Random().random(), os.times())
print(uuid.getnode(), uuid.uuid1(), os.getpid(), threading.get_ident(), threading.get_native_id())
print(threading.current_thread(), threading.main_thread().ident)
print(time.process_time(), time.thread_time(), time.perf_counter(), time.clock_gettime(time.CLOCK_MONOTONIC))
print(numbers(), lambda: 0, threading.Lock(), [].append, numbers)
for name in ("/dev/urandom", b"/dev/random"):
    for open_it in (open, lambda name: os.open(name, os.O_RDONLY)):
        try:
            open_it(name)
        except PermissionError as error:
            print(error)
"""


def told(junk: int) -> str:
    code = f"junk = [object() for _ in range({junk})]" + TOLD
    command = [sys.executable, "-W", "error", "-c", code]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_two_processes_tell_the_same_of_themselves() -> None:
    first = told(0)
    assert first == told(9999)
    assert first.count("differs between replicas: use os.urandom") == 4


def test_threads_and_children_of_a_host_know_themselves() -> None:
    code = """
from quorate import _environment
_environment.install()
import concurrent.futures, os, threading
with concurrent.futures.ThreadPoolExecutor(2) as pool:
    assert list(pool.map(str, range(3))) == ["0", "1", "2"]
    assert pool.submit(threading.get_ident).result() != threading.get_ident()
if os.fork() == 0:
    assert threading.current_thread() is threading.main_thread() and threading.get_ident() == 1
    os._exit(7)
assert os.waitstatus_to_exitcode(os.wait()[1]) == 7
assert threading.current_thread() is threading.main_thread() and threading.get_ident() == 1
"""
    ended = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")
