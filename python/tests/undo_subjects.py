"""Classes that say how their calls are undone, rightly and wrongly."""

from __future__ import annotations

from collections.abc import Generator

import quorate


class Sound:
    def __init__(self) -> None:
        self.total = 0
        self.kept: dict[str, int] = {}

    def add(self, amount: int) -> int:
        self.total += amount
        return self.total

    @quorate.undoes(add)
    def _undo_add(self, result: int, amount: int) -> None:
        self.total -= amount

    def put(self, key: str, value: int) -> None:
        self.kept[key] = value

    @quorate.undoes(put)
    def _undo_put(self, key: str, value: int) -> Generator[None, None, None]:
        had, before = key in self.kept, self.kept.get(key, 0)
        yield
        if had:
            self.kept[key] = before
        else:
            del self.kept[key]

    def take(self, key: str) -> int:
        return self.kept.pop(key)

    @quorate.undoes("take")
    def _undo_take(self, key: str) -> Generator[None, int, None]:
        before = dict(self.kept)
        yield
        self.kept = before

    def __setitem__(self, key: str, value: int) -> None:
        self.kept[key] = value

    @quorate.undoes("__setitem__")
    def _undo_setitem(self, *args: int, **kwargs: int) -> Generator[None, None, None]:
        before = dict(self.kept)
        yield
        self.kept = before


class _Adding:
    def __init__(self) -> None:
        self.total = 0

    def add(self, amount: int) -> int:
        self.total += amount
        return self.total


class Nameless(_Adding):
    @quorate.undoes("subtract")
    def _undo_add(self, result: int, amount: int) -> None:
        self.total -= amount


class Reading(_Adding):
    @quorate.readonly
    def look(self) -> int:
        return self.total

    @quorate.undoes(look)
    def _undo_look(self, result: int) -> None:
        pass


class Public(_Adding):
    @quorate.undoes("add")
    def undo_add(self, result: int, amount: int) -> None:
        self.total -= amount


class Private(_Adding):
    def _put(self) -> None:
        self.total = 1

    @quorate.undoes("_put")
    def _undo_put(self, result: None) -> None:
        self.total = 0


class Narrow(_Adding):
    @quorate.undoes("add")
    def _undo_add(self, amount: int) -> None:
        self.total -= amount


class NarrowGenerator(_Adding):
    @quorate.undoes("add")
    def _undo_add(self, result: int, amount: int) -> Generator[None, int, None]:
        yield
        self.total -= amount


class Twice(_Adding):
    @quorate.undoes("add")
    def _undo_add(self, result: int, amount: int) -> None:
        self.total -= amount

    @quorate.undoes("add")
    def _undo_too(self, result: int, amount: int) -> None:
        self.total -= amount


class Async(_Adding):
    @quorate.undoes("add")
    async def _undo_add(self, result: int, amount: int) -> None:
        self.total -= amount


class Static(_Adding):
    @staticmethod
    def one() -> int:
        return 1

    @quorate.undoes("one")
    def _undo_one(self, result: int) -> None:
        pass


class _Undone(_Adding):
    def add(self, amount: int) -> int:
        return super().add(amount)

    @quorate.undoes("add")
    def _undo_add(self, result: int, amount: int) -> None:
        self.total -= amount


class Overridden(_Undone):
    def add(self, amount: int) -> int:
        return super().add(2 * amount)


class Off(_Adding):
    @quorate.undoes("add")
    def _undo_add(self, result: int, amount: int) -> None:
        self.total -= amount + 1


class Unordered:
    def __init__(self) -> None:
        self.kept = {number: number for number in range(1, 20)}

    def take(self, key: int) -> int:
        return self.kept.pop(sorted(self.kept)[key % len(self.kept)])

    @quorate.undoes(take)
    def _undo_take(self, result: int, key: int) -> None:
        self.kept[result] = result


class LeavesOne(_Adding):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[int] = []

    def add(self, amount: int) -> int:
        self.seen.append(amount)
        return super().add(amount)

    @quorate.undoes(add)
    def _undo_add(self, result: int, amount: int) -> None:
        self.total -= amount


class Raising(_Adding):
    @quorate.undoes("add")
    def _undo_add(self, result: int, amount: int) -> None:
        raise RuntimeError("no way back")


class Early(_Adding):
    @quorate.undoes("add")
    def _undo_add(self, amount: int) -> Generator[None, int, None]:
        if amount:
            return
        yield


class Changing(_Adding):
    @quorate.undoes("add")
    def _undo_add(self, amount: int) -> Generator[None, int, None]:
        self.total += 1
        yield
        self.total -= amount


class Drifting:
    def __init__(self) -> None:
        self.total = 0.1

    def add(self, amount: int) -> float:
        self.total += 0.2 * amount
        return self.total

    @quorate.undoes(add)
    def _undo_add(self, result: float, amount: int) -> None:
        self.total -= 0.2 * amount


class Tagged:
    """A set remembers where its table had what was taken out of it."""

    def __init__(self) -> None:
        self.tags = {1, 2}

    def tag(self, number: int) -> int:
        self.tags.add(number + 100)
        return len(self.tags)

    @quorate.undoes(tag)
    def _undo_tag(self, number: int) -> Generator[None, int, None]:
        had = number + 100 in self.tags
        yield
        if not had:
            self.tags.discard(number + 100)


class Desk:
    """Has callers who wait, and timers."""

    def __init__(self) -> None:
        self.kept: dict[str, int] = {}
        self.waiting: list[quorate.Caller] = []
        self.timers: list[quorate.Timer] = []
        self.woken = 0

    def put(self, key: str, value: int) -> int:
        self.kept[key] = value
        return quorate.caller().session

    @quorate.undoes(put)
    def _undo_put(self, key: str, value: int) -> Generator[None, int, None]:
        before = dict(self.kept)
        yield
        self.kept = before

    def take(self, key: str) -> int:
        return self.kept.pop(key, 0)

    @quorate.undoes(take)
    def _undo_take(self, key: str) -> Generator[None, int, None]:
        before = dict(self.kept)
        yield
        self.kept = before

    def wait(self) -> object:
        self.waiting.append(quorate.caller())
        return quorate.park(timeout=30, default=0)

    @quorate.undoes("wait")
    def _undo_wait(self, result: object) -> None:
        self.waiting.pop()

    def wake(self, value: int) -> int:
        waiting = [caller for caller in self.waiting if caller.is_waiting]
        for caller in waiting:
            caller.wake(value)
        self.waiting, self.woken = [], self.woken + len(waiting)
        return len(waiting)

    @quorate.undoes(wake)
    def _undo_wake(self, value: int) -> Generator[None, int, None]:
        before = self.waiting
        woken = yield
        self.waiting, self.woken = before, self.woken - woken

    def remind(self, seconds: float) -> int:
        self.timers.append(quorate.after(seconds, "put", "late", 1))
        return len(self.timers)

    @quorate.undoes(remind)
    def _undo_remind(self, result: int, seconds: float) -> None:
        self.timers.pop()

    def drop(self) -> int:
        for timer in self.timers:
            timer.cancel()
        dropped, self.timers = self.timers, []
        return len(dropped)

    @quorate.undoes(drop)
    def _undo_drop(self) -> Generator[None, int, None]:
        before = self.timers
        yield
        self.timers = before


class _Member:
    pass


class Hashed:
    __quorate_reads__ = ("count",)

    def __init__(self) -> None:
        self.members: dict[object, int] = {}

    def count(self) -> int:
        return len(self.members)

    def join(self, number: int) -> int:
        self.members[_Member()] = number
        return len(self.members)

    @quorate.undoes(join)
    def _undo_join(self, result: int, number: int) -> None:
        self.members.popitem()


class Shelf:
    def __init__(self) -> None:
        self.items: list[int] = []

    def put(self, item: int) -> None:
        self.items.append(item)

    @quorate.undoes(put)
    def _undo_put(self, result: None, item: int) -> None:
        self.items.pop()

    def take(self) -> int:
        quorate.wait_until(lambda: self.items)
        return self.items.pop(0)

    @quorate.undoes(take)
    def _undo_take(self, result: int) -> None:
        self.items.insert(0, result)


class Plain(_Adding):
    """Does not say how its calls are undone."""
