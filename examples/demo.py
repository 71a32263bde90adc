"""The demo: an account on three processes, four clients, and processes killed under them.

`make demo` runs it in a checkout. It ends with 0 only if every acknowledged call stands exactly
once on all three replicas.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import importlib
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import quorate
from audited_bank import AuditedAccount
from quorate import _local

EXAMPLES = Path(__file__).resolve().parent
CLIENTS = 4
PAGE = 5_000
OPENING_BALANCE = 1_000

# What happens, at which second of the load.
SCRIPT = ((3.0, "leader"), (9.0, "follower"), (15.0, "leader"))
LOAD_SECONDS = 21.0
CATCH_UP_SECONDS = 45.0


@dataclass
class Client:
    """What one client did, as it saw it."""

    number: int
    acknowledged: dict[int, int] = field(default_factory=dict)
    """Token of each acknowledged call, and the change that it reported."""
    unknown: set[int] = field(default_factory=set)
    """Tokens of calls whose outcome stayed unknown."""
    times: list[float] = field(default_factory=list)
    """When each answer came."""
    failure: BaseException | None = None

    def longest_wait(self, began: float, ended: float) -> float:
        """The longest time without an answer."""
        marks = [began, *self.times, ended]
        return max(after - before for before, after in itertools.pairwise(marks))


@dataclass
class Event:
    """A process killed, or back."""

    at: float
    text: str


class Demo:
    """One run."""

    def __init__(self, ready: dict[str, Any], cls: type[Any]) -> None:
        self.endpoint: str = ready["endpoint"]
        self.nodes: dict[int, dict[str, Any]] = {node["id"]: node for node in ready["nodes"]}
        self.cls = cls
        self.clients = [Client(number) for number in range(CLIENTS)]
        self.events: list[Event] = []
        self.is_over = threading.Event()
        self.began = 0.0
        self.ended = 0.0
        self.shown = Display(self)

    def run(self) -> None:
        """Load, and the script of failures."""
        threads = [threading.Thread(target=self.work, args=(client,)) for client in self.clients]
        self.began = time.monotonic()
        for thread in threads:
            thread.start()
        try:
            for second, victim in SCRIPT:
                self.shown.until(self.began + second)
                self.kill(victim)
            self.shown.until(self.began + LOAD_SECONDS)
        finally:
            self.is_over.set()
            for thread in threads:
                thread.join()
            self.ended = time.monotonic()
        self.shown.close()

    def work(self, client: Client) -> None:
        """Deposit and debit, one call after the other, until it is over."""
        draw = random.Random(client.number)
        try:
            with quorate.connect(self.endpoint, self.cls, timeout=30.0) as account:
                token = client.number
                while not self.is_over.is_set():
                    token += CLIENTS
                    amount = draw.randrange(1, 100)
                    try:
                        if draw.random() < 0.5:
                            account.deposit_as(token, amount)
                            change = amount
                        else:
                            change = -amount if account.debit_as(token, amount) else 0
                    except quorate.OutcomeUnknown:
                        client.unknown.add(token)
                        continue
                    except quorate.NotExecuted:
                        continue
                    client.acknowledged[token] = change
                    client.times.append(time.monotonic())
        except BaseException as error:
            client.failure = error

    def kill(self, victim: str) -> None:
        """SIGKILL the leader, or a node that does not lead; `quorate up` starts it again."""
        status = self.status()
        leader = status["leader"]
        chosen = next(
            n for n in status["nodes"] if n["up"] and (n["id"] == leader) == (victim == "leader")
        )
        self.note(f"{victim} killed (node {chosen['id']}, process {chosen['pid']})")
        os.kill(chosen["pid"], signal.SIGKILL)
        threading.Thread(
            target=self.await_return, args=(chosen["id"], chosen["pid"]), daemon=True
        ).start()

    def await_return(self, node: int, old: int) -> None:
        """Note when the node is up again."""
        while not self.is_over.wait(0.1):
            with contextlib.suppress(quorate.QuorateError):
                for found in self.status()["nodes"]:
                    if found["id"] == node and found["up"] and found["pid"] != old:
                        self.note(f"node {node} is back (process {found['pid']})")
                        return

    def status(self) -> dict[str, Any]:
        """The group's state, by the command that people use; asked again while nobody leads."""
        for _ in range(50):
            told = subprocess.run(
                [_local.program(), "status", "--endpoint", self.endpoint, "-o", "json"],
                capture_output=True,
                text=True,
                check=False,
            )
            if told.returncode == 0:
                status: dict[str, Any] = json.loads(told.stdout)
                if status["leader"] is not None:
                    return status
            time.sleep(0.1)
        raise quorate.Unavailable(f"no leader for five seconds: {told.stderr.strip()}")

    def note(self, text: str) -> None:
        """Something happened."""
        self.events.append(Event(time.monotonic() - self.began, text))
        self.shown.line(f"{self.events[-1].at:6.2f} s  {text}")

    def verify(self) -> list[str]:
        """What is wrong on each replica; empty when every acknowledged call stands exactly once."""
        wrong = [f"client {c.number} stopped: {c.failure!r}" for c in self.clients if c.failure]
        with quorate.connect(self.endpoint, self.cls) as account:
            balance, count = account.total()
        print(f"the group has executed {count} calls; the balance is {balance}")
        for number, node in self.nodes.items():
            wrong += self.verify_replica(number, node["address"], balance, count)
        return wrong

    def verify_replica(self, number: int, address: str, balance: int, count: int) -> list[str]:
        """Read everything from one replica, whatever the others say."""
        name = self.endpoint.rpartition("/")[2]
        entries: list[tuple[int, int]] = []
        until = time.monotonic() + CATCH_UP_SECONDS
        with quorate.connect(
            f"quorate://{address}/{name}", self.cls, timeout=CATCH_UP_SECONDS
        ) as account:
            replica = quorate.weak(account)
            while replica.total() != (balance, count):
                if time.monotonic() > until:
                    return [f"node {number} has {replica.total()}, not {(balance, count)}"]
                time.sleep(0.1)
            while len(entries) < count:
                entries += replica.audit(len(entries), PAGE)
        wrong = self.compare(number, entries, balance)
        said = "no" if wrong else "yes"
        print(f"node {number}: {count} calls, each acknowledged one exactly once: {said}")
        return wrong

    def compare(self, number: int, entries: list[tuple[int, int]], balance: int) -> list[str]:
        """Problems: a call missing, doubled, unsent or changed, or a wrong sum."""
        times = collections.Counter(token for token, _ in entries)
        changes = dict(entries)
        wrong = [
            f"node {number}: call {token} stands {n} times" for token, n in times.items() if n > 1
        ]
        for client in self.clients:
            for token, change in client.acknowledged.items():
                if token not in changes:
                    wrong.append(f"node {number}: acknowledged call {token} is missing")
                elif changes[token] != change:
                    wrong.append(
                        f"node {number}: call {token} was answered {change}, is {changes[token]}"
                    )
        sent = set().union(*(c.acknowledged.keys() | c.unknown for c in self.clients))
        wrong += [f"node {number}: nobody knows of call {token}" for token in changes.keys() - sent]
        if OPENING_BALANCE + sum(change for _, change in entries) != balance:
            wrong.append(f"node {number}: the changes do not add up to the balance")
        return wrong

    def longest_outage(self) -> float:
        """The longest time that any client waited for an answer, in seconds."""
        return max(client.longest_wait(self.began, self.ended) for client in self.clients)


class Display:
    """A live line on a terminal; lines of events everywhere."""

    def __init__(self, demo: Demo) -> None:
        self._demo = demo
        self._is_terminal = sys.stderr.isatty()

    def until(self, moment: float) -> None:
        """Show progress until then."""
        before, counted = time.monotonic(), self._count()
        while (now := time.monotonic()) < moment and any(
            c.failure is None for c in self._demo.clients
        ):
            time.sleep(min(0.2, moment - now))
            if self._is_terminal:
                count, now = self._count(), time.monotonic()
                rate = (count - counted) / (now - before)
                before, counted = now, count
                bar = "#" * min(40, round(rate / 100))
                elapsed = now - self._demo.began
                sys.stderr.write(
                    f"\r\x1b[K{elapsed:6.2f} s  {count:8d} calls  {rate:7.0f}/s  {bar}"
                )
                sys.stderr.flush()

    def _count(self) -> int:
        return sum(len(client.times) for client in self._demo.clients)

    def line(self, text: str) -> None:
        """A line that stays."""
        print(("\r\x1b[K" if self._is_terminal else "") + text, file=sys.stderr, flush=True)

    def close(self) -> None:
        """Leave the live line."""
        if self._is_terminal:
            sys.stderr.write("\r\x1b[K")


def draw(demo: Demo, directory: Path) -> list[Path]:
    """The timeline as SVG and PNG: calls per tenth of a second, and what happened."""
    matplotlib: Any = importlib.import_module("matplotlib")
    matplotlib.use("svg")
    pyplot: Any = importlib.import_module("matplotlib.pyplot")
    length = demo.ended - demo.began
    buckets = [0] * (int(length * 10) + 1)
    for client in demo.clients:
        for moment in client.times:
            buckets[min(int((moment - demo.began) * 10), len(buckets) - 1)] += 10
    figure, axes = pyplot.subplots(figsize=(10, 4), layout="constrained")
    axes.fill_between(
        [i / 10 for i in range(len(buckets))], buckets, step="post", color="#3b6ea5", alpha=0.8
    )
    top = max(buckets) * 1.35
    for index, event in enumerate(demo.events):
        colour = "#b03030" if "killed" in event.text else "#2f7d4f"
        axes.axvline(event.at, color=colour, linewidth=1)
        label = event.text.partition(" (")[0]
        height = top * (0.97 - 0.06 * (index % 4))
        axes.text(event.at + 0.1, height, label, color=colour, fontsize=8, va="top")
    axes.set(
        xlim=(0, length), ylim=(0, top), xlabel="seconds", ylabel="acknowledged calls per second"
    )
    longest_ms = demo.longest_outage() * 1000
    axes.set_title(f"{CLIENTS} clients, three nodes; longest wait of a client {longest_ms:.0f} ms")
    directory.mkdir(parents=True, exist_ok=True)
    pictures = [directory / "timeline.svg", directory / "timeline.png"]
    for picture in pictures:
        figure.savefig(picture, dpi=150)
    return pictures


def main(arguments: list[str] | None = None) -> int:
    """Run the demo; 0 when nothing was lost or doubled."""
    parser = argparse.ArgumentParser(
        prog="quorate demo", description="Kill nodes under four clients."
    )
    parser.add_argument("--out", type=Path, default=Path("out/demo"), help="where the pictures go")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="quorate-demo-") as directory:
        up = ["--args", json.dumps(["A-1", OPENING_BALANCE]), "--nodes", "3", "--persist", "disk"]
        up += ["--dir", directory, "--port", "0"]
        with _local.start_group("audited_bank:AuditedAccount", up, EXAMPLES) as ready:
            demo = Demo(ready, AuditedAccount)
            print(f"three nodes serve {demo.endpoint}", file=sys.stderr)
            demo.run()
            wrong = demo.verify()
    return report(demo, wrong, options.out)


def report(demo: Demo, wrong: list[str], out: Path) -> int:
    """Say how it went."""
    acknowledged = sum(len(client.acknowledged) for client in demo.clients)
    unknown = sum(len(client.unknown) for client in demo.clients)
    print(f"acknowledged calls: {acknowledged}; with unknown outcome: {unknown}")
    print(f"longest outage seen by a client: {demo.longest_outage() * 1000:.0f} ms")
    try:
        for picture in draw(demo, out):
            print(f"timeline: {picture}")
    except ModuleNotFoundError as error:
        print(f"no picture: {error.name} is not installed", file=sys.stderr)
    for line in wrong[:20]:
        print(f"WRONG: {line}", file=sys.stderr)
    if not wrong:
        print("every acknowledged call is present exactly once on all three replicas")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
