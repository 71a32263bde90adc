"""A group of real nodes: made by `quorate node init`, run by `quorate node run`, watched at admin ports.

The lab restarts nodes itself instead of leaving that to `quorate up`, because a fault decides when a node
comes back. Faults reach the nodes only through this.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from member import Member, Status
from network import Network
from waiting import NeverHappened, wait_until

CALL_TIMEOUT_S = 4.0
"""After which a node kills the host of a call: longer than faults stop hosts, short for an endless call."""

READY_S = 30.0
"""Time for a group to elect its first leader on a loaded machine of two cores."""


@dataclass(frozen=True)
class ObjectPlan:
    """The replicated object."""

    name: str
    cls: str
    args: str = "[]"
    path: tuple[Path, ...] = ()

    @property
    def is_python(self) -> bool:
        """Whether it runs in a host process."""
        return not self.cls.startswith("rust:")


@dataclass(frozen=True)
class GroupPlan:
    """What a group is made from."""

    directory: Path
    quorate: str
    served: ObjectPlan
    nodes: int = 3
    persist: str = "disk"
    ordering: str = "paxos"
    environment: dict[str, str] = field(default_factory=dict)
    """More variables for every node; `{node}` in a value becomes its number."""
    snapshot_after: tuple[int, int] | None = None
    """Commands and bytes of the log after which a snapshot is due; None for the product's own choice."""
    ready_s: float = READY_S
    """Time until all nodes are led for the first time."""
    limits: tuple[str, ...] = ()
    """Lines of `[limits]` in the configuration of every node."""
    begins_at_newest_level: bool = True
    """Whether the group begins at the newest level of its program, and not at the oldest."""


class Group:
    """The nodes of one group, ended when the `with` ends."""

    def __init__(self, plan: GroupPlan, network: Network) -> None:
        self.plan = plan
        self.network = network
        self.members: dict[int, Member] = {}
        self.joining: Member | None = None
        """A node on its way into the group, ended with it."""
        self.level: int | None = None
        """The newest level that the program speaks, if it says so."""
        self.cluster = f"{int.from_bytes(os.urandom(8), 'big'):016x}"

    def __enter__(self) -> Group:
        """Make the directories, start all nodes and wait until they are led."""
        try:
            self._form()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End every process."""
        for member in self.members.values():
            member.close()
        if self.joining is not None:
            self.joining.close()

    def admit(self, member: Member) -> None:
        """The node that was joining is a member."""
        self.members[member.number] = member
        self.joining = None

    @property
    def endpoint(self) -> str:
        """Where clients connect: every node, and the object."""
        hosts = ",".join(self.network.listen(node) for node in self.members)
        return f"quorate://{hosts}/{self.plan.served.name}"

    def __iter__(self) -> Iterator[Member]:
        """The members by number."""
        return iter(self.members.values())

    def statuses(self) -> dict[int, Status]:
        """What every node that answers says."""
        answers = ((member.number, member.status()) for member in self)
        return {number: status for number, status in answers if status is not None}

    def leader(self) -> Member:
        """Who leads, once somebody does."""
        return wait_until(self._leader, READY_S, "a leader")

    def _leader(self) -> Member | None:
        leading = [status for status in self.statuses().values() if status.leads]
        if not leading:
            return None
        # A deposed leader that does not know it yet has the lower round.
        newest = max(leading, key=lambda status: _round_of(status.ballot))
        return self.members[newest.node]

    def followers(self) -> list[Member]:
        """All running nodes but the leader."""
        leader = self.leader()
        return [member for member in self if member is not leader and member.is_running()]

    def trimmed(self) -> int:
        """The highest slot up to which some node has trimmed its log."""
        return max((status.trimmed for status in self.statuses().values()), default=0)

    def take_snapshot(self) -> None:
        """Have every replica take a snapshot at one agreed slot."""
        command = [self.plan.quorate, "snapshot", "--timeout", "60", "--endpoint", self.endpoint]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise OSError(f"quorate snapshot: {done.stderr.strip()}")

    def wait_whole(self, seconds: float) -> None:
        """Wait until every node answers, serves, follows one leader and has nearly caught up."""
        try:
            wait_until(self._is_whole, seconds, "a whole group")
        except NeverHappened as error:
            raise NeverHappened(f"{error}: {self.describe()}") from None

    def _is_whole(self) -> bool:
        statuses = self.statuses()
        if len(statuses) < len(self.members):
            return False
        newest = max(status.decided for status in statuses.values())
        leaders = {status.leader for status in statuses.values()}
        return (
            len(leaders) == 1
            and None not in leaders
            and all(status.is_serving for status in statuses.values())
            # Under load the others are a few slots behind at any moment.
            and all(newest - status.executed < 500 for status in statuses.values())
        )

    def wait_equal(self, seconds: float) -> dict[int, Status]:
        """Wait, without load, until every node has executed the same slots; return what they say."""

        def equal() -> dict[int, Status] | None:
            statuses = self.statuses()
            slots = {(status.executed, status.decided) for status in statuses.values()}
            return statuses if len(statuses) == len(self.members) and len(slots) == 1 else None

        try:
            return wait_until(equal, seconds, "the same slots executed on every node")
        except NeverHappened as error:
            raise NeverHappened(f"{error}: {self.describe()}") from None

    def describe(self) -> str:
        """One line about every node, for messages."""
        statuses = self.statuses()
        return "; ".join(self._describe(member, statuses.get(member.number)) for member in self)

    @staticmethod
    def _describe(member: Member, status: Status | None) -> str:
        if status is None:
            state = "silent" if member.is_running() else "down"
            return f"node {member.number} {state}: {member.last_words()}"
        role = "leads" if status.leads else f"follows {status.leader}"
        serves = "" if status.is_serving else " and does not serve"
        return f"node {member.number} {role} at {status.executed} of {status.decided}{serves}"

    def _form(self) -> None:
        plan = self.plan
        cluster = self.cluster
        numbers = range(1, plan.nodes + 1)
        incarnations = {number: self._init(number, cluster) for number in numbers}
        for number in numbers:
            config = plan.directory / f"node{number}.toml"
            config.write_text(self._config(number, cluster, incarnations))
            self.members[number] = self._member(number, config)
        for member in self:
            member.start()
        wait_until(self._is_whole_or_dead, plan.ready_s, "a first leader")
        for member in self:
            if not member.is_running():
                raise NeverHappened(f"node {member.number} did not start: {member.last_words()}")

    def _is_whole_or_dead(self) -> bool:
        return not all(member.is_running() for member in self) or self._is_whole()

    def _init(self, number: int, cluster: str) -> str:
        directory = self.directory_of(number)
        command = [self.plan.quorate, "node", "init", "-o", "json", "--dir", str(directory)]
        command += ["--node", str(number), "--cluster", cluster, "--persist", self.plan.persist]
        made = subprocess.run(command, capture_output=True, text=True, check=False)
        if made.returncode != 0:
            raise OSError(f"node init: {made.stderr.strip()}")
        said = json.loads(made.stdout)
        self.level = said.get("level")
        return str(said["incarnation"])

    def directory_of(self, number: int) -> Path:
        """The data directory; below a directory of the node's own, where a disk may be mounted."""
        return self.plan.directory / f"disk{number}" / "data"

    def _member(self, number: int, config: Path) -> Member:
        # The node dies with the lab, however the lab ends.
        run = [self.plan.quorate, "node", "run", "--config", str(config), "--supervised-by", str(os.getpid())]
        extra = {key: value.format(node=number) for key, value in self.plan.environment.items()}
        return Member(
            number=number,
            directory=self.directory_of(number),
            config=config,
            log=config.with_suffix(".log"),
            admin=self.network.admin(number),
            command=[*self.network.prefix(number), *run],
            environment={**os.environ, **extra},
        )

    def _config(self, number: int, cluster: str, incarnations: dict[int, str]) -> str:
        plan, served = self.plan, self.plan.served
        lines = [
            f"cluster = {_text(cluster)}",
            f"node = {number}",
            f"dir = {_text(str(self.directory_of(number)))}",
            f"listen = {_text(self.network.listen(number))}",
            f"admin = {_text(self.network.admin(number))}",
            f"persist = {_text(plan.persist)}",
            f"ordering = {_text(plan.ordering)}",
            f"python = {_text(sys.executable)}",
            f"call_timeout = {CALL_TIMEOUT_S}",
            # The lab's own network leads nowhere else.
            "insecure = true",
        ]
        if plan.begins_at_newest_level and self.level is not None:
            lines.append(f"level = {self.level}")
        if plan.limits:
            lines += ["[limits]", *plan.limits]
        if plan.snapshot_after is not None:
            commands, size = plan.snapshot_after
            lines += ["[snapshot]", f"commands = {commands}", f"bytes = {size}"]
        lines += ["[[objects]]", f"name = {_text(served.name)}", f"class = {_text(served.cls)}"]
        lines += [f"args = {_text(served.args)}", f"path = {json.dumps([str(each) for each in served.path])}"]
        for member, incarnation in incarnations.items():
            lines += ["[[members]]", f"node = {member}", f"incarnation = {_text(incarnation)}"]
            lines += [f"address = {_text(self.network.listen(member))}"]
        return "\n".join(lines) + "\n"


def _text(text: str) -> str:
    return json.dumps(text)


def _round_of(ballot: str) -> int:
    return int(ballot.lstrip("b").split(".")[0])
