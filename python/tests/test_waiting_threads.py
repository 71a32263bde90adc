"""Threads whose calls wait in the group cost next to nothing meanwhile."""

from __future__ import annotations

import subprocess
import sys

from patience import PATIENCE_S

import quorate
from quorate.objects import Lock

THREADS = 800
SECONDS = 2.0
CPU_SECONDS_MAX = 0.2

WAITING = f"""
import resource
import sys
import threading
import time
import quorate
from quorate.objects import Lock

def cpu():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime

def take():
    lock.acquire()
    lock.release()

with quorate.connect(sys.argv[1], Lock, timeout=60) as lock:
    threads = [threading.Thread(target=take) for _ in range({THREADS})]
    for thread in threads:
        thread.start()
    # What starting them takes is over when nothing is used for a while.
    used, before = cpu(), 0.0
    while used - before > 0.1:
        time.sleep(0.5)
        used, before = cpu(), used
    print("all wait", flush=True)
    time.sleep({SECONDS})
    print(cpu() - used, flush=True)
    for thread in threads:
        thread.join()
print("all were served", flush=True)
"""


def test_eight_hundred_threads_whose_calls_wait_use_no_cpu_until_they_are_answered() -> None:
    group = quorate.local(Lock, timeout=PATIENCE_S)
    with group as lock:
        lock.acquire()
        process = subprocess.Popen(
            [sys.executable, "-c", WAITING, group.endpoint],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdin is not None and process.stdout is not None
        try:
            assert process.stdout.readline() == "all wait\n"
            used = float(process.stdout.readline())
            assert used < CPU_SECONDS_MAX, f"{used:.2f} s of CPU in {SECONDS:g} s"
            lock.release()
            told, _ = process.communicate(timeout=PATIENCE_S)
            assert told == "all were served\n"
        finally:
            process.kill()
            process.wait()
