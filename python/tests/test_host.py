"""What odd classes, values and machines do to the host process: nothing."""

from __future__ import annotations

import datetime
import importlib.resources
import os
import signal
import subprocess
import sys
import zoneinfo
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from subjects import Wallet

import quorate
from quorate import _images, _local, _names, _native

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def group() -> Iterator[dict[str, Any]]:
    with _local.start_group("subjects:Wallet", ["--port", "0", "--persist", "memory"], HERE) as ready:
        yield ready


def processes(node: int) -> list[str]:
    return subprocess.run(
        ["ps", "--ppid", str(node), "-o", "pid="], check=True, capture_output=True, text=True
    ).stdout.split()


@pytest.mark.parametrize("way", ["surrogate", "exits", "arguments", "class"])
def test_an_exception_that_misbehaves_is_told_and_its_host_lives(group: dict[str, Any], way: str) -> None:
    hosts = [processes(node["pid"]) for node in group["nodes"]]
    with quorate.connect(group["endpoint"], Wallet) as wallet:
        with pytest.raises(Exception) as told:
            wallet.fail_oddly(way)
        assert not isinstance(told.value, quorate.MethodSkipped | quorate.OutcomeUnknown)
        before = wallet.deposit(0)
        assert wallet.deposit(1) == before + 1
    if way == "surrogate":
        assert "half \\ud800" in str(told.value)
    assert [processes(node["pid"]) for node in group["nodes"]] == hosts


def test_a_result_with_an_address_is_refused_and_names_the_type(group: dict[str, Any]) -> None:
    with quorate.connect(group["endpoint"], Wallet) as wallet:
        with pytest.raises(quorate.UnsupportedResult, match="the address of an object of type object"):
            wallet.described("object")
        assert wallet.described("self") == wallet.described("self") != "..."
        assert wallet.described("crash at 0x7f001") == "'crash at 0x7f001'"


def test_a_text_names_no_directory_of_the_machine(group: dict[str, Any]) -> None:
    with quorate.connect(group["endpoint"], Wallet) as wallet:
        for text, expected in [
            ("no HERE/rates.csv", "no rates.csv"),
            ("no /users/5", "no /users/5"),
        ]:
            with pytest.raises(LookupError) as told:
                wallet.fail_with(text)
            assert told.value.args == (expected, 7)


def test_a_class_is_not_reached_through_what_a_module_has_imported() -> None:
    _names.register(Wallet)
    assert _names.find("subjects.Wallet") is Wallet
    for foreign in (
        "subjects.datetime.datetime",
        "subjects.os.system",
        "subjects.Any",
        "subjects.quorate.Tls",
    ):
        assert _names.find(foreign) is None, foreign
    data = _native.dumps(1)
    assert _native.loads(data) == 1


def test_zones_of_the_machine_alone_are_unknown_to_every_host(tmp_path: Path) -> None:
    (tmp_path / "Only").mkdir()
    code = (
        "import sys, zoneinfo\n"
        "zoneinfo.ZoneInfo('Only/Here')\n"
        "from quorate import _environment\n"
        "_environment.install()\n"
        "zoneinfo.ZoneInfo.clear_cache()\n"
        "assert zoneinfo.ZoneInfo('Europe/Berlin').key\n"
        "try:\n    zoneinfo.ZoneInfo('Only/Here')\n"
        "except zoneinfo.ZoneInfoNotFoundError:\n    sys.exit(0)\n"
        "sys.exit('the machine decides which zones there are')\n"
    )
    utc = importlib.resources.files("tzdata") / "zoneinfo" / "UTC"
    (tmp_path / "Only" / "Here").write_bytes(utc.read_bytes())
    environment = {**os.environ, "PYTHONTZPATH": str(tmp_path)}
    ended = subprocess.run(
        [sys.executable, "-c", code], check=False, env=environment, capture_output=True, text=True
    )
    assert ended.returncode == 0, ended.stderr


def test_work_that_is_repeated_prints_nothing(tmp_path: Path) -> None:
    options = ["--dir", str(tmp_path), "--port", "0", "--nodes", "1"]

    def said(words: str) -> int:
        return (tmp_path / "node-1.log").read_text().count(f"object> {words}\n")

    with (
        _local.start_group("subjects:Wallet", options, HERE) as ready,
        quorate.connect(ready["endpoint"], Wallet, timeout=30) as wallet,
    ):
        wallet.say("before the host ends")
        (host,) = processes(ready["nodes"][0]["pid"])
        os.kill(int(host), signal.SIGKILL)
        wallet.say("before the node ends")
    with (
        _local.start_group("subjects:Wallet", options, HERE) as ready,
        quorate.connect(ready["endpoint"], Wallet, timeout=30) as wallet,
    ):
        wallet.say("at the end")
    # The log is complete: the group has ended.
    for words in ("before the host ends", "before the node ends", "at the end"):
        assert said(words) == 1, words


def test_a_time_in_a_named_zone_travels(group: dict[str, Any]) -> None:
    summer = datetime.datetime(2026, 7, 1, tzinfo=zoneinfo.ZoneInfo("Europe/Berlin"))
    with quorate.connect(group["endpoint"], Wallet) as wallet:
        assert wallet.zone_offset(summer) == "2:00:00"


def test_an_image_process_ends_whatever_its_exceptions_do(tmp_path: Path) -> None:
    class Nasty(BaseException):
        def __str__(self) -> str:
            raise SystemExit(3)

    class Unkeepable:
        def __getstate__(self) -> object:
            raise Nasty

    _names.register(Unkeepable)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            _images.write_in_child({1: Unkeepable()}, str(tmp_path / "x"), writer, os.dup(0), os.getppid())
        finally:
            os._exit(77)
    os.close(writer)
    _, status = os.waitpid(child, 0)
    os.close(reader)
    assert os.waitstatus_to_exitcode(status) == 1


@pytest.mark.parametrize(
    ("count", "told"), [(1, "UnsupportedValue: self.file"), (2, "Holder: UnsupportedValue")]
)
def test_of_several_objects_the_one_that_cannot_be_kept_is_named(
    tmp_path: Path, count: int, told: str
) -> None:
    class Kept:
        pass

    class Holder:
        def __init__(self) -> None:
            self.file = open(__file__)  # noqa: SIM115

    for cls in (Kept, Holder):
        _names.register(cls)
    objects: dict[int, Any] = {number: Kept() for number in range(1, count)} | {count: Holder()}
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            _images.write_in_child(objects, str(tmp_path / "x"), writer, os.dup(0), os.getppid())
        finally:
            os._exit(77)
    os.close(writer)
    os.waitpid(child, 0)
    with os.fdopen(reader, "rb") as pipe:
        assert told in pipe.read().decode()


def test_a_method_that_lies_about_changing_nothing_is_named_and_reads_no_more() -> None:
    with quorate.local(Wallet) as wallet:
        assert wallet.liar() == 0
        wallet.draw_list()
        with pytest.raises(quorate.NotReadOnly, match=r"`liar` of Wallet .* changes `drawn`"):
            wallet.liar()
        assert wallet.last_drawn() == [0]
        with pytest.raises(quorate.NotReadOnly):
            quorate.reading(wallet).deposit(1)
        assert wallet.total() == 0
