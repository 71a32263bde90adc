"""What the smaller scripts of the lab share: a directory, a network and one whole group, ended together.

`run.py` makes several groups on one network and assembles them itself.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import isolation
from checker import ROOT
from group import Group, GroupPlan, ObjectPlan
from network import Loopback, Namespaces, Network

COUNTER = ObjectPlan("Counter", "rust:counter")


def default_quorate() -> str:
    """The program: QUORATE_PROGRAM, else beside this interpreter, else on the path."""
    named = os.environ.get("QUORATE_PROGRAM")
    if named:
        return named
    beside = Path(sys.executable).parent / "quorate"
    return str(beside) if beside.exists() else shutil.which("quorate") or "quorate"


def add_common_options(parser: argparse.ArgumentParser) -> None:
    """Options that every script has."""
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--persist", choices=("disk", "memory"), default="disk")
    parser.add_argument("--quorate", default=default_quorate(), help="the program under test")
    parser.add_argument("--keep", type=Path, default=ROOT / "out" / "nemesis", help="where logs stay")


def fresh_directory(keep: Path, name: str) -> Path:
    """A directory for one run, named after the moment."""
    directory = keep / f"{time.strftime('%Y%m%d-%H%M%S')}-{name}"
    directory.mkdir(parents=True)
    return directory


@contextlib.contextmanager
def network_of(nodes: int) -> Iterator[Network]:
    """The network that the machine permits."""
    network: Network = Namespaces(nodes) if isolation.is_isolated() else Loopback(nodes)
    try:
        yield network
    finally:
        network.close()


@contextlib.contextmanager
def one_group(given: argparse.Namespace, name: str, served: ObjectPlan = COUNTER) -> Iterator[Group]:
    """A whole group as the options say."""
    directory = fresh_directory(given.keep, name)
    plan = GroupPlan(
        directory=directory,
        quorate=given.quorate,
        served=served,
        nodes=given.nodes,
        persist=given.persist,
    )
    with network_of(given.nodes) as network, Group(plan, network) as group:
        print(f"{given.nodes} nodes, {served.cls}, persist {given.persist}, logs in {directory}", flush=True)
        yield group
