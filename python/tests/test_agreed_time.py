"""The agreed time is behind Python's own clocks and classes, which stay what they are."""

from __future__ import annotations

import subprocess
import sys

BEGIN = """
import datetime, logging, random, sqlite3, time
from datetime import date
from time import gmtime as early_gmtime, monotonic as early_monotonic, sleep as early_sleep
real = datetime.datetime
from quorate import _environment, _native
_environment.install()
WALL = 1_700_000_000_123_456_789
_native.set_environment(WALL, 1, 2, 3)
"""


def run(code: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-W", "ignore::DeprecationWarning:sqlite3", "-c", BEGIN + code],
        check=False,
        capture_output=True,
        text=True,
        env={"TZ": "UTC", "PYTHONPATH": ":".join(sys.path)},
        timeout=20,
    )
    assert ended.returncode == 0, ended.stderr


def test_the_class_of_an_agreed_time_is_the_class() -> None:
    run("""
assert datetime.datetime is real
assert type(datetime.datetime.now()) is datetime.datetime
assert type(datetime.datetime.today()) is datetime.datetime
assert type(date.today()) is date
assert isinstance(datetime.datetime(2024, 1, 1), date)
class Mine(datetime.datetime): pass
assert type(Mine.now()) is Mine
""")


def test_all_clocks_tell_the_agreed_time_also_when_they_were_imported_before() -> None:
    run("""
assert str(datetime.datetime.now()) == "2023-11-14 22:13:20.123457", datetime.datetime.now()
assert datetime.datetime.now(tz=datetime.timezone.utc).timestamp() == datetime.datetime.now().timestamp()
assert datetime.datetime.now(datetime.timezone(datetime.timedelta(hours=1))).hour == 23
assert datetime.datetime.now(None) == datetime.datetime.today() == datetime.datetime.now()
assert str(date.today()) == "2023-11-14"
for clock in ("time", "monotonic", "perf_counter", "process_time", "thread_time"):
    assert getattr(time, clock)() == WALL / 1e9, clock
    assert getattr(time, clock + "_ns")() == WALL, clock
assert early_monotonic() == WALL / 1e9
assert early_gmtime() == time.gmtime(None) == time.localtime() == time.gmtime(WALL // 10**9)
assert time.gmtime(0).tm_year == 1970 and time.localtime(86400).tm_mday == 2
assert time.strftime("%Y") == "2023" and time.ctime().startswith("Tue Nov 14")
assert logging.LogRecord("a", 1, "b", 1, "c", (), None).created == WALL / 1e9
assert time.clock_gettime(time.CLOCK_REALTIME) == WALL / 1e9
""")


def test_wrong_arguments_and_sleep_are_refused() -> None:
    run("""
for wrong in (lambda: datetime.datetime.now(1), lambda: datetime.datetime.now(zone=None),
              lambda: datetime.datetime.now(None, None), lambda: datetime.datetime.now(None, tz=None)):
    try:
        wrong()
    except TypeError:
        pass
    else:
        raise AssertionError("accepted")
try:
    early_sleep(1)
except RuntimeError as error:
    assert "the whole group would wait" in str(error)
else:
    raise AssertionError("slept")
""")


def test_waits_end_although_the_agreed_time_stands_still() -> None:
    run("""
import queue, threading
condition = threading.Condition()
with condition:
    assert not condition.wait_for(lambda: False, 0.01)
assert not threading.Semaphore(0).acquire(timeout=0.01)
assert not threading.Event().wait(0.01)
full = queue.Queue(1)
full.put(1)
for wait in (lambda: queue.Queue().get(timeout=60), lambda: full.put(2, timeout=60)):
    try:
        wait()
    except (queue.Empty, queue.Full):
        pass
    else:
        raise AssertionError("it came")
""")


def test_sqlite_takes_an_agreed_time() -> None:
    run("""
base = sqlite3.connect(":memory:")
base.execute("create table t (at text)")
for at in (datetime.datetime.now(), datetime.datetime(2024, 2, 29)):
    base.execute("insert into t values (?)", (at,))
rows = base.execute("select at from t").fetchall()
assert rows == [("2023-11-14 22:13:20.123457",), ("2024-02-29 00:00:00",)], rows
""")


def test_random_generators_stay_their_class_and_draw_from_the_agreed_stream() -> None:
    run("""
import pickle
first, second = random.Random(), random.Random()
assert type(first) is random.Random and first.random() != second.random()
_native.set_environment(WALL, 1, 2, 3)
assert random.Random().random() == pickle.loads(pickle.dumps(random.Random(
    int.from_bytes((_native.set_environment(WALL, 1, 2, 3), _native.agreed_bytes(32))[1], "big")))).random()
class Dice(random.Random): pass
assert Dice(7).random() == random.Random(7).random()
""")


def test_what_a_class_drops_when_it_is_restored_does_not_depend_on_when_that_is() -> None:
    run("""
import time
from quorate import _names
_names.allow_package("__main__")
class Expiring:
    # As cachetools.TTLCache does it.
    def __init__(self): self.until = {}
    def __setstate__(self, state):
        self.__dict__.update(state)
        self.until = {key: end for key, end in self.until.items() if time.monotonic() < end}
        self.drawn = random.random()
    def __getstate__(self): return {"until": self.until}
things = Expiring()
things.until["a"] = time.monotonic() + 10
_native.set_environment(WALL + 20 * 10**9, 1, 3, 3)
before = random.random()
image = _native.dump_state(things)
copies = [_native.load_state(image) for _ in range(2)]
assert copies[0].until == things.until and _native.dump_state(copies[0]) == image
assert copies[0].drawn == copies[1].drawn
assert time.monotonic() == (WALL + 20 * 10**9) / 1e9
_native.set_environment(WALL + 20 * 10**9, 1, 3, 3)
assert random.random() == before
""")


def test_a_number_drawn_depends_on_no_call_before() -> None:
    # Python keeps every second number that `gauss` makes for the next time.
    run("""
def drawn(call):
    _native.set_environment(WALL, 1, call, 0)
    return random.gauss(0, 1)
first = drawn(7)
assert drawn(7) == first, "a replica that restarted between the calls draws another number"
""")
