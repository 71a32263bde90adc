"""Jobs for worker processes: those of a worker that is killed are done by another one.

python examples/job_queue.py [ENDPOINT]  # as of `quorate up quorate.objects:JobManager`"""

import sys
import time
from multiprocessing import get_context

import quorate
from quorate.objects import JobManager


def work(endpoint: str, name: str, seconds: float) -> None:
    """A worker: takes jobs, each of which it works on for so long, until it is ended."""
    with quorate.connect(endpoint, JobManager[str], session_timeout=1) as jobs:
        while True:
            try:
                if (taken := jobs.take()) is not None:
                    number, job = taken
                    print(f"{name} takes job {number}", flush=True)
                    time.sleep(seconds)  # the work
                    jobs.finish(number, f"{job}, done by {name}")
            except (quorate.SessionExpired, RuntimeError):
                print(f"{name} stood still for too long: its job is another's", flush=True)


def run(endpoint: str) -> None:
    """Submit three jobs, kill the worker that has the first one, and wait for all results."""
    with quorate.connect(endpoint, JobManager[str]) as jobs:
        numbers = [jobs.submit(job) for job in ("wash", "dry", "iron")]
        process = get_context("spawn").Process
        slow = process(target=work, args=(endpoint, "slow", 3600), daemon=True)
        slow.start()
        while jobs.counts()["worked on"] == 0:
            time.sleep(0.01)
        quick = process(target=work, args=(endpoint, "quick", 0.1), daemon=True)
        quick.start()
        slow.kill()  # its session ends after a second of silence, and its job is taken again
        for number in numbers:
            print(f"job {number}: {jobs.result(number)}", flush=True)
            jobs.forget(number)
        quick.terminate()


if __name__ == "__main__":
    if sys.argv[1:]:
        run(sys.argv[1])
    else:
        with (group := quorate.local(JobManager)):
            run(group.endpoint)
