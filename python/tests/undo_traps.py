"""Classes whose undos set traps: before their `yield`, by how they end, or by what is not always compared."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Generator

import quorate


class _Adding:
    def __init__(self) -> None:
        self.total = 0

    def add(self, amount: int) -> int:
        self.total += amount
        return self.total


class Hidden(_Adding):
    """Its change does not show in what is compared after every call."""

    def __init__(self) -> None:
        super().__init__()
        self.log: list[list[int]] = [[]]

    def add(self, amount: int) -> int:
        return super().add(amount) + len(self.log[0])

    @quorate.undoes("add")
    def _undo_add(self, amount: int) -> Generator[None, int, None]:
        before = self.total
        self.log[0].append(amount)
        yield
        self.log[0].pop()
        self.total = before


class RaisingBefore(_Adding):
    @quorate.undoes("add")
    def _undo_add(self, amount: int) -> Generator[None, int, None]:
        self.total += 1
        if amount:
            raise RuntimeError("no way on")
        yield


class NeverYielding(_Adding):
    @quorate.undoes("add")
    def _undo_add(self, amount: int) -> Generator[None, int, None]:
        self.total += 1
        if amount:
            return
        yield


class EndlessBefore(_Adding):
    @quorate.undoes("add")
    def _undo_add(self, amount: int) -> Generator[None, int, None]:
        self.total += 1
        while amount:
            pass
        yield


class StubbornBefore(_Adding):
    """No exception ends it that is raised inside."""

    @quorate.undoes("add")
    def _undo_add(self, amount: int) -> Generator[None, int, None]:
        max(iter(int, 1))
        yield


class EndingBefore(_Adding):
    @quorate.undoes("add")
    def _undo_add(self, amount: int) -> Generator[None, int, None]:
        self.total += 1
        os._exit(3)
        yield


class Endless(_Adding):
    @quorate.undoes("add")
    def _undo_add(self, result: int, amount: int) -> None:
        while True:
            pass


class Stubborn(_Adding):
    """It loops in C."""

    @quorate.undoes("add")
    def _undo_add(self, result: int, amount: int) -> None:
        max(iter(int, 1))


class Ending(_Adding):
    @quorate.undoes("add")
    def _undo_add(self, result: int, amount: int) -> None:
        os._exit(0)


class Losing:
    def __init__(self) -> None:
        self.kept: dict[str, int] = {}

    def __setitem__(self, key: str, value: int) -> None:
        self.kept[key] = value

    @quorate.undoes("__setitem__")
    def _undo_setitem(self, result: None, key: str, value: int) -> None:
        self.kept.clear()
        self.kept["lost"] = 1


class Finally(_Adding):
    """Closing the generator would change the object, when the call is decided."""

    @quorate.undoes("add")
    def _undo_add(self, amount: int) -> Generator[None, int, None]:
        before = self.total
        try:
            yield
        finally:
            self.total = before


class CatchesExit(_Adding):
    @quorate.undoes("add")
    def _undo_add(self, amount: int) -> Generator[None, int, None]:
        before = self.total
        try:
            yield
        except GeneratorExit:
            self.total = -1
        self.total = before


class Delegating(Finally):
    def add(self, amount: int) -> int:
        return super().add(amount)

    @quorate.undoes("add")
    def _undo_own_add(self, amount: int) -> Generator[None, int, None]:
        yield from Finally._undo_add(self, amount)


class WithBlock(_Adding):
    @quorate.undoes("add")
    def _undo_add(self, amount: int) -> Generator[None, int, None]:
        before = self.total
        with contextlib.suppress(KeyError):
            yield
        self.total = before


class TryBefore(_Adding):
    """What it catches is over when it yields."""

    @quorate.undoes("add")
    def _undo_add(self, amount: int) -> Generator[None, int, None]:
        try:
            before = self.total
        except AttributeError:
            before = 0
        with contextlib.suppress(KeyError):
            before += 0
        yield
        try:
            self.total = before
        finally:
            before = 0


def _wrapped(undo: Callable[..., Generator[None, int, None]]) -> Callable[..., object]:
    @functools.wraps(undo)
    def outer(self: object, *args: object, **kwargs: object) -> object:
        return undo(self, *args, **kwargs)

    return outer


class Wrapped(_Adding):
    """The mark is on a function that makes a generator, which nothing would run."""

    def add(self, amount: int) -> int:
        self.total += 0 * amount
        return self.total

    @quorate.undoes("add")
    @_wrapped
    def _undo_add(self, *args: int, **kwargs: int) -> Generator[None, int, None]:
        yield


class Slotted:
    __slots__ = ("items", "total")

    def __init__(self) -> None:
        self.total = 0
        self.items: list[int] = []

    def add(self, amount: int) -> int:
        self.total += amount
        self.items.append(amount)
        return self.total

    @quorate.undoes(add)
    def _undo_add(self, result: int, amount: int) -> None:
        self.items.pop()


class Pile(list[int]):
    def add(self, amount: int) -> int:
        self.append(amount)
        return len(self)

    @quorate.undoes(add)
    def _undo_add(self, result: int, amount: int) -> None:
        pass


class Replaced:
    """A call that waits leaves another instance behind."""

    def __init__(self) -> None:
        self.items: list[int] = []
        self.boxes: list[list[int]] = [[]]

    def put(self, item: int) -> None:
        self.boxes[0].append(item)

    @quorate.undoes(put)
    def _undo_put(self, item: int) -> Generator[None, None, None]:
        yield
        self.boxes[0].pop()

    def take(self) -> int:
        quorate.wait_until(lambda: self.items)
        return self.items.pop(0)

    @quorate.undoes(take)
    def _undo_take(self, result: int) -> None:
        self.items.insert(0, result)


class Picky(_Adding):
    """It lies for large amounts only, where nothing that is compared after every call shows it."""

    def __init__(self) -> None:
        super().__init__()
        self.log: list[list[int]] = [[]]

    def add(self, amount: int) -> int:
        self.log[0].append(amount)
        return super().add(amount)

    @quorate.undoes(add)
    def _undo_add(self, result: int, amount: int) -> None:
        self.total -= amount
        if amount < 5:
            self.log[0].pop()


class EndlessForLarge(_Adding):
    """Right for small amounts."""

    @quorate.undoes("add")
    def _undo_add(self, result: int, amount: int) -> None:
        while amount >= 5:
            pass
        self.total -= amount


class Sneaking:
    """What runs of its undo before a call does what only calls may."""

    def __init__(self) -> None:
        self.total = 0
        self.waiting: list[quorate.Caller] = []

    def wait(self) -> object:
        self.waiting.append(quorate.caller())
        return quorate.park(timeout=30, default=-1)

    def add(self, how: str) -> int:
        self.total += 1
        return self.total

    @quorate.undoes(add)
    def _undo_add(self, how: str) -> Generator[None, int, None]:
        before = self.total
        if how == "timer":
            quorate.after(1, "add", "late")
        if how == "wake":
            self.waiting[0].wake(1)
        if how == "park":
            quorate.park(timeout=5)
        if how == "publish":
            quorate.publish("news", 1)
        yield
        self.total = before


class Copying:
    """Keeps much for each call."""

    def __init__(self) -> None:
        self.rows: list[int] = []

    def fill(self, count: int) -> int:
        self.rows = [0] * count
        return count

    def put(self, place: int, value: int) -> int:
        self.rows[place] = value
        copies = [[*self.rows] for _ in range(20)]
        return copies[-1].count(1)

    @quorate.undoes(put)
    def _undo_put(self, place: int, value: int) -> Generator[None, int, None]:
        before = [*self.rows]
        yield
        self.rows = before
