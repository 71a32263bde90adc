"""The threads of a worker find functions and classes side by side."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import pytest

from quorate import _capturing, _names

EARLY_S = 0.2
"""In which a thread that does not wait for the import is done."""

SLOW = """
import threading
threading.imported_slowly[0].set()
threading.imported_slowly[1].wait(30)
def late() -> int:
    return 7
"""


def test_a_module_that_another_thread_is_importing_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until it is imported, the names behind the place where it is are not there."""
    (tmp_path / "imported_slowly.py").write_text(SLOW)
    monkeypatch.syspath_prepend(tmp_path)
    begun, go = threading.Event(), threading.Event()
    monkeypatch.setattr(threading, "imported_slowly", (begun, go), raising=False)
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(_capturing.function_at, "imported_slowly:late")
        assert begun.wait(30)
        second = threads.submit(_capturing.function_at, "imported_slowly:late")
        wait([second], timeout=EARLY_S)
        go.set()
        assert first.result() is not None
        assert second.result() is first.result()


def test_a_thread_that_ends_its_reading_does_not_end_that_of_another() -> None:
    """What a state names is imported by each thread that reads one, and by no other."""
    _names.allow_package("reach_classes")

    def read() -> None:
        with _names.restoring():
            pass

    with ThreadPoolExecutor(1) as threads, _names.restoring():
        assert not threads.submit(_names.import_for, "reach_classes.Reacher").result()
        threads.submit(read).result()
        assert _names.import_for("reach_classes.Reacher")
    assert not _names.import_for("reach_classes.Reacher")
