"""Files in which bytes of a state lie: one for each content, there while something refers to it."""

from __future__ import annotations

import copy
import errno
import os
import pickle
import random
import subprocess
import sys
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest
from objects_twins import SEEDS, compare, restored

from quorate import _native, _on_disk, objects
from quorate._on_disk import Directory, OnDisk, content_of

LONG = b"x" * 10_000


class GivenUp(BaseException):
    """A host ends."""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Directory]:
    """The directory of this process."""
    path = tmp_path / "contents"
    path.mkdir()
    here = Directory(str(path))
    monkeypatch.setattr(_on_disk, "_here", here)
    yield here


def files(place: Directory) -> list[str]:
    return sorted(os.listdir(place.path))


def in_fork(act: Callable[[], bool]) -> bool:
    """Whether it is so in a process that is forked off."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = 0 if act() else 1
        finally:
            os._exit(code)
    return os.waitpid(child, 0)[1] == 0


def test_equal_contents_lie_in_one_file_until_the_last_is_gone(place: Directory) -> None:
    one, other = OnDisk(LONG), OnDisk(bytes(LONG))
    assert len(files(place)) == 1
    assert place.bytes == len(LONG)
    del one
    place.remove_idle(10)
    assert content_of(other) == LONG
    del other
    assert place.bytes == 0
    place.remove_idle(10)
    assert files(place) == []


def test_what_is_short_lies_in_no_file(place: Directory) -> None:
    assert content_of(OnDisk(b"short")) == b"short"
    assert files(place) == []


def test_a_file_that_is_needed_again_before_it_is_removed_stays(place: Directory) -> None:
    for _ in range(100):
        OnDisk(LONG)
    (name,) = files(place)
    kept = OnDisk(LONG)
    place.remove_idle(10)
    assert files(place) == [name]
    assert content_of(kept) == LONG
    assert len(place._idle) == 0


def test_a_part_of_a_content_is_read_from_its_pieces(place: Directory) -> None:
    kept = OnDisk(random.Random(1).randbytes(3 * _on_disk.PIECE_BYTES + 7))
    whole = content_of(kept)
    assert len(files(place)) == 3, "seven bytes lie in no file"
    for start, stop in ((0, 1), (_on_disk.PIECE_BYTES - 1, _on_disk.PIECE_BYTES + 1), (-8, None), (5, -5)):
        assert content_of(kept, start, stop) == whole[start:stop]
    assert content_of(kept, len(whole)) == b""


def test_files_are_removed_a_few_at_a_time(place: Directory) -> None:
    """A call that drops very many does not stop the group for as long as that takes."""
    many = [OnDisk(LONG + str(at).encode()) for at in range(50)]
    many.clear()
    assert len(files(place)) == 50
    kept = OnDisk(LONG)
    assert len(files(place)) == 51 - _on_disk.REMOVED_AT_ONCE
    place.hold()
    place.release()
    assert len(files(place)) == 1
    assert content_of(kept) == LONG


def test_nothing_is_removed_while_a_snapshot_is_written(place: Directory) -> None:
    gone = OnDisk(LONG)
    place.hold()
    place.hold()
    del gone
    kept = [OnDisk(LONG + b"more")]
    place.release()
    assert len(files(place)) == 2
    place.release()
    assert len(files(place)) == 1
    assert kept


def test_a_forked_process_finds_the_files_and_leaves_them_alone(place: Directory) -> None:
    here = Directory(place.path, FakeHost())
    _on_disk._here = here
    kept, doomed = OnDisk(LONG), OnDisk(LONG + b"doomed")

    def child() -> bool:
        nonlocal kept
        is_there = content_of(kept) == LONG
        # As where a snapshot is restored for a test.
        again, other = OnDisk(LONG), OnDisk(LONG + b"other")
        is_equal = content_of(again) == LONG and content_of(other) == LONG + b"other"
        del kept, again, other
        return is_there and is_equal

    before = files(place)
    assert in_fork(child)
    assert files(place) == before
    assert content_of(kept) == LONG
    del doomed
    here.remove_idle(10)
    assert len(files(place)) == 1


def test_a_process_that_is_no_host_has_files_of_its_own_after_a_fork(place: Directory) -> None:
    kept = OnDisk(LONG)

    def child() -> bool:
        other = OnDisk(LONG + b"other")
        return content_of(other) == LONG + b"other" and content_of(kept) == LONG

    assert in_fork(child)
    assert len(files(place)) == 1


class FakeHost:
    """Keeps what is told, and ends by an exception that nobody catches."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def tell(self, text: str) -> None:
        self.told.append(text)

    def give_up(self, status: int, told: str) -> NoReturn:
        raise GivenUp(status, told)


def test_what_the_disk_of_a_host_does_not_take_stays_in_memory_until_there_is_room(
    place: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other replicas have the room: what this one would raise, they would not."""
    host = FakeHost()
    here = Directory(place.path, host)
    monkeypatch.setattr(_on_disk, "_here", here)
    rename = os.rename

    def full(_source: str, _target: str) -> None:
        raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr(os, "rename", full)
    kept = [OnDisk(LONG + str(at).encode()) for at in range(9)]
    assert [content_of(each)[len(LONG) :] for each in kept] == [str(at).encode() for at in range(9)]
    assert (files(place), here.bytes) == ([], 0)
    (told,) = host.told
    assert told.startswith("warning: the disk does not take what an object stores, which stays in memory")
    image = _native.dump_state(kept)
    assert [content_of(each) for each in _native.load_state(image)] == [content_of(each) for each in kept]
    del kept[2]
    monkeypatch.setattr(os, "rename", rename)
    kept.append(OnDisk(LONG))
    assert len(files(place)) == 1 + _on_disk.WRITTEN_AT_ONCE
    here.hold()
    here.release()
    assert len(files(place)) == 9
    assert [content_of(each) for each in kept[:2]] == [LONG + b"0", LONG + b"1"]
    kept.clear()
    here.remove_idle(100)
    assert (files(place), here.bytes) == ([], 0)
    # It tells each time that it begins.
    monkeypatch.setattr(os, "rename", full)
    OnDisk(LONG)
    assert len(host.told) == 2


def test_a_nearly_full_disk_is_told_of_once_and_takes_what_fits(
    place: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is small does not wait behind what is large, and who reads the log is told when it begins."""
    host = FakeHost()
    here = Directory(place.path, host)
    monkeypatch.setattr(_on_disk, "_here", here)
    rename, most = os.rename, len(LONG)

    def takes_small(source: str, target: str) -> None:
        if os.path.getsize(source) > most:
            raise OSError(errno.ENOSPC, "no space left")
        rename(source, target)

    monkeypatch.setattr(os, "rename", takes_small)
    large = [OnDisk(bytes([at]) * 100_000) for at in range(50)]
    most = 0
    small = [OnDisk(LONG[:-1] + bytes([at])) for at in range(50)]
    most = len(LONG)
    kept = []
    for at in range(100):
        large.append(OnDisk(bytes([100 + at]) * 100_000))
        kept.append(OnDisk(LONG[:-2] + bytes([at, at])))
    assert len(files(place)) == len(kept) + len(small)
    (told,) = host.told
    assert "until there is room" in told
    most = 100_000
    here.hold()
    here.release()
    assert len(files(place)) == len(kept) + len(small) + len(large)
    most = 0
    OnDisk(LONG)
    assert len(host.told) == 2


def outcome(depth: int, act: Callable[[], Any]) -> bool:
    """Whether it goes well so many calls further down."""
    if depth:
        return outcome(depth - 1, act)
    try:
        act()
    except RecursionError:
        return False
    return True


def test_how_deep_a_call_may_be_does_not_depend_on_the_files_of_a_replica(
    place: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Claim rp-96: where calls go too deep is an outcome, and the same at all replicas."""
    here = Directory(place.path, FakeHost())
    monkeypatch.setattr(_on_disk, "_here", here)
    storage, changed = objects.Storage(), LONG[:-1] + b"y"
    rename = os.rename

    def full(_source: str, _target: str) -> None:
        raise OSError(errno.ENOSPC, "no space left")

    def has_no_room() -> None:
        here._is_full = False
        monkeypatch.setattr(os, "rename", full)

    def has_room() -> None:
        monkeypatch.setattr(os, "rename", rename)

    def has_the_file() -> None:
        has_room()
        OnDisk(changed)

    acts: list[Callable[[], Any]] = [
        lambda: storage.put("a", changed),
        lambda: storage.append("a", LONG),
        lambda: storage.get("a"),
    ]
    for act in acts:
        found = set()
        for begin in (has_no_room, has_room, has_the_file):
            for depth in range(sys.getrecursionlimit() - 250, sys.getrecursionlimit()):
                begin()
                storage.put("a", LONG)
                if not outcome(depth, act):
                    found.add(depth)
                    break
        assert len(found) == 1, "as deep as the call alone says"


def test_what_is_gone_before_there_is_room_is_forgotten(
    place: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = Directory(place.path, FakeHost())
    monkeypatch.setattr(_on_disk, "_here", here)

    def full(_source: str, _target: str) -> None:
        raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr(os, "rename", full)
    storage = objects.Storage({"a": LONG})
    for at in range(3 * _on_disk.WAITING_MIN):
        storage["b"] = LONG + str(at).encode()
    assert len(here._unwritten) <= _on_disk.WAITING_MIN


def test_what_is_not_needed_gives_its_room_before_a_disk_is_taken_for_full(
    place: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = [OnDisk(LONG + str(at).encode()) for at in range(50)]
    rename = os.rename

    def takes_thirty(source: str, target: str) -> None:
        if len(files(place)) > 30:
            raise OSError(errno.ENOSPC, "no space left")
        rename(source, target)

    many.clear()
    monkeypatch.setattr(os, "rename", takes_thirty)
    kept = OnDisk(LONG)
    assert content_of(kept) == LONG
    assert len(files(place)) == 1


def test_without_a_group_a_full_disk_is_an_error_that_leaves_nothing_behind(
    place: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = objects.Storage({"a": b"short"})

    def full(_source: str, _target: str) -> None:
        raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr(os, "rename", full)
    for act in (storage.put, storage.append):
        with pytest.raises(OSError, match="no space left"):
            act("a", LONG)
        with pytest.raises(OSError, match="no space left"):
            act("b", LONG)
    assert (storage.names(), storage.get("a"), files(place)) == (["a"], b"short", [])


@pytest.mark.parametrize("damage", [lambda path: path.unlink(), lambda path: path.write_bytes(b"other")])
def test_a_host_whose_files_are_damaged_ends_instead_of_answering(
    place: Directory, damage: Callable[[Path], Any]
) -> None:
    here = Directory(place.path, FakeHost())
    name = str(here.keep(LONG))
    assert here.read(name) == LONG
    damage(Path(place.path, name))
    with pytest.raises(GivenUp) as given_up:
        here.read(name)
    assert given_up.value.args[0] == _on_disk.DAMAGED


def test_an_image_holds_contents_and_is_the_same_wherever_they_lie(
    place: Directory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = objects.Storage({"a": LONG, "b": b"short"})
    storage.append("a", LONG)
    image = _native.dump_state(storage)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.setattr(_on_disk, "_here", Directory(str(elsewhere)))
    copy = _native.load_state(image)
    assert (copy.get("a"), copy.get("b")) == (LONG * 2, b"short")
    assert _native.dump_state(copy) == image
    place.remove_idle(10)
    assert sorted(os.listdir(elsewhere)) == files(place)
    copy.append("a", b"!")
    storage.append("a", b"!")
    assert _native.dump_state(copy) == _native.dump_state(storage)


def test_long_contents_take_no_memory(place: Directory) -> None:
    storage = objects.Storage()
    storage.put("warm", LONG)
    tracemalloc.start()
    try:
        for at in range(32):
            storage.put(str(at), bytes([at]) * (1 << 20))
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 1 << 20
    assert storage.get("7") == bytes([7]) * (1 << 20)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_storage_does_what_a_dict_of_bytes_does(seed: int, place: Directory) -> None:
    def content(value: int) -> bytes:
        return bytes([value + 20]) * (abs(value) * 1_000)

    def append(held: Any, value: int) -> Any:
        if isinstance(held, dict):
            held[value % 5] = held.get(value % 5, b"") + content(value)
            return len(held[value % 5])
        return held.append(value % 5, content(value))

    def part(held: Any, value: int) -> Any:
        start, stop = value * 900, None if value % 3 else value * 1_700
        return held[value % 5][start:stop] if isinstance(held, dict) else held.get(value % 5, start, stop)

    moves: list[Callable[[Any, int], Any]] = [
        lambda held, value: held.__setitem__(value % 5, content(value)),
        lambda held, value: held[value % 5],
        lambda held, value: held.__delitem__(value % 5),
        lambda held, value: value % 5 in held,
        lambda held, value: len(held[value % 5]) if isinstance(held, dict) else held.size(value % 5),
        lambda held, _: list(held),
        append,
        append,
        part,
        part,
    ]
    compare(objects.Storage(), {}, random.Random(seed), moves)
    place.remove_idle(1_000)
    assert files(place) == []


def test_parts_of_one_content_that_are_appended_piece_by_piece_are_few(place: Directory) -> None:
    storage = objects.Storage()
    for at in range(3_000):
        storage.append("log", f"{at:099}\n".encode())
    assert storage.get("log", 100, 200) == f"{1:099}\n".encode()
    assert len(storage._contents["log"]._pieces) < 6
    place.remove_idle(10_000)
    assert len(files(place)) < 6
    assert restored(storage).get("log") == storage.get("log")


def test_a_content_is_bytes() -> None:
    storage = objects.Storage({"a": b"kept"})
    for wrong in ("text", 7, [1]):
        with pytest.raises(TypeError, match="a content is bytes"):
            storage.put("a", wrong)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="a content is bytes"):
            storage.append("b", wrong)  # type: ignore[arg-type]
    assert (storage["a"], storage.names()) == (b"kept", ["a"])


def test_what_looks_only_is_shown_to_be_a_read() -> None:
    # In a process that knows no classes but those of a host.
    code = (
        "from quorate import _reads, objects\n"
        "storage = objects.Storage({'a': b'x' * 10_000})\n"
        "for name in ('get', 'size', 'names', '__getitem__', '__len__', 'put', 'append', 'delete'):\n"
        "    if not _reads.find(storage, name).is_read:\n"
        "        print(name)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["put", "append", "delete"]


def test_objects_may_write_no_files_of_their_own_before_and_after(place: Directory, tmp_path: Path) -> None:
    """What the storage may do, its object may not."""
    code = (
        "import sys\n"
        "from quorate import _environment, _on_disk\n"
        "_environment.install()\n"
        "_environment.refuse_effects(True)\n"
        "kept = _on_disk.OnDisk(b'x' * 10_000)\n"
        "assert _on_disk.content_of(kept) == b'x' * 10_000\n"
        "try:\n"
        f"    open({str(tmp_path / 'own')!r}, 'w')\n"
        "except PermissionError as error:\n"
        "    print('refused')\n"
    )
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, env=environment)
    assert done.stdout == b"refused\n"
    assert list(tmp_path.glob("quorate-on-disk-*")) == [], "nothing is left behind"


def test_what_a_killed_process_has_left_is_removed_by_the_next_one(tmp_path: Path) -> None:
    code = (
        "import os, signal\n"
        "from quorate import _on_disk\n"
        "kept = _on_disk.OnDisk(b'x' * 10_000)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    in_use = tmp_path / "quorate-on-disk-1-0"
    in_use.mkdir()
    descriptor = _on_disk._lock(str(in_use))
    assert descriptor is not None
    for _ in range(2):
        subprocess.run([sys.executable, "-c", code], check=False, env=environment)
        assert len(list(tmp_path.glob("quorate-on-disk-*"))) == 2
        assert in_use.is_dir()
    os.close(descriptor)


def test_copies_share_the_files(place: Directory) -> None:
    storage = objects.Storage({"a": LONG})
    copies = [copy.copy(storage), copy.deepcopy(storage), pickle.loads(pickle.dumps(storage))]
    assert [each.get("a") for each in copies] == [LONG] * 3
    copies.clear()
    place.remove_idle(10)
    assert storage.get("a") == LONG
    with pytest.raises(TypeError, match="take the bytes"):
        copy.copy(storage._contents["a"]._pieces[0])


def test_threads_of_a_program_may_share_contents(place: Directory) -> None:
    def work() -> None:
        for at in range(300):
            assert content_of(OnDisk(LONG + bytes([at % 3]))) == LONG + bytes([at % 3])

    threads = [threading.Thread(target=work) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    place.remove_idle(100)
    assert files(place) == []
    assert place.bytes == 0
