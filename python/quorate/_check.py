"""`quorate check`: runs a class in several processes as replicas would, and compares what comes of it.

The first process makes the object and calls its methods. A second one repeats all calls, later and with other
addresses: what differs is not deterministic. Others begin in the middle, with the object restored from its
image: what differs was not kept. One more has another hash seed: what differs follows the order of a set.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from quorate import _lint, _native, _undo
from quorate._findings import Found, in_order, shown_path
from quorate._trials import Reply, ask

TURN_OF_CLOCK_SECONDS = 1.1
"""Between a call and its repetition: a clock that shows seconds shows others then."""

LEFT_OUT_MAX = 32
"""Methods that end their process or do not end: each costs a process and up to three seconds."""

SEED = 1
OTHER_SEED = 2

_IN_EVERY_METHOD = frozenset(["__getattribute__", "__del__", "utcoffset", "dst", "tzname", "fromutc"])
"""Special methods that a proof looks at whatever its method does."""

OF_MODULE = ("assigns the variable ", "declares a global variable")
"""How reasons begin that speak of a variable of a module."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is checked, and how thoroughly.

    >>> Plan("bank:Account", ["/src"]).calls
    240
    """

    path: str
    paths: list[str]
    args: list[Any] | None = None
    kwargs: dict[str, Any] | None = None
    allow: list[str] = field(default_factory=list)
    given: list[tuple[str, list[Any], dict[str, Any]]] = field(default_factory=list)
    calls: int = 240
    restores: int = 3
    is_short: bool = False
    reads_source: bool = True


class Unfit(Exception):
    """The class or its instance cannot be made."""


@dataclass(slots=True)
class Method:
    """A row of the table."""

    name: str
    kind: str
    why: str
    file: str
    line: int
    calls: int = 0
    raised: int = 0
    changed: int = 0
    is_told: bool = True
    is_agreed: bool = True
    is_kept: bool = True
    unguessed: str = ""
    last_raised: str = ""
    unseen: int = 0
    """Calls before or after which the state could not be taken: nobody knows whether they changed it."""
    is_outside: bool = False
    """Whether it changes what is no part of the object, such as a variable of a module."""
    ended: str = ""
    """Why it is left out: it does not end, or ends its process."""
    hook: tuple[str, str, int] | None = None
    """The special method, of any class, that stands against a proof; its file and line."""

    @property
    def changed_nothing(self) -> bool:
        """Whether no call has changed anything, as far as that shows."""
        return self.calls > 0 and not (self.changed or self.unseen or self.is_outside)

    def cells(self) -> list[str]:
        """The words of the row."""
        reads = self.kind or ("no (changed nothing)" if self.changed_nothing else "no")
        if self.ended or not self.calls:
            return [self.name, self.kind or "no", "-", "-", "-", self.ended or "not called"]
        raised = f", {self.raised} raised" if self.raised else ""
        words = ["yes" if each else "NO" for each in (self.is_told, self.is_agreed, self.is_kept)]
        if not self.is_agreed:
            words[2] = "-"
        return [self.name, reads, *words, f"{self.calls}{raised}"]


TITLES = ["METHOD", "READ-ONLY", "TRAVELS", "DETERMINISTIC", "STATE KEPT", "CALLS"]


@dataclass(slots=True)
class Report:
    """What a check has found."""

    methods: list[Method]
    found: list[Found]

    @property
    def problems(self) -> int:
        """How many findings make replicas differ, lose state or raise."""
        return sum(each.level == "problem" for each in self.found)


class Check:
    """One check of one class."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._found: list[Found] = []
        self._methods: dict[str, Method] = {}
        self._lines: dict[str, int] = {}
        self._class = plan.path.partition(":")[2]
        self._cls: type = object

    def run(self) -> Report:
        """Check; raises Unfit when there is no instance to check."""
        cls = self._cls = _lint.class_of(self._plan.path, self._plan.paths)
        self._found = list(_lint.lint(cls) if self._plan.reads_source else _undo.problems(cls))
        for each in self._found:
            self._lines.setdefault(each.function.rpartition(".")[2], each.line)
        first = self._explore()
        for name, why in first["unguessed"].items():
            self._methods[name].unguessed = why
        ended = time.monotonic()
        steps = first["steps"]
        self._judge(first)
        restored = self._points(len(steps))
        for begin in restored:
            image = steps[begin - 1]["image"] if begin else first["first"]
            if image:
                self._compare_restored(steps[begin:], begin, image)
        if not self._plan.is_short:
            # Not a wait for anything that happens: the clocks are to show another second.
            time.sleep(max(0.0, TURN_OF_CLOCK_SECONDS - (time.monotonic() - ended)))
        self._compare_repeated(steps)
        if not self._plan.is_short:
            self._compare_other_seed(steps)
        self._hooks()
        differing = {name for name, row in self._methods.items() if not row.is_agreed}
        # What differs anyway also differs after a restore, and that says nothing.
        found = [
            each
            for each in self._found
            if each.rule != "kept" or each.function.rpartition(".")[2] not in differing
        ]
        return Report(list(self._methods.values()), in_order(found))

    # ---- the processes ----

    def _explore(self) -> dict[str, Any]:
        """The first process; methods that do not end, or end it, are named and left out."""
        without: list[str] = []
        without_undo: list[str] = []
        while True:
            calls = [[name, _native.dumps([args, kwargs])] for name, args, kwargs in self._plan.given]
            calls = [call for call in calls if call[0] not in without]
            request = {"does": "explore", "calls": calls, "without": without, "count": self._plan.calls}
            request["without_undo"] = without_undo
            reply = self._ask({**request, "keeps_images": True}, SEED, stir=0)
            told = reply.answer
            self._learn(reply.methods)
            if told is not None and told["unfit"]:
                raise Unfit(": ".join(told["unfit"]))
            is_last = len(without) + len(without_undo) >= LEFT_OUT_MAX
            if told is None:
                if is_last or not reply.method:
                    raise Unfit(reply.reason)
                if reply.is_undoing:
                    self._ended_undoing(reply.method, reply.words)
                    without_undo.append(reply.method)
                    continue
                self._leave_out(reply.method, reply.rule, reply.words, reply.fix)
                without.append(reply.method)
                continue
            steps = told["steps"]
            if is_last or not steps or steps[-1]["how"] != "endless":
                return told
            name = steps[-1]["method"]
            self._leave_out(name, "endless", "does not end within two seconds", "bound its loops")
            without.append(name)

    def _leave_out(self, name: str, rule: str, words: str, fix: str) -> None:
        if name in self._methods:
            self._methods[name].ended = "does not end" if rule == "endless" else "ends its process"
        self._problem(name, rule, f"`{name}` {words}", fix)

    def _ask(self, more: dict[str, Any], seed: int, *, stir: int) -> Reply:
        """What comes of a request to a process of its own."""
        plan = self._plan
        request = {"class": plan.path, "paths": plan.paths, "allow": plan.allow, "stir": stir, "seed": 7}
        request |= {"args": plan.args or [], "kwargs": plan.kwargs or {}, "image": None, "from": 0}
        request |= {"guess_arguments": plan.args is None and plan.kwargs is None}
        request |= {"keeps_images": False, "compares_states": False}
        return ask(request | more, seed)

    def _points(self, count: int) -> list[int]:
        """Where restored objects take over."""
        parts = 1 if self._plan.is_short else self._plan.restores
        return sorted(
            {count * (part + 1) // (parts + 1) for part in range(parts)} | ({0} if parts > 1 else set())
        )

    # ---- what it means ----

    def _learn(self, methods: list[dict[str, Any]]) -> None:
        for each in methods:
            file = shown_path(each["file"])
            row = Method(each["name"], each["kind"], each["why"], file, each["line"])
            if each["hook"] is not None:
                name, path, line = each["hook"]
                row.hook = name, shown_path(path), line
            row.is_outside = (row.hook is None and each["why"].startswith(OF_MODULE)) or any(
                found.rule == "outside"
                and (found.file, found.line) == (shown_path(each["why_file"]), each["why_line"])
                for found in self._found
            )
            self._methods.setdefault(each["name"], row)

    def _judge(self, told: dict[str, Any]) -> None:
        """What shows in the first process alone."""
        is_kept = told["first"] != b""
        if told["state"] and not (is_kept and any(each.rule == "outside" for each in self._found)):
            words = "" if is_kept else "the state is not kept: "
            self._problem("__init__", "state", words + told["state"].splitlines()[0], "see docs/state.md")
        before = _native.digest(told["first"]) if is_kept else b""
        for step in told["steps"]:
            name = step["method"]
            row = self._methods.get(name)
            if row is None:
                self._problem(
                    name, "calls", f"there is no public method `{name}`", "correct the file of calls"
                )
                continue
            row.calls += 1
            if step["how"] == "raised":
                row.raised += 1
                row.last_raised = step["shown"]
            is_seen = before != b"" and step["digest"] != b""
            is_changed = is_seen and step["digest"] != before
            if not step["digest"]:
                row.is_kept = False
                self._lost(name, step["unkept"], is_new=before != b"")
            before = step["digest"]
            row.changed += is_changed
            row.unseen += not is_seen
            if step["how"] == "untold":
                row.is_told = False
                reason = f"`{name}` returns what cannot be sent: {step['shown']}"
                self._problem(name, "travels", reason, "return plain values, or register the class")
            if is_changed and row.kind:
                reason = f"`{name}` is {row.kind} read-only and changes the object"
                self._problem(name, "read", reason, "remove the declaration or the change")
            if step["undo"]:
                self._not_undone(name, *step["undo"])
            if step["alias"] and not self._has(name, "alias"):
                reason = f"`{name}` returns a part of the object itself: in a group the caller gets a copy"
                self._note(name, "alias", reason, "return a copy")

    def _not_undone(self, name: str, wrong: str, own: str, file: str, line: int) -> None:
        """What the class says does not undo a call."""
        function = f"{self._class}.{own}"
        if not any((each.rule, each.function) == ("undo", function) for each in self._found):
            fix = "give back all that the call has changed, in its order, or remove @quorate.undoes"
            reason = f"`{own}` does not undo `{name}`: {wrong}"
            self._found.append(Found("problem", "undo", shown_path(file), line, function, reason, fix))

    def _ended_undoing(self, name: str, words: str) -> None:
        """What undoes a method has ended its process, or had to be ended."""
        undo = _undo.undos_of(self._cls)[name]
        place = undo.__code__
        self._not_undone(name, f"it {words}", undo.__name__, place.co_filename, place.co_firstlineno)

    def _hooks(self) -> None:
        """Special methods that keep methods from being reads, of classes that these methods need not know."""
        rows = [row for row in self._methods.values() if row.changed_nothing and not row.kind]
        for hook in dict.fromkeys(row.hook for row in rows if row.hook is not None):
            name, file, line = hook
            kept = [row for row in rows if row.hook == hook]
            names = ", ".join(f"`{row.name}`" for row in kept)
            reason = (
                f"`{name}` may run {_when(name)}, and {because(kept[0].why)}: so calls of "
                f"{names} of {self._class} are ordered, though they changed nothing"
            )
            fix = "let it only read, keep its class out of allowed packages, or mark these @quorate.readonly"
            self._found.append(Found("note", "hook", file, line, name, reason, fix))

    def _lost(self, name: str, why: str, *, is_new: bool) -> None:
        """The state after a call cannot be kept; only of the first call is that news."""
        if is_new:
            reason = f"the state that `{name}` leaves is not kept: {why}"
            self._problem(name, "state", reason, "leave it out with __getstate__, see docs/state.md")

    def _compare_restored(self, steps: list[dict[str, Any]], begin: int, image: bytes) -> None:
        more = self._replaying(steps, begin) | {"image": image}
        reply = self._ask(more, SEED, stir=3)
        told = reply.answer
        if told is None or told["unfit"]:
            why = told["unfit"][1] if told else reply.reason
            self._kept(reply.method or "__init__", f"the state could not be restored: {why}")
            return
        for mine, theirs in zip(steps, told["steps"], strict=False):
            name = mine["method"]
            if not _is_same(mine, theirs):
                self._kept(name, f"after a restore `{name}` {_both(theirs, mine)}")
                return
            if theirs["attribute"]:
                self._kept(name, f"after a restore `{name}` leaves {theirs['attribute']} in another state")
                return

    def _compare_repeated(self, steps: list[dict[str, Any]]) -> None:
        reply = self._ask(self._replaying(steps, 0), SEED, stir=5)
        told = reply.answer
        if told is None:
            self._differs(reply.method or "__init__", f"when all is repeated {reply.reason}")
        for mine, theirs in zip(steps, told["steps"] if told and not told["unfit"] else [], strict=False):
            name = mine["method"]
            if not _is_same(mine, theirs):
                self._differs(name, f"`{name}` is not deterministic: it {_both(mine, theirs)}")
            elif theirs["attribute"]:
                reason = f"`{name}` is not deterministic: it leaves {theirs['attribute']} in different states"
                self._differs(name, reason)

    def _compare_other_seed(self, steps: list[dict[str, Any]]) -> None:
        told = self._ask({**self._replaying(steps, 0), "compares_states": False}, OTHER_SEED, stir=5).answer
        for mine, theirs in zip(steps, told["steps"] if told and not told["unfit"] else [], strict=False):
            name = mine["method"]
            row = self._methods.get(name)
            if not _is_same(mine, theirs) and row is not None and row.is_agreed:
                if not self._has(name, "set order"):
                    reason = (
                        f"`{name}` shows the order of a set: with another hash seed it {_both(theirs, mine)}"
                    )
                    fix = "use sorted(...) or a dict if groups are to give the same"
                    self._note(name, "set order", reason, fix)
                return

    def _replaying(self, steps: list[dict[str, Any]], begin: int) -> dict[str, Any]:
        calls = [[step["method"], step["payload"], step["digest"], step["image"]] for step in steps]
        return {"does": "replay", "calls": calls, "from": begin, "compares_states": True}

    def _kept(self, name: str, reason: str) -> None:
        row = self._methods.get(name)
        if row is not None:
            row.is_kept = False
        if not self._has(name, "kept"):
            self._problem(name, "kept", reason, "keep all that calls need in the state, see docs/state.md")

    def _differs(self, name: str, reason: str) -> None:
        row = self._methods.get(name)
        if row is not None:
            row.is_agreed = False
        if not self._has(name, "differs"):
            fix = "take time, chance and numbers from Python's own modules, and no addresses"
            self._problem(name, "differs", reason, fix)

    def _has(self, name: str, rule: str) -> bool:
        return any(each.rule == rule and each.function.rpartition(".")[2] == name for each in self._found)

    def _problem(self, name: str, rule: str, reason: str, fix: str) -> None:
        if not self._has(name, rule):
            self._add("problem", name, rule, reason, fix)

    def _note(self, name: str, rule: str, reason: str, fix: str) -> None:
        self._add("note", name, rule, reason, fix)

    def _add(self, level: Any, name: str, rule: str, reason: str, fix: str) -> None:
        row = self._methods.get(name)
        file = row.file if row is not None else next((each.file for each in self._methods.values()), "")
        line = self._lines.get(name) or (row.line if row is not None else 0)
        self._found.append(Found(level, rule, file, line, f"{self._class}.{name}", reason, fix))


def _when(name: str) -> str:
    """Where a special method of a value of unknown type can run."""
    is_everywhere = name.rpartition(".")[2] in _IN_EVERY_METHOD
    return "in every method" if is_everywhere else "wherever values of unknown type are used"


def because(why: str) -> str:
    """What stands against a proof as a clause: some reasons name a thing, the others what the method does.

    >>> because("assigns `self.x`")
    'it assigns `self.x`'
    """
    return why if why.startswith(("`", "its ")) else f"it {why}"


def _is_same(mine: dict[str, Any], theirs: dict[str, Any]) -> bool:
    return (mine["how"], mine["outcome"]) == (theirs["how"], theirs["outcome"])


def _both(mine: dict[str, Any], theirs: dict[str, Any]) -> str:
    words = {"returned": "returned", "raised": "raised", "untold": "returned", "endless": "did not end"}
    return (
        f"{words[mine['how']]} {_short(mine['shown'])} where another replica "
        f"{words[theirs['how']]} {_short(theirs['shown'])}"
    )


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."


def check(plan: Plan) -> Report:
    """Check a class; raises Unfit when there is no instance to check, LookupError when there is no class."""
    return Check(plan).run()


def rows(methods: Iterable[Method]) -> list[list[str]]:
    """The table's rows.

    >>> rows([Method("put", "", "assigns `self.x`", "bank.py", 3)])
    [['put', 'no', '-', '-', '-', 'not called']]
    """
    return [method.cells() for method in methods]
