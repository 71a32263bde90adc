"""What clients call, and what must be true of the object when all is over.

One class per kind of object. Each draws the next call from a seeded source, names the object for the
history, and in the end compares the object with the calls that were acknowledged: each present exactly
once, each call without an answer at most once. Kinds are those that the history checker has a model of.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from group import ObjectPlan
from recording import Operation

HERE = Path(__file__).resolve().parent

CALLS_PER_KEY = 80
"""Calls of one client before it moves on to fresh keys: the checker searches key by key."""
SHARED_KEYS = 4
"""Keys in use at a time, shared by all clients, so that calls on one key are concurrent."""


@dataclass(frozen=True)
class Step:
    """One call to make."""

    op: str
    args: tuple[Any, ...]
    is_read: bool = False
    keeps_result: bool = True
    """Whether the answer means what the checker's model answers."""


GET = Step("get", (), is_read=True)
DEBIT = Step("debit", (4,))
NOTHING = Step("deposit", (0,))


class Workload(Protocol):
    """Draws calls, and judges the object when they are over."""

    served: ObjectPlan
    recorded_as: str

    def step(self, rng: random.Random, client: int, number: int) -> Step:
        """The call that client makes as its `number`th."""

    def final_steps(self, operations: list[Operation]) -> list[Step]:
        """Reads that show all there is, once every client is done."""

    def problems(self, operations: list[Operation], final: list[Operation]) -> list[str]:
        """Acknowledged calls that are absent or present twice."""


class Texts:
    """Keys with texts: puts, deletes and gets on some, unique appends on others."""

    recorded_as = "kv/Shelf"

    def __init__(self, served: ObjectPlan) -> None:
        self.served = served

    def step(self, rng: random.Random, client: int, number: int) -> Step:
        """Mostly appends and reads; puts and deletes stay away from keys with appends."""
        epoch, key = number // CALLS_PER_KEY, rng.randrange(SHARED_KEYS)
        drawn = rng.random()
        if drawn < 0.4:
            return Step("append", (f"log-{epoch}-{key}", f"{client}.{number};"), keeps_result=False)
        if drawn < 0.6:
            return Step("get", (f"log-{epoch}-{key}",), is_read=True)
        if drawn < 0.75:
            return Step("put", (f"cell-{epoch}-{key}", f"{client}.{number}"), keeps_result=False)
        if drawn < 0.8:
            return Step("delete", (f"cell-{epoch}-{key}",))
        return Step("get", (f"cell-{epoch}-{key}",), is_read=True)

    def final_steps(self, operations: list[Operation]) -> list[Step]:
        """Every key that was ever named."""
        keys = sorted({str(operation.args[0]) for operation in operations})
        return [Step("get", (key,), is_read=True) for key in keys]

    def problems(self, operations: list[Operation], final: list[Operation]) -> list[str]:
        """Every piece that was appended is unique, so it can be counted."""
        present: Counter[tuple[str, str]] = Counter()
        for operation in final:
            if str(operation.args[0]).startswith("log-"):
                pieces = str(operation.result or "").split(";")[:-1]
                present.update((str(operation.args[0]), piece + ";") for piece in pieces)
        found = []
        for operation in operations:
            if operation.op != "append":
                continue
            times = present.pop((str(operation.args[0]), str(operation.args[1])), 0)
            if not _fits(operation, times):
                found.append(f"{operation.describe()} is present {times} times")
        found.extend(f"{piece} in {key} was never appended" for key, piece in present)
        return found


class Sums:
    """One number; what was added must be there."""

    def __init__(self, served: ObjectPlan, recorded_as: str, add: str, other: Step, total: Step) -> None:
        self.served = served
        self.recorded_as = recorded_as
        self._add = add
        self._other = other
        self._total = total

    def step(self, rng: random.Random, _client: int, _number: int) -> Step:
        """Additions, whose answers say what was there, and now and then something else."""
        return Step(self._add, (rng.randrange(1, 10),)) if rng.random() < 0.7 else self._other

    def final_steps(self, _operations: list[Operation]) -> list[Step]:
        """The total."""
        return [self._total]

    def problems(self, operations: list[Operation], final: list[Operation]) -> list[str]:
        """The total lies between what was acknowledged and what may have been added or taken besides."""
        low = high = 0
        for operation in operations:
            sign = {self._add: 1, "debit": -1}.get(operation.op, 0)
            amount = sign * int(operation.args[0]) if sign else 0
            if operation.is_acknowledged and (sign > 0 or operation.result):
                low, high = low + amount, high + amount
            elif operation.is_unknown:
                low, high = low + min(amount, 0), high + max(amount, 0)
        total = final[0].result if final else None
        if isinstance(total, int) and low <= total <= high:
            return []
        return [f"the total is {total}, not between {low} and {high}"]


class Cells:
    """One register: writes, reads, and exchanges whose answers decide."""

    recorded_as = "register/Register"

    def __init__(self, served: ObjectPlan) -> None:
        self.served = served

    def step(self, rng: random.Random, client: int, number: int) -> Step:
        """Values are unique, so a read names its writer."""
        drawn, value = rng.random(), f"{client}.{number}"
        if drawn < 0.4:
            return Step("read", (), is_read=True)
        if drawn < 0.8:
            return Step("write", (value,))
        return Step("cas", (f"{rng.randrange(8)}.{max(0, number - 1)}", value))

    def final_steps(self, _operations: list[Operation]) -> list[Step]:
        """The value."""
        return [Step("read", (), is_read=True)]

    def problems(self, operations: list[Operation], final: list[Operation]) -> list[str]:
        """The last value was written by somebody, and not refused."""
        value = final[0].result if final else None
        written = {
            operation.args[-1] for operation in operations if not operation.is_refused and operation.args
        }
        return [] if value is None or value in written else [f"{value} was never written"]


def _fits(operation: Operation, times: int) -> bool:
    if operation.is_acknowledged:
        return times == 1
    return times == 0 if operation.is_refused else times <= 1


def named(name: str, examples: Path) -> Workload:
    """The workload of an object as the command line names it."""
    if name == "shelf":
        return Texts(ObjectPlan("Shelf", "shelf:Shelf", path=(HERE,)))
    if name == "rust:kv":
        return Texts(ObjectPlan("Kv", "rust:kv"))
    if name == "rust:counter":
        return Sums(ObjectPlan("Counter", "rust:counter"), "counter/Counter", "add", GET, GET)
    if name == "rust:register":
        return Cells(ObjectPlan("Register", "rust:register"))
    if name == "bank:Account":
        account = ObjectPlan("Account", "bank:Account", args='["A-1"]', path=(examples,))
        return Sums(account, "account/Account", "deposit", DEBIT, NOTHING)
    raise ValueError(
        f"no workload for {name}: choose shelf, rust:kv, rust:counter, rust:register or bank:Account"
    )
