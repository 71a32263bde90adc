"""Sets of objects that Python hashes by their address have one order on all replicas, after a restore too."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hashed_subjects import Crowd

import quorate
from quorate import _hashes, _local

HERE = Path(__file__).parent
BEGIN = """
import collections, functools, weakref
NONE = {None: 1, (6, None): 2}
EITHER = frozenset([None, int, "a"])
BY_CLASS = collections.OrderedDict({int: 1, str: 2})
@functools.singledispatch
def kind(value): return "other"
kind.register(int)(lambda value: "int")
kind(2), kind("")
from quorate import _environment, _native
_environment.install()
_native.set_environment(7, 1, 2, 3)
class Job: pass
class Slotted: __slots__ = ()
def work(): pass
"""


def said(code: str, *arguments: str) -> str:
    ended = subprocess.run(
        [sys.executable, "-c", BEGIN + code] if not arguments else [sys.executable, *arguments],
        check=False,
        capture_output=True,
        text=True,
        env={"PYTHONPATH": ":".join(sys.path), "PYTHONHASHSEED": "77", "TZ": "UTC"},
        timeout=60,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_hashes_and_default_texts_are_the_same_in_all_processes() -> None:
    code = """
job = Job()
print(job, work, *map(hash, (job, None, Job, work, float("nan"), ..., (None, job))))
print({Job() for _ in range(9)}, {int, str, Job, None, job})
print([repr(one) for one in weakref.WeakSet([job, kind])])
"""
    assert len({said(f"junk = [[] for _ in range({count})]" + code) for count in (0, 10, 9999)}) == 1


def test_what_was_hashed_before_is_still_found() -> None:
    said("""
assert NONE[None] == 1 and NONE[6, None] == 2 and None in EITHER and int in EITHER
assert BY_CLASS[int] == 1 and list(BY_CLASS) == [int, str]
assert kind(1) == "int" and kind("") == "other" and {EITHER: 1}[frozenset(["a", int, None])]
assert isinstance([], collections.abc.Sequence) and not isinstance(1, collections.abc.Sequence)
job = Job()
by_job = {job: 1}
assert by_job[job] == 1 and hash(job) == hash(job) == object.__hash__(job)
""")


def test_an_element_that_is_hashed_by_its_address_is_refused_with_the_way_out() -> None:
    told = said("""
import quorate
for some in ({Slotted()}, {(1, Slotted())}, {[].append}, {[].__len__}):
    try:
        _native.dump_state({"some": some})
    except quorate.UnsupportedValue as error:
        print(error)
""")
    assert told.splitlines()[0] == (
        "self['some']{}: the order of this set differs between replicas, for the hash of an element of type "
        "Slotted is an address: give its class __eq__ and __hash__, or '__weakref__' in its __slots__, or "
        "keep a dict instead of the set"
    )
    assert told.count("is an address") == 4


def test_a_set_of_equal_objects_of_which_one_is_referred_to_elsewhere_is_kept() -> None:
    said("""
from quorate import _names
_names.allow_package("__main__")
jobs = [Job(), Job(), Job()]
state = {"all": set(jobs), "second": jobs[1]}
image = _native.dump_state(state)
copy = _native.load_state(image)
assert _native.dump_state(copy) == image
assert list(copy["all"]).index(copy["second"]) == list(state["all"]).index(jobs[1])
""")


def test_constants_have_one_order_whether_compiled_or_read_from_a_file() -> None:
    names = [f"'{name}'" for name in "abcdefgh"]
    one = _hashes.settled(compile(f"{{{', '.join(names)}}}", "", "eval"))
    other = _hashes.settled(compile(f"{{{', '.join(reversed(names))}}}", "", "eval"))
    assert list(eval(one)) == list(eval(other))


@pytest.mark.parametrize("seed", range(8))
def test_replicas_that_were_restored_and_others_go_through_sets_alike(seed: int, tmp_path: Path) -> None:
    drawn = random.Random(seed)
    calls = drawn.choice([60, 300])
    at = str(drawn.randrange(calls))
    script, image = str(HERE / "hashed_subjects.py"), str(tmp_path / "image")
    runs = [("write", "10"), ("write", "5000"), ("read", "333")]
    told = [said("", script, str(seed), str(calls), at, image, way, junk) for way, junk in runs]
    assert told[0] == told[1] == told[2]


def test_replicas_of_a_group_take_the_same_elements_after_one_was_restored() -> None:
    options = ["--port", "0", "--persist", "memory"]
    with (
        _local.start_group("hashed_subjects:Crowd", options, HERE) as ready,
        quorate.connect(ready["endpoint"], Crowd) as crowd,
    ):
        crowd.come(30)
        taken = [crowd.take() for _ in range(5)]
        crowd.come(3)
        for node in ready["nodes"]:
            # A read hashes what has no number yet, on one replica.
            assert crowd.count_latest() == 1
            restore_host(ready, node)
            taken.append(crowd.take())
        assert len(set(taken)) == len(taken)
        crowd.come(4)
        taken += [crowd.take() for _ in range(10)]
        assert len(set(taken)) == len(taken)
        assert_no_divergence(ready)


def restore_host(ready: dict[str, Any], node: dict[str, Any]) -> None:
    command = [_local.program(), "snapshot", "--endpoint", ready["endpoint"]]
    subprocess.run(command, check=True, capture_output=True)
    listed = subprocess.run(
        ["ps", "--ppid", str(node["pid"]), "-o", "pid="], capture_output=True, text=True, check=True
    )
    for pid in listed.stdout.split():
        os.kill(int(pid), signal.SIGKILL)


def assert_no_divergence(ready: dict[str, Any]) -> None:
    command = [_local.program(), "snapshot", "--endpoint", ready["endpoint"]]
    subprocess.run(command, check=True, capture_output=True)
    shown = subprocess.run(
        [_local.program(), "status", "--endpoint", ready["endpoint"]],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    assert "diverged" not in shown, shown


def test_a_cache_that_was_filled_before_may_overflow_afterwards() -> None:
    script = """
import functools
from quorate import _environment
@functools.lru_cache(4)
def name(cls): return cls.__name__
name(int), name(str), name(list)
_environment.install()
for _ in range(300):
    for cls in [type(f"A{n}", (), {}) for n in range(30)]: name(cls)
print("ended")
"""
    env = {**os.environ, "PYTHONMALLOC": "debug"}
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, env=env
    )
    assert (done.returncode, done.stdout) == (0, "ended\n"), done.stderr


def test_an_image_gives_no_numbers_to_constants() -> None:
    code = """
import sys
from quorate import _names
sys.path.insert(0, {path!r})
_names.allow_package("constants_of_a_module")
from constants_of_a_module import FIXED, MISSING, PAIR
state = [MISSING, FIXED, PAIR]
_native.set_environment(7, 1, 2, {step})
{write}
_native.set_environment(7, 1, 2, 9)
print(_native.dump_state(state).hex())
print(*map(hash, state))
"""
    writes = ["", "_native.dump_small_state(state, 9999)", "_native.dump_state(state)"]
    told = {said(code.format(path=str(HERE), step=step, write=write)) for step in (3, 4) for write in writes}
    assert len(told) == 1
