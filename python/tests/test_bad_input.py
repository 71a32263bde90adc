"""Wrong input of every kind: a message that names the cause, its exit code, nothing lost or half done."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import quorate
from quorate import _local

FAILED, USAGE, NOT_FOUND, NO_QUORUM, CONFLICT = 1, 2, 3, 4, 7
SECONDS = 20
LARGEST_CALL = (8 << 20) - (4 << 10)
"""Bytes of a method's name and arguments together."""


@dataclass(frozen=True)
class Running:
    """A group with a directory that the tests may look into."""

    endpoint: str
    directory: Path
    nodes: list[dict[str, Any]]


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    directory = tmp_path_factory.mktemp("group")
    options = ["--port", "0", "--dir", str(directory / "data")]
    with _local.start_group("rust:counter", options, directory) as ready:
        yield Running(ready["endpoint"].rsplit("/", 1)[0], directory / "data", ready["nodes"])


def child_of(node: int) -> str:
    """The number of a node's host process."""
    tasks = Path(f"/proc/{node}/task").glob("*/children")
    (child,) = [child for task in tasks for child in task.read_text().split()]
    return child


def quorate_says(*words: str) -> tuple[int, str]:
    """Exit code and complaint of a command."""
    command = [_local.program(), *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    return done.returncode, done.stderr


def test_an_interpreter_that_cannot_serve_is_named_in_words(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho \"$0: No module named 'quorate'\" >&2\nexit 1\n")
    python.chmod(0o755)
    exit_code, complaint = quorate_says("up", "bank:Account", "--port", "0", "--python", str(python))
    assert exit_code == FAILED
    assert "No module named 'quorate'" in complaint
    assert f"its interpreter is {python}" in complaint
    assert "the host process ended (exit status: 1)" in complaint
    assert "Stream(" not in complaint


@pytest.mark.parametrize("command", ["check", "lint", "proxy", "up"])
@pytest.mark.parametrize(
    ("ends", "cause"),
    [
        ("os._exit(3)", "importing 'quitter' ended the process"),
        ("import ctypes; ctypes.string_at(0)", "importing 'quitter' ended the process"),
        ("os._exit(3) if os.fork() == 0 else os.wait()", "importing 'quitter' raised NameError"),
        ("sys.exit(3)", "importing 'quitter' raised SystemExit: 3"),
    ],
)
def test_a_module_that_ends_its_process_is_named(command: str, ends: str, cause: str, tmp_path: Path) -> None:
    source = f"import os\nimport sys\n\n{ends}\n\nclass Account:\n    absent = unknown\n"
    (tmp_path / "quitter.py").write_text(source)
    words = [_local.program(), command, "quitter:Account", *(["--port", "0"] if command == "up" else [])]
    done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path, timeout=SECONDS, check=False)
    assert (done.returncode, done.stdout, cause in done.stderr) == (USAGE, "", True), done.stderr
    if ends == "os._exit(3)":
        where = "exit status: 3" if command == "up" else f"with exit code 3, at {tmp_path / 'quitter.py'}:4"
        assert where in done.stderr
        assert "quorate check" in done.stderr or "__main__" in done.stderr


def test_a_module_whose_import_does_not_end_is_named_with_the_time_that_it_had(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text("while True:\n    pass\n")
    short = "from quorate import _commands, _importing; _importing.IMPORT_SECONDS_MAX = 0.5; import sys; "
    command = [
        sys.executable,
        "-c",
        f"{short}sys.exit(_commands.main(['lint', 'slow:Account', '-o', 'json']))",
    ]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=SECONDS, check=False)
    told = json.loads(done.stderr)
    assert (done.returncode, done.stdout, told["error"]) == (USAGE, "", "usage")
    assert told["message"].startswith("importing 'slow' did not end within 0.5 s: remove what does not end")


def test_a_module_that_ends_its_process_is_no_class_of_an_object_and_harms_no_host(tmp_path: Path) -> None:
    account = "class Account:\n    def __init__(self):\n        self.calls = 0\n\n"
    account += "    def add(self):\n        self.calls += 1\n        return self.calls\n"
    (tmp_path / "sound.py").write_text(account)
    ends = {"quitter": "import os\n\nos._exit(3)\n", "aborter": "from os import abort\n\nabort()\n"}
    for module, source in ends.items():
        (tmp_path / f"{module}.py").write_text(source + account)
    options = ["--port", "0", "--persist", "memory"]
    with _local.start_group("sound:Account", options, tmp_path) as ready:
        endpoint = ready["endpoint"]
        with quorate.connect(endpoint, timeout=SECONDS) as it:
            assert it.add() == 1
        hosts = [child_of(node["pid"]) for node in ready["nodes"]]
        for module, how in (("quitter", "with exit code 3"), ("aborter", "by os.abort")):
            words = ["object", "create", "one", f"{module}:Account", "--endpoint", endpoint]
            exit_code, complaint = quorate_says(*words)
            place = f"importing '{module}': it ends its process {how}, at {module}.py:3: remove what ends it"
            assert (exit_code, place in complaint, "nothing was created" in complaint) == (FAILED, True, True)
        assert [child_of(node["pid"]) for node in ready["nodes"]] == hosts
        (tmp_path / "breaker.py").write_text(f"import ctypes\n\nctypes.string_at(0)\n{account}")
        words = ["object", "create", "one", "breaker:Account", "--endpoint", endpoint]
        exit_code, complaint = quorate_says(*words)
        told = "importing or constructing breaker:Account ended every process that did it"
        assert (exit_code, told in complaint, "`quorate check breaker" in complaint) == (FAILED, True, True)
        with quorate.group(endpoint, timeout=SECONDS) as objects:
            with pytest.raises(quorate.NotReplicable, match=r"with exit code 3, at quitter\.py:3"):
                objects.create("quitter:Account", "one")  # type: ignore[arg-type]
            assert list(objects.objects()) == ["Account"]
        with quorate.connect(endpoint, timeout=SECONDS) as it:
            assert it.add() == 2


@pytest.mark.parametrize(
    ("method", "doing"),
    [("__init__", "constructing Quitter"), ("__getstate__", "saving the state of Quitter")],
)
def test_a_class_that_ends_its_process_is_named(method: str, doing: str, tmp_path: Path) -> None:
    (tmp_path / "quitter.py").write_text(
        f"import os\n\nclass Quitter:\n    def {method}(self):\n        os._exit(3)\n"
    )
    words = [_local.program(), "up", "quitter:Quitter", "--port", "0"]
    done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path, timeout=SECONDS, check=False)
    assert (done.returncode, f"{doing} ended the process (exit status: 3)" in done.stderr) == (USAGE, True)


def test_a_signal_while_a_class_is_imported_leaves_nothing_behind(tmp_path: Path) -> None:
    source = "import sys\n\nprint('it begins', file=sys.stderr)\nwhile True:\n    pass\n"
    (tmp_path / "slow.py").write_text(source)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    started = subprocess.Popen(
        [_local.program(), "up", "slow:Account", "--port", "0"],
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(temporary)},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert started.stderr is not None
    with started, started.stderr:
        assert any("it begins" in line for line in started.stderr)
        assert list(temporary.iterdir()), "its host has a directory"
        started.terminate()
        assert started.wait(SECONDS) == -signal.SIGTERM
    assert not list(temporary.iterdir())


def call(group: Running, *words: str) -> tuple[int, str]:
    return quorate_says("call", "--endpoint", group.endpoint, *words)


def total(group: Running) -> int:
    with quorate.connect(f"{group.endpoint}/counter") as counter:
        return int(counter.get())


def test_a_call_of_the_connection_instead_of_its_object_is_told_so(group: Running) -> None:
    connection: Any = quorate.connect(f"{group.endpoint}/counter")
    with connection, pytest.raises(AttributeError, match="no 'deposit': the object is what `with quorate"):
        connection.deposit(1)
    connection = quorate.aconnect(f"{group.endpoint}/counter")
    with pytest.raises(AttributeError, match="no 'deposit': the object is what `async with quorate"):
        connection.deposit(1)


@pytest.mark.parametrize(
    ("words", "code", "cause"),
    [
        (["up", "absent_module:Account"], USAGE, "no module 'absent_module'"),
        (["up", "json:Account"], USAGE, "module 'json' has no class 'Account'"),
        (["up", "bank"], USAGE, "write module:Class"),
        (["up", "rust:abacus"], USAGE, "no built-in object `rust:abacus`"),
        (["up", "rust:counter", "--nods", "3"], USAGE, "--nods"),
        (["up", "rust:counter", "--nodes", "0"], USAGE, "--nodes"),
        (["up", "rust:counter", "--persist", "paper"], USAGE, "paper"),
        (
            ["up", "rust:counter", "--args", "[1"],
            USAGE,
            "write for example --args '[\"A-1\", 100]'",
        ),
        (["up", "rust:counter", "--args", "A-1"], USAGE, "text is in double quotes"),
        (["up", "rust:counter", "--kwargs", "7"], USAGE, "write for example --kwargs '{"),
        (["up", "rust:counter", "--budget", "-1"], USAGE, "takes a number of steps"),
        (["up", "rust:counter", "--nodes", "-1"], USAGE, "-1 is not in 1..=9"),
        (["status", "--endpoint", "quorate://127.0.0.1:99999"], USAGE, "up to 65535"),
        (["up", "rust:counter", "--args", "[1.5]"], USAGE, "'float' object is not iterable"),
        (["frobnicate"], USAGE, "frobnicate"),
        (["call", "--endpoint", "http://127.0.0.1:1", "counter", "get"], USAGE, "quorate://host:port"),
        (
            ["call", "--endpoint", "quorate://127.0.0.1:1", "--timeout", "1", "c", "get"],
            NO_QUORUM,
            "no quorum",
        ),
        (["status", "--endpoint", "quorate://127.0.0.1:1"], NO_QUORUM, "127.0.0.1:1"),
        (["node", "run", "--config", "absent.toml"], USAGE, "absent.toml"),
        (["object", "create", "bank:Account", "savings"], USAGE, "object create savings bank:Account"),
    ],
)
def test_a_wrong_command_names_its_cause(words: list[str], code: int, cause: str, tmp_path: Path) -> None:
    given = [*words, "--port", "0", "--dir", str(tmp_path / "data")] if words[0] == "up" else words
    exit_code, complaint = quorate_says(*given)
    assert (exit_code, cause in complaint) == (code, True), complaint
    assert "panicked" not in complaint
    assert not (tmp_path / "data").exists(), "a group that cannot be made leaves nothing behind"


@pytest.mark.parametrize(
    ("words", "code", "cause"),
    [
        (["counter", "halve"], FAILED, "no public method `halve`"),
        (["counter", "--kwargs", "n", "add"], USAGE, "write for example"),
        (["counter", "__class__"], FAILED, "__class__"),
        (["counter", "_number"], FAILED, "_number"),
        (["counter", "add", "many"], FAILED, "`n` is not an integer"),
        (["counter", "add", "1", "2", "3"], FAILED, "takes"),
        (["abacus", "add"], NOT_FOUND, "no object named 'abacus'; this group began with: counter"),
        (
            ["abacus", "add"],
            NOT_FOUND,
            "`quorate object list` names those of the group that were created since",
        ),
        (["counter", ""], USAGE, "the length of the method's name (1 to 255 bytes) is out of range"),
        (["counter", "add", "--timeout", "-1"], USAGE, "--timeout"),
    ],
)
def test_a_wrong_call_names_its_cause_and_changes_nothing(
    group: Running, words: list[str], code: int, cause: str
) -> None:
    before = total(group)
    exit_code, complaint = call(group, *words)
    assert (exit_code, cause in complaint) == (code, True), complaint
    assert total(group) == before


def test_an_argument_that_cannot_travel_is_named_by_its_path(group: Running) -> None:
    with quorate.connect(f"{group.endpoint}/counter") as counter:
        before = counter.get()
        with pytest.raises(quorate.UnsupportedValue, match=r"args\[0\]\[1\]: lock is not supported"):
            counter.add([1, threading.Lock()])
        assert counter.get() == before


def test_an_argument_that_is_too_large_is_refused_and_the_connection_goes_on(group: Running) -> None:
    with quorate.connect(f"{group.endpoint}/counter", timeout=5.0) as counter:
        before = counter.get()
        with pytest.raises(quorate.Refused, match="too large: a call or read carries at most 8384512 bytes"):
            counter.add("x" * LARGEST_CALL)
        with pytest.raises(TypeError, match="not an integer"):
            counter.add("x" * (LARGEST_CALL - 64))
        assert counter.get() == before


def test_private_methods_are_refused_before_anything_is_sent(group: Running) -> None:
    with quorate.connect(f"{group.endpoint}/counter") as counter, pytest.raises(quorate.NoSuchMethod):
        counter._add(1)


def test_a_port_in_use_is_named_and_nothing_is_made(group: Running, tmp_path: Path) -> None:
    port = group.nodes[0]["address"].rsplit(":", 1)[1]
    words = ["up", "rust:counter", "--port", port, "--dir", str(tmp_path / "data")]
    exit_code, complaint = quorate_says(*words)
    assert exit_code == FAILED
    assert f":{port} is in use" in complaint
    assert not (tmp_path / "data").exists()


def changed_config(group: Running, to: Path, changes: dict[str, str]) -> Path:
    """The first node's configuration with other values for some keys, and a port of its own."""
    lines = (group.directory / "node-1.toml").read_text().splitlines()
    values = {**changes, "listen": f'"127.0.0.1:{free_port()}"'}
    changed = [
        f"{key} = {values.pop(key)}" if (key := line.split(" = ")[0]) in values else line for line in lines
    ]
    assert set(values) == set(), f"the configuration has no {', '.join(values)}"
    written = to / "node.toml"
    written.write_text("\n".join(line for line in changed if not line.startswith("admin")))
    return written


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


def test_two_nodes_on_one_directory_do_not_both_run(group: Running, tmp_path: Path) -> None:
    exit_code, complaint = quorate_says("node", "run", "--config", str(changed_config(group, tmp_path, {})))
    assert exit_code == FAILED
    assert "node-1" in complaint
    assert f"locked by process {group.nodes[0]['pid']}" in complaint
    assert total(group) >= 0, "the first one goes on"


def test_a_node_does_not_run_on_an_empty_or_absent_directory(group: Running, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for name in ("empty", "absent"):
        config = changed_config(group, tmp_path, {"dir": json.dumps(str(tmp_path / name))})
        exit_code, complaint = quorate_says("node", "run", "--config", str(config))
        assert exit_code == USAGE
        assert "quorate node init" in complaint
    assert list((tmp_path / "empty").iterdir()) == []


def test_a_directory_is_made_once(tmp_path: Path) -> None:
    words = ["node", "init", "--dir", str(tmp_path / "data"), "--node", "1"]
    assert quorate_says(*words)[0] == 0
    exit_code, complaint = quorate_says(*words)
    assert exit_code == CONFLICT
    assert str(tmp_path / "data") in complaint
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "notes.txt").write_text("mine")
    exit_code, complaint = quorate_says("node", "init", "--dir", str(tmp_path / "used"), "--node", "1")
    assert exit_code == CONFLICT
    assert "is not empty" in complaint
    assert "\n  name a directory that is empty or does not exist" in complaint


def test_a_group_takes_no_directory_that_others_use(tmp_path: Path) -> None:
    used = tmp_path / "used"
    used.mkdir()
    (used / "notes.txt").write_text("mine")
    exit_code, complaint = quorate_says("up", "rust:counter", "--port", "0", "--dir", str(used))
    assert exit_code == CONFLICT
    assert "holds what no group has made: notes.txt" in complaint
    assert [path.name for path in used.iterdir()] == ["notes.txt"]


def test_parts_of_a_group_are_not_taken_for_another_ones_files(tmp_path: Path) -> None:
    half = tmp_path / "half"
    assert quorate_says("node", "init", "--dir", str(half / "node-1"), "--node", "1")[0] == 0
    exit_code, complaint = quorate_says("up", "rust:counter", "--port", "0", "--dir", str(half))
    assert exit_code == CONFLICT
    assert "that was interrupted leaves such parts" in complaint
    assert "node-1.toml" in complaint


@pytest.mark.parametrize("words", [["up", "rust:counter", "--port", "0"], ["node", "init", "--node", "1"]])
def test_a_directory_that_cannot_be_made_is_explained(words: list[str], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path, code, said in (
        (str(tmp_path / "file"), CONFLICT, "is a file, and a directory is needed"),
        (str(tmp_path / "file" / "below"), FAILED, "a part of its path is a file"),
        ("/proc/quorate", FAILED, "takes no directories"),
    ):
        exit_code, complaint = quorate_says(*words, "--dir", path)
        assert (exit_code, said in complaint) == (code, True), complaint
        assert "os error" not in complaint


def test_a_directory_of_another_cluster_is_not_used(group: Running, tmp_path: Path) -> None:
    foreign = tmp_path / "foreign"
    assert quorate_says("node", "init", "--dir", str(foreign), "--node", "1")[0] == 0
    config = changed_config(group, tmp_path, {"dir": json.dumps(str(foreign))})
    exit_code, complaint = quorate_says("node", "run", "--config", str(config))
    assert exit_code == USAGE
    assert "cluster" in complaint


def test_a_node_whose_directory_was_wiped_does_not_come_back_under_its_number(
    group: Running, tmp_path: Path
) -> None:
    cluster = cluster_of(group)
    wiped = tmp_path / "wiped"
    assert quorate_says("node", "init", "--dir", str(wiped), "--node", "1", "--cluster", cluster)[0] == 0
    config = changed_config(group, tmp_path, {"dir": json.dumps(str(wiped))})
    exit_code, complaint = quorate_says("node", "run", "--config", str(config))
    assert exit_code == USAGE
    assert "incarnation" in complaint


def cluster_of(group: Running) -> str:
    lines = (group.directory / "node-1.toml").read_text().splitlines()
    return next(line.split('"')[1] for line in lines if line.startswith("cluster"))


def test_a_node_of_another_cluster_is_turned_away_and_says_why(group: Running, tmp_path: Path) -> None:
    foreign = "00000000000000ff"
    made = [_local.program(), "node", "init", "--node", "1", "--cluster", foreign, "-o", "json"]
    told = subprocess.run([*made, "--dir", str(tmp_path / "own")], capture_output=True, check=True)
    config = changed_config(
        group, tmp_path, {"dir": json.dumps(str(tmp_path / "own")), "cluster": f'"{foreign}"'}
    )
    of_group = next(
        line.split('"')[1] for line in config.read_text().splitlines() if line.startswith("incarnation")
    )
    config.write_text(config.read_text().replace(of_group, json.loads(told.stdout)["incarnation"]))
    command = [_local.program(), "node", "run", "--config", str(config)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as node:
        assert node.stderr is not None
        # The line comes with the first try to reach a member; the pipe ends if the node does.
        alarm = threading.Timer(SECONDS, node.kill)
        alarm.start()
        said = next((line for line in node.stderr if "refused" in line), "it said nothing of a refusal")
        alarm.cancel()
        node.kill()
    assert "not the cluster you mean" in said


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"\x00",
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\xff" * 64,
        bytes(16),
        (2**31).to_bytes(4, "little") + b"\x01" + bytes(11),
        (2**32 - 1).to_bytes(4, "little") + b"\x01" + bytes(11),
        (64).to_bytes(4, "little") + b"\x01\x00\x00\x00" + b"\x01\x00\x00\x00" + b"cut",
    ],
    ids=["nothing", "a byte", "http", "noise", "zeros", "2 GiB", "4 GiB", "a cut frame"],
)
def test_bytes_that_are_no_frame_end_their_connection_and_no_other(group: Running, sent: bytes) -> None:
    host, port = group.nodes[0]["address"].rsplit(":", 1)
    with quorate.connect(f"{group.endpoint}/counter") as counter:
        before = counter.get()
        with socket.create_connection((host, int(port)), timeout=SECONDS) as stranger:
            stranger.sendall(sent)
            stranger.shutdown(socket.SHUT_WR)
            assert_ended(stranger)
        assert counter.add(1) == before + 1


def assert_ended(stranger: socket.socket) -> None:
    """The node closes; it may say why before, and nothing else."""
    said = b""
    try:
        while part := stranger.recv(4096):
            said += part
    except ConnectionResetError:
        pass
    assert len(said) < 4096


def test_another_address_without_certificates_is_refused(group: Running, tmp_path: Path) -> None:
    config = changed_config(group, tmp_path, {})
    config.write_text(config.read_text().replace('listen = "127.0.0.1', 'listen = "0.0.0.0'))
    exit_code, complaint = quorate_says("node", "run", "--config", str(config))
    assert exit_code == USAGE
    assert "listen" in complaint
    assert "insecure" in complaint


def test_a_mistyped_key_of_the_configuration_is_named(group: Running, tmp_path: Path) -> None:
    config = changed_config(group, tmp_path, {})
    config.write_text("presist = 'disk'\n" + config.read_text())
    exit_code, complaint = quorate_says("node", "run", "--config", str(config))
    assert exit_code == USAGE
    assert "presist" in complaint


def test_a_damaged_identity_stops_the_node(group: Running, tmp_path: Path) -> None:
    copied = tmp_path / "copied"
    shutil.copytree(group.directory / "node-1", copied, ignore=shutil.ignore_patterns("log", "snapshots"))
    for half in ("identity-a", "identity-b"):
        (copied / half).write_bytes(b"\xff" * 64)
    config = changed_config(group, tmp_path, {"dir": json.dumps(str(copied))})
    exit_code, complaint = quorate_says("node", "run", "--config", str(config))
    assert exit_code in (FAILED, USAGE)
    assert "identity" in complaint
