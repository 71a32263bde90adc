"""State outside of the object is found when the object is made, and sound classes raise no alarm."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import array_subjects
import outside_subjects
import pytest
from subjects import Wallet

import quorate
from quorate import _callables, _environment, _host, _making, _native, _outside, _state


@pytest.mark.parametrize("cls", outside_subjects.KEEPERS, ids=lambda cls: cls.__name__)
def test_state_outside_of_the_object_is_found_with_its_line(cls: type) -> None:
    finding = _outside.find(cls)
    assert finding is not None
    assert finding.file == "outside_subjects.py"
    line = inspect.getsource(outside_subjects).splitlines()[finding.line - 1]
    assert line.strip()


@pytest.mark.parametrize("cls", [*outside_subjects.SOUND, Wallet], ids=lambda cls: cls.__name__)
def test_a_sound_class_raises_no_alarm(cls: type) -> None:
    assert _outside.find(cls) is None


@pytest.mark.parametrize("name", ["ByModule", "ByName", "BySharedGenerator"])
def test_a_generator_of_numpy_that_others_draw_from_is_state_outside(name: str) -> None:
    finding = _outside.find(getattr(array_subjects, name))
    assert finding is not None
    assert finding.function == f"{name}.roll"


def test_the_clock_that_numpy_asks_is_refused_with_the_way_out() -> None:
    finding = _outside.find(array_subjects.ByClockOfTheMachine)
    assert finding is not None
    assert "numpy.datetime64('now') is the time of the machine in ByClockOfTheMachine.now" in finding.reason
    assert finding.reason.endswith("convert the time of datetime.datetime.now()")


def test_a_generator_of_numpy_in_the_object_or_the_call_is_not() -> None:
    assert _outside.find(array_subjects.ByOwnGenerator) is None


@pytest.fixture(autouse=True)
def _trust() -> Iterator[None]:
    yield
    _state.choose(_callables.Trust.FIELDS_BEFORE_REDUCE)


def prepared(class_path: str, with_snapshots: bool, refuses: bool = True) -> Any:
    hello = {
        "version": _host.VERSION,
        "seed": 1,
        "snapshots": with_snapshots,
        "refuses": refuses,
        "paths": [str(Path(__file__).parent)],
        "allow": [],
        "sandbox": False,
        "scratch": "",
        "quiet": 0,
        "checks": "sample",
        "liars": [],
        "unreliable": [],
        "objects": [[1, "it", class_path, [[], {}], 0]],
    }
    before = list(sys.path)
    try:
        answer, *_ = _host.Host(0).prepare(_native.dumps(hello))
    finally:
        sys.path[:] = before
        _environment.refuse_effects(False)
    return _native.loads(answer)


def test_a_class_that_keeps_state_outside_is_refused_with_place_and_way_out() -> None:
    kind, name, what, reason = prepared("outside_subjects:ByClassList", True)
    assert (kind, name, what) == ("unfit", "it", "state")
    line = inspect.getsourcelines(outside_subjects.ByClassList.add)[1] + 1
    assert reason == (
        f"ByClassList.items is changed in ByClassList.add (outside_subjects.py:{line}), "
        "and is no part of the object: a replica that restarts would not have the change; "
        "keep it in the object, or run with --no-snapshot"
    )


def test_of_an_installed_class_only_the_method_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("configure", "configure_again"):
        monkeypatch.setattr(outside_subjects.Configured, name, vars(outside_subjects.Configured)[name])
    assert prepared("outside_subjects:Configured", True)[0] == "unfit"
    monkeypatch.setattr(_outside, "_is_installed", lambda _: True)
    _making.state_outside.cache_clear()
    assert prepared("outside_subjects:Configured", True)[0] == "ready"
    with pytest.raises(
        PermissionError, match=r"`configure` cannot be called: Configured.limit is assigned in Conf"
    ):
        outside_subjects.Configured.configure(2)
    assert outside_subjects.Configured().read() == 1


def test_a_class_may_have_async_twins_of_its_methods() -> None:
    text = "class Twins:\n    def run(self): return 1\n    async def arun(self): return 1\n"
    for directory in ("/x/site-packages", "/x"):
        scope: dict[str, Any] = {}
        exec(compile(text, f"{directory}/twins.py", "exec"), scope)
        assert _making.construct(scope["Twins"], [], {}).run() == 1


def test_a_file_cannot_be_opened_for_writing_in_any_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_environment, "_refusing", True)
    for mode, flags in (("w", 0), ("r+", 0), (None, os.O_WRONLY), (None, os.O_RDWR | os.O_CREAT)):
        with pytest.raises(PermissionError, match="cannot write files"):
            _environment._audit("open", ("some file", mode, flags))
    _environment._audit("open", ("some file", None, os.O_RDONLY))
    _environment._audit("open", (os.devnull, "w", os.O_WRONLY))


def test_a_host_does_not_say_which_process_on_which_machine_it_is() -> None:
    code = (
        "from quorate import _environment\n"
        "_environment.install()\n"
        "import os, platform, socket\n"
        "print(os.getpid(), os.getppid(), socket.gethostname(), platform.node(), os.uname().nodename)\n"
    )
    told = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert told.split() == ["1", "1", "object", "object", "object"]


def test_a_group_that_exists_starts_with_a_class_that_would_be_refused_and_says_so(capfd: Any) -> None:
    assert prepared("outside_subjects:ByClassList", True, refuses=False)[0] == "ready"
    assert "warning: object it: ByClassList.items is changed in" in capfd.readouterr().err


def test_state_in_a_module_beside_the_object_is_found() -> None:
    finding = _outside.find(outside_subjects.BySibling)
    assert finding is not None
    assert str(finding).startswith("subjects.NOTED is changed in note (subjects.py:")


def test_without_snapshots_state_outside_is_made_anew_from_the_log() -> None:
    assert prepared("outside_subjects:ByClassList", False)[0] == "ready"


def test_an_object_that_is_saved_through_a_file_is_refused_when_it_is_made() -> None:
    refused = (
        r"self: Spooled cannot be taken apart: .*(file|directory).*; replicate a class of your own .* or run"
    )
    with (
        pytest.raises(quorate.Unavailable, match=refused),
        quorate.local(outside_subjects.Spooled, nodes=1),
    ):
        pass


@pytest.mark.parametrize(
    ("name", "trust"), [("Shy", "FIELDS"), ("Settling", "FIELDS"), ("WithoutFile", "FIELDS_BEFORE_REDUCE")]
)
def test_the_way_in_which_a_first_state_comes_back_is_chosen(name: str, trust: str) -> None:
    assert prepared(f"outside_subjects:{name}", True)[0] == "ready"
    assert _callables.trust is _callables.Trust[trust]
