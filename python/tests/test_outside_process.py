"""State that a method leaves in its process: settings, descriptors, and what modules of the library made."""

from __future__ import annotations

import abc
import array
import contextvars
import csv
import decimal
import functools
import io
import logging
import os
import queue
import threading
import warnings
import weakref
from collections.abc import Callable
from typing import Any, ClassVar
from xml.etree import ElementTree

import pytest

from quorate import _lint, _outside

CURRENT = contextvars.ContextVar("CURRENT", default=0)
SHOWN = io.StringIO()
JOBS: queue.Queue[int] = queue.Queue()
IS_OPEN = threading.Event()
KNOWN: weakref.WeakValueDictionary[str, Any] = weakref.WeakValueDictionary()
NUMBERS = array.array("i")


class Kept:
    """A descriptor that keeps the values of all instances."""

    def __init__(self) -> None:
        self.values: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()

    def __get__(self, owner: Any, cls: type) -> int:
        return self.values.get(owner, 0)

    def __set__(self, owner: Any, value: int) -> None:
        self.values[owner] = value


class Given:
    """A descriptor that keeps a value where it belongs."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = f"_{name}"

    def __get__(self, owner: Any, cls: type) -> int:
        return int(getattr(owner, self.name, 0))

    def __set__(self, owner: Any, value: int) -> None:
        setattr(owner, self.name, value)


class ByDescriptor:
    amount = Kept()

    def add(self) -> None:
        self.amount += 1


class ByContextVariable:
    def enter(self) -> None:
        CURRENT.set(1)


class ByContext:
    def calculate(self) -> None:
        decimal.getcontext().prec = 50


class ByNewContext:
    def calculate(self) -> None:
        decimal.setcontext(decimal.Context(prec=9))


class ByText:
    def show(self) -> None:
        SHOWN.write("x")


class ByQueue:
    def ask(self) -> None:
        JOBS.put(1)


class ByEvent:
    def open(self) -> None:
        IS_OPEN.set()


class ByWeakReference:
    def note(self) -> None:
        KNOWN["x"] = self


class ByArray:
    def note(self) -> None:
        NUMBERS.append(1)


class Shape(abc.ABC):  # noqa: B024 - it has no methods
    """What methods register classes with."""


@functools.singledispatch
def show(value: Any) -> str:
    return str(value)


class ByWarnings:
    def be_strict(self) -> None:
        warnings.simplefilter("error")


class ByFilterUnderAnotherName:
    def be_strict(self) -> None:
        from warnings import filterwarnings as let  # noqa: PLC0415

        let("error")


class ByDialect:
    def write_wide(self) -> None:
        csv.register_dialect("wide", delimiter=";")


class ByNamespace:
    def name(self) -> None:
        ElementTree.register_namespace("x", "urn:x")


class ByAbstractClass:
    def accept(self, cls: type) -> None:
        Shape.register(cls)


class ByImportedAbstractClass:
    def accept(self, cls: type) -> None:
        from collections.abc import Sequence  # noqa: PLC0415

        Sequence.register(cls)


class ByDispatch:
    def teach(self) -> None:
        show.register(int, str)


class ByDecoratedDispatch:
    def teach(self) -> None:
        @show.register
        def _(value: float) -> str:
            return f"{value:.1f}"


class ByDispatchOfMethods:
    @functools.singledispatchmethod
    def show(self, value: Any) -> str:
        return str(value)

    def teach(self) -> None:
        type(self).show.register(int, str)  # type: ignore[attr-defined]


class ByEnvironment:
    def choose(self) -> None:
        os.environ["MODE"] = "1"


class ByMethodUnderAnotherName:
    items: ClassVar[list[int]] = []

    def note(self) -> None:
        push = self.items.append
        push(1)


class ByMethodGivenOn:
    items: ClassVar[list[int]] = []

    def note(self, take: Callable[..., Any]) -> None:
        take(self.items.append)


class ByMethodOfType:
    items: ClassVar[list[int]] = []

    def note(self) -> None:
        list.append(self.items, 1)


class Sound:
    amount = Given()

    def __init__(self) -> None:
        decimal.setcontext(decimal.Context(prec=9))
        self.items: list[int] = []

    def add(self) -> None:
        self.amount += 1
        list.append(self.items, 1)
        push = self.items.append
        push(2)

    def calculate(self) -> decimal.Decimal:
        with decimal.localcontext():
            decimal.getcontext().prec = 50
            return decimal.Decimal(1) / 3

    def enter(self) -> None:
        token = CURRENT.set(1)
        CURRENT.reset(token)

    def be_strict_for_a_moment(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")

    def register(self, name: str) -> None:
        self.items.append(len(name))

    def join(self) -> None:
        self.register("ada")

    def look(self) -> tuple[str, bool, Any]:
        return SHOWN.getvalue(), IS_OPEN.is_set(), KNOWN.get("x")


KEEPERS = [cls for name, cls in list(globals().items()) if name.startswith("By")]


@pytest.mark.parametrize("cls", KEEPERS, ids=lambda cls: cls.__name__)
def test_what_a_method_leaves_in_its_process_is_found(cls: type) -> None:
    finding = _outside.find(cls)
    assert finding is not None
    assert finding.file == "test_outside_process.py"


def test_what_is_put_back_or_made_again_at_each_start_raises_no_alarm() -> None:
    assert list(_outside.find_all(Sound)) == []


LOG = logging.getLogger(__name__)


class Loud:
    def __init__(self) -> None:
        self.log = logging.getLogger("loud")
        self.log.setLevel(logging.INFO)

    def of_module(self) -> None:
        LOG.setLevel(logging.DEBUG)

    def of_object(self) -> None:
        self.log.addHandler(logging.NullHandler())

    def of_name(self) -> None:
        logging.getLogger("x").addFilter(logging.Filter())

    def of_all(self) -> None:
        logging.basicConfig(level=logging.DEBUG)

    def speak(self) -> None:
        LOG.info("spoken")
        self.log.warning("spoken")


def test_what_a_method_changes_in_the_log_is_noted_and_no_reason_to_refuse_its_class() -> None:
    assert _outside.find(Loud) is None
    told = {each.function.rpartition(".")[2]: each for each in _lint.lint(Loud) if each.rule == "logging"}
    assert set(told) == {"of_module", "of_object", "of_name", "of_all"}
    assert {each.level for each in told.values()} == {"note"}
