"""Classes that keep state outside of their objects, and classes that only look so."""

from __future__ import annotations

import functools
import heapq
import itertools
import logging
import random
import re
import tempfile
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, TypeVar

import subjects

T_co = TypeVar("T_co", covariant=True)
TABLE: dict[str, list[int]] = {"a": [1]}
WAITING: list[int] = []
TOTAL = 0
IDS = itertools.count()
DICE = random.Random(7)
HANDLERS: dict[str, Callable[..., Any]] = {}
REGISTRY: dict[str, type] = {}
LOG = logging.getLogger(__name__)


class Settings:
    def __init__(self) -> None:
        self.limit = 1

    def raise_limit(self) -> None:
        self.limit += 1

    def double(self) -> int:
        return self.limit * 2


SETTINGS = Settings()


def grow() -> None:
    global TOTAL
    TOTAL += 1


def handle() -> None:
    WAITING.append(1)


HANDLERS["handle"] = handle


def register(cls: type) -> type:
    REGISTRY[cls.__name__] = cls
    return cls


def counted(function: Callable[..., Any]) -> Callable[..., Any]:
    calls = 0

    @functools.wraps(function)
    def wrapper(*args: Any) -> Any:
        nonlocal calls
        calls += 1
        return function(*args)

    return wrapper


def listed(function: Callable[..., Any]) -> Callable[..., Any]:
    calls: list[Any] = []

    @functools.wraps(function)
    def wrapper(*args: Any) -> Any:
        calls.append(args)
        return function(*args)

    return wrapper


class Entry:
    made = 0

    def __init__(self) -> None:
        Entry.made += 1


# Each of these keeps state outside.


class ByClassCounter:
    count = 0

    def add(self) -> None:
        ByClassCounter.count += 1


class ByTypeOfSelf:
    count = 0

    def add(self) -> None:
        type(self).count += 1


class ByDunderClass:
    count = 0

    def add(self) -> None:
        self.__class__.count = 1


class ByClassMethod:
    count = 0

    @classmethod
    def add(cls) -> None:
        cls.count = 2


class ByClassList:
    items: list[int] = []  # noqa: RUF012

    def add(self, item: int) -> None:
        self.items.append(item)


class ByClassListAdd:
    items: list[int] = []  # noqa: RUF012

    def add(self, item: int) -> None:
        self.items += [item]


class ByClassDict:
    items: dict[str, int] = {}  # noqa: RUF012

    def add(self, key: str) -> None:
        items = self.items
        items[key] = 1


class ByBaseList(ByClassList):
    pass


class ByAnnotatedCounter:
    count: ClassVar[int] = 0

    def add(self) -> None:
        setattr(ByAnnotatedCounter, "count", 1)  # noqa: B010


class ByClassIds:
    _ids = itertools.count()

    def add(self) -> int:
        return next(self._ids)


class ByDefault:
    def add(self, item: int, into: list[int] = []) -> list[int]:  # noqa: B006
        into.append(item)
        return []


class ByKeptDefault:
    def __init__(self, items: list[int] = []) -> None:  # noqa: B006
        self.items = items


class ByNamedDefault:
    def add(self, *, into: dict[str, int] = {}) -> None:  # noqa: B006
        into["a"] = 1


class ByGlobal:
    def add(self) -> None:
        global TOTAL
        TOTAL = 1


class ByFunction:
    def add(self) -> None:
        grow()


class ByTableItem:
    def add(self) -> None:
        TABLE["a"].append(2)


class ByTable:
    def add(self) -> None:
        del TABLE["a"]


class ByHeap:
    def add(self) -> None:
        heapq.heappush(WAITING, 1)


class ByIds:
    def add(self) -> int:
        return next(IDS)


class ByDice:
    def roll(self) -> int:
        return DICE.randint(1, 6)


class ByHandlers:
    def handle(self, kind: str) -> Any:
        return HANDLERS[kind]()


class BySettings:
    def add(self) -> None:
        SETTINGS.limit = 3


class BySettingsMethod:
    def add(self) -> None:
        SETTINGS.raise_limit()


class ByFunctionAttribute:
    def add(self) -> None:
        grow.calls = 1  # type: ignore[attr-defined]


class ByDecorator:
    @counted
    def add(self) -> None: ...


class ByListingDecorator:
    @listed
    def add(self) -> None: ...


class ByMadeInstances:
    def add(self) -> None:
        self.entry = Entry()


class ByProperty:
    seen: list[int] = []  # noqa: RUF012

    @property
    def size(self) -> int:
        self.seen.append(1)
        return 1


# None of these does.


class Plain:
    kinds = ("a", "b")
    prices = {"a": 1}  # noqa: RUF012
    limit = 10

    def __init__(self, items: list[int] | None = None) -> None:
        self.items = items or []
        self.limit += 1

    def price(self, kind: str) -> int:
        return self.prices[kind] + TABLE["a"][0]


class OwnList:
    items: list[int] = []  # noqa: RUF012

    def __init__(self) -> None:
        self.items = []

    def add(self, item: int) -> None:
        self.items.append(item)


class OwnListInBase(OwnList):
    def extend(self, items: list[int]) -> None:
        self.items.extend(items)


class CopiedDefault:
    def __init__(self, items: list[int] = [], more: dict[str, int] = {}) -> None:  # noqa: B006
        self.items = list(items)
        self.more = {**more}

    def sum(self, items: list[int] = []) -> int:  # noqa: B006
        items = [*items, 1]
        items.append(2)
        return sum(items)


@register
class Registered:
    def make(self, name: str) -> Any:
        return REGISTRY[name]()


class Hooked:
    kinds: dict[str, type] = {}  # noqa: RUF012

    def __init_subclass__(cls) -> None:
        cls._note()

    @classmethod
    def _note(cls) -> None:
        cls.kinds[cls.__name__] = cls

    def make(self, name: str) -> Any:
        return self.kinds[name]()


class Cached:
    _cache: ClassVar[dict[int, int]] = {}

    def square(self, number: int) -> int:
        if number not in self._cache:
            self._cache[number] = number * number
        return self._cache[number]

    @functools.lru_cache(maxsize=8)  # noqa: B019
    def cube(self, number: int) -> int:
        return number**3

    @functools.cached_property
    def name(self) -> str:
        LOG.info("named")
        return "cached"


@dataclass
class Fields:
    items: list[int] = field(default_factory=list)
    names: ClassVar[tuple[str, ...]] = ("a",)

    def add(self, item: int) -> None:
        self.items.append(item)
        self.items += [item]


class Shadowing:
    def run(self, TABLE: dict[str, int]) -> None:
        TABLE["b"] = 1

        def inner(WAITING: list[int]) -> None:
            WAITING.append(1)

        inner([])
        total = 0

        def add() -> None:
            nonlocal total
            total += 1

        add()
        HANDLERS = {"a": 1}
        HANDLERS["b"] = 2
        for IDS in iter([[1]]):
            IDS.append(2)


class Reading:
    def run(self) -> Any:
        own = dict(TABLE)
        own["c"] = []
        copied = TABLE["a"].copy()
        copied.append(1)
        return sorted(WAITING), SETTINGS.double(), max(TABLE), TOTAL, own, copied


class Running:
    running: set[int] = set()  # noqa: RUF012

    def __repr__(self) -> str:
        self.running.add(1)
        try:
            return "Running"
        finally:
            self.running.discard(1)


class Slotted:
    __slots__ = ("items",)

    def __init__(self) -> None:
        self.items: list[int] = []

    def add(self) -> None:
        self.items.append(1)


class WithProperty:
    class _Flags:
        shown = False

    def __init__(self) -> None:
        self._flags = self._Flags()

    @property
    def flags(self) -> _Flags:
        return self._flags

    def show(self) -> None:
        self.flags.shown = True


class Modules:
    def run(self) -> Any:
        namespace = types.SimpleNamespace()
        namespace.a = 1
        return namespace


PATTERN: Any = None
EASTER: Any = None
OPENED: Any = None


class MadeOnce:
    def run(self, text: str) -> Any:
        global PATTERN, EASTER
        if PATTERN is None:
            PATTERN = re.compile("a+")
        if not EASTER:
            import calendar as EASTER  # noqa: PLC0415
        return PATTERN.match(text), EASTER


class ByMadeOnceAndChanged:
    def run(self, text: str) -> Any:
        global OPENED
        if OPENED is None:
            OPENED = {}
        OPENED[text] = 1
        return OPENED


class WithDefaultThatIsCopied:
    def __init__(self) -> None:
        self.items: list[int] = []

    def add(self, items: list[int] = []) -> None:  # noqa: B006
        self.items.extend(items)


class Protocolled(Protocol[T_co]):
    """Gets a method from `typing` that changes its class."""

    def run(self) -> T_co: ...


class Conforming(Protocolled[int]):
    def run(self) -> int:
        return 1


class Spooled:
    def __init__(self) -> None:
        self.numbers = (number for number in (1, 2))

    def __reduce__(self) -> Any:
        with tempfile.NamedTemporaryFile("w") as file:
            return Spooled, (), {"name": file.name}


class Shy:
    """Forbids to be copied, though all that it has can be."""

    def __init__(self) -> None:
        self.items = [1]

    def __getstate__(self) -> Any:
        raise TypeError("not today")


class Settling:
    """Is another one after `__setstate__`, unless its fields are kept as they are."""

    def __init__(self) -> None:
        self.marks = {"is_new": True}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.marks = {**state["marks"], "is_restored": True}


class WithoutFile:
    """Leaves out what cannot be kept."""

    def __init__(self) -> None:
        self.items, self.numbers = [1], iter(map(str, [1]))

    def __reduce__(self) -> Any:
        return WithoutFile, (), {"items": self.items}


class Configured:
    limit = 1

    @classmethod
    def configure(cls, limit: int) -> None:
        cls.limit = limit

    @classmethod
    def configure_again(cls) -> None:
        cls.limit = 0
        cls.configure(1)

    def read(self) -> int:
        return self.limit


KEEPERS = [cls for name, cls in list(globals().items()) if name.startswith("By")]
SOUND = [
    Plain,
    OwnList,
    OwnListInBase,
    CopiedDefault,
    Registered,
    Hooked,
    Cached,
    Fields,
    Shadowing,
    Reading,
    Running,
]
SOUND += [Slotted, WithProperty, Modules, MadeOnce, WithDefaultThatIsCopied, Conforming]


class BySibling:
    def add(self, text: str) -> None:
        subjects.note(text)
