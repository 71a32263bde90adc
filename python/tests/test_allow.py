"""Instances of other packages are kept when these are allowed, and refused with the way out when not."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import array_subjects
import numpy as np
import pytest

import quorate
from quorate import _arrays, _local, _names, _native

HERE = Path(__file__).parent


def host_of(node: int) -> int:
    listed = subprocess.run(
        ["ps", "--ppid", str(node), "-o", "pid="], check=True, capture_output=True, text=True
    )
    return int(listed.stdout.split()[0])


NOT_ALLOWED = (
    r"self\.cells: ndarray is not supported, for its package is not allowed: run with --allow numpy, or call"
)
NOT_FOUND = r"--allow nowhere: importing it raised ModuleNotFoundError"


@pytest.mark.parametrize(("allow", "reason"), [([], NOT_ALLOWED), (["nowhere"], NOT_FOUND)])
def test_what_is_not_allowed_is_refused_by_path_with_the_option(allow: list[str], reason: str) -> None:
    with (
        pytest.raises(quorate.Unavailable, match=reason),
        quorate.local(array_subjects.Grid, nodes=1, allow=allow),
    ):
        pass


def test_arrays_survive_restarts_of_hosts_and_of_the_group(tmp_path: Path) -> None:
    options = ["--dir", str(tmp_path), "--port", "0", "--nodes", "1"]
    for start, words in enumerate((["--allow", "numpy"], [])):
        with (
            _local.start_group("array_subjects:Grid", options + words, HERE) as ready,
            quorate.connect(ready["endpoint"], array_subjects.Grid, timeout=30) as grid,
        ):
            grid.put(5, start + 7.5)
            command = [_local.program(), "snapshot", "--endpoint", ready["endpoint"]]
            subprocess.run(command, check=True, capture_output=True)
            os.kill(host_of(ready["nodes"][0]["pid"]), signal.SIGKILL)
            assert grid.row(1) == [0, start + 7.5, 0, 0]
            assert grid.total() == 2 * (start + 7.5)


def copy_of(value: Any) -> Any:
    data = _native.dump_state(value)
    copy = _native.load_state(data)
    assert _native.dump_state(copy) == data
    return copy


@pytest.fixture(autouse=True)
def _allow_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_names, "_packages", {*_names._packages, "numpy", __name__.partition(".")[0]})


def test_a_view_shares_the_memory_of_its_array_after_a_restore() -> None:
    cells = np.arange(12.0)
    cells, rows, last, turned = copy_of([cells, cells.reshape(3, 4), cells[8:], cells.reshape(3, 4).T])
    cells[9] = 99
    assert (rows[2, 1], last[1], turned[1, 2]) == (99, 99, 99)


PARTS = [
    *(
        np.s_[1:],
        np.s_[::-1],
        np.s_[::2],
        np.s_[2:3],
        np.s_[4:4],
        np.s_[1:3, 1:3],
        np.s_[:, 1],
        np.s_[1],
        np.s_[1:2],
    ),
    *(np.s_[:, ::-1], np.s_[2, 1:]),
]


@pytest.mark.parametrize("part", PARTS, ids=str)
def test_a_view_of_a_part_of_an_array_of_objects_shares_its_memory(part: Any) -> None:
    for turned in (False, True):
        cells = np.array([[{"at": (row, column)} for column in range(4)] for row in range(5)], dtype=object)
        held = cells.T if turned else cells
        cells, view = copy_of([cells, held[part]])
        assert np.array_equal(view, (cells.T if turned else cells)[part])
        if view.size:
            view[...] = None
            assert (cells == None).sum() == view.size  # noqa: E711
    line = np.array(list("abcdef"), dtype=object)
    if not isinstance(part, tuple) and part != 1:
        line, view = copy_of([line, line[part]])
        line[...] = "z"
        assert set(view.tolist()) <= {"z"}


def test_a_read_only_array_stays_so() -> None:
    fixed = np.arange(3)
    fixed.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        copy_of(fixed)[0] = 1


@pytest.mark.parametrize(
    "value",
    [
        np.float64(2.5),
        np.int32(7),
        np.datetime64("2024-02-29"),
        np.dtype("f4"),
        np.asfortranarray(np.eye(3)),
        np.array([1, "a", None], dtype=object),
        np.zeros(3, dtype=[("x", "i4"), ("y", "f8")]),
        np.array(["a", "bcd"]),
        np.array([], dtype=bool),
    ],
    ids=lambda value: type(value).__name__,
)
def test_arrays_scalars_and_types_come_back_whole(value: Any) -> None:
    copy = copy_of([value])[0]
    assert type(copy) is type(value)
    assert repr(copy) == repr(value)
    if isinstance(value, np.ndarray):
        assert (copy.dtype, copy.flags.f_contiguous) == (value.dtype, value.flags.f_contiguous)


def test_a_missing_value_stays_the_one_that_numpy_has() -> None:
    cells = np.array([np.nan, "a", np.nan], dtype=object)
    copy = copy_of([cells])[0]
    assert [cell is np.nan for cell in copy] == [True, False, True]  # noqa: PLW0177
    for each in (cells, copy):
        each[1] = np.nan
    assert _native.dump_state(cells) == _native.dump_state(copy)


def test_a_slice_that_objects_of_pandas_share_is_kept_by_value() -> None:
    shared = slice(0, 1)
    (told,) = _arrays.marked((shared,))
    assert told == shared and told is not shared


def test_a_generator_of_numpy_goes_on_where_it_was() -> None:
    generator = np.random.default_rng(3)
    generator.random()
    assert copy_of(generator).random() == generator.random()
