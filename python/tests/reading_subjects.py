"""Methods that only read, and methods that write in ways that are hard to see; for the search for reads."""
# ruff: noqa
# mypy: ignore-errors

from __future__ import annotations
import collections
import dataclasses
import enum
import functools
import itertools
import math
import random
import threading
import time
from typing import Any
import quorate


class Color(enum.Enum):
    RED = 1
    BLUE = 2


@dataclasses.dataclass
class Item:
    name: str
    price: int
    tags: list[str] = dataclasses.field(default_factory=list)

    @property
    def dear(self):
        return self.price > 10

    def total(self):
        return self.price * 2

    def bump(self):
        self.price += 1
        return self.price


class Book:
    def __init__(self):
        self.orders = {}
        self.n = 0

    def depth(self):
        return len(self.orders)

    def take(self):
        self.n += 1
        return self.n


LIMIT = 10
SEEN = []
TABLE = {"a": 1}


def helper(xs):
    return sorted(xs)


def bad_helper(xs):
    xs.append(1)
    return xs


class Fields:
    kind = "m"

    def __init__(self):
        self.balance = 1
        self.items = {"a": Item("a", 1)}
        self.log = []
        self.dd = collections.defaultdict(list)
        self.book = Book()
        self.it = iter([1, 2, 3])
        self.names = {"x"}
        self.lock = threading.Lock()
        self.rows = [[1]]
        self.owner = None
        self.last_seen = 0.0
        self.counter = itertools.count()


class Reads(Fields):
    def balance_now(self):
        return self.balance

    def item(self, k):
        return self.items.get(k)

    def ranking(self):
        return sorted(self.items.values(), key=lambda i: i.price)

    def sum_of_prices(self):
        return sum(i.price for i in self.items.values())

    def worth(self, k):
        if k not in self.items:
            raise KeyError(k)
        return self.items[k].price * LIMIT

    def running_total(self):
        total = 0
        for i in self.items.values():
            total += i.price
        return total

    def depth_of_book(self):
        return self.book.depth()

    def dear(self):
        return {k: v.total() for k, v in self.items.items() if v.dear}

    def grouped(self):
        out = {}
        for i in self.items.values():
            out.setdefault(i.name, []).append(i.price)
        return out

    def shown(self):
        return f"{self.balance:5} {self.owner}"

    def doubled(self):
        return self._inner(3) + 1

    def _inner(self, n):
        return self.balance * n

    def locked(self):
        with self.lock:
            return self.balance

    def sorted_by_function(self):
        return helper(self.names)

    def largest(self):
        return max(self.log, default=None)

    def first_few(self, n):
        res = []
        for k, v in sorted(self.items.items())[:n]:
            res.append((k, v.price))
        return res

    def first_dear(self):
        return next((i for i in self.items.values() if i.price > 3), None)

    def priced_anew(self):
        return Item("x", self.balance).total()

    def kinds(self):
        return self.kind, Color.RED, len(self.dd), list(self.dd.items()), "k" in self.dd

    def several(self, ks):
        return [self.items[k] for k in ks if k in self.items]

    def looked_up(self):
        return self.dd.get("a", [])

    def counted(self):
        d = collections.defaultdict(int)
        for x in self.log:
            d[x] += 1
        return dict(d)

    def of_either_type(self, s):
        return s.upper() if isinstance(s, str) else math.sqrt(s)

    def joined(self):
        return ", ".join(sorted(self.names))

    @quorate.readonly
    def declared(self):
        return self.balance

    def best(self):
        best = None
        for k, i in self.items.items():
            if best is None or i.price > best[1]:
                best = (k, i.price)
        return best

    def formatted(self):
        return "{} has {:>3}".format(self.owner, self.balance)

    def unpacked(self):
        return [x for row in self.log[-3:] for x in (row,)]

    def signed(self):
        return self.balance if self.owner is None else -self.balance

    def arithmetic(self):
        return (self.balance + 2) % 7 // 2


class Writes(Fields):
    def add(self):
        self.balance += 1

    def default_item(self, k):
        return self.dd[k]

    def advance(self):
        return next(self.it)

    def use_up(self):
        return list(self.it)

    def search_iterator(self):
        return 3 in self.it

    def through_alias(self):
        a = self.log
        a.append(1)
        return a

    def in_place(self):
        x = self.log
        x += [1]
        return x

    def of_item(self):
        return self.items["a"].bump()

    def of_module(self):
        SEEN.append(1)

    def draw(self):
        return random.random()

    def time_now(self):
        return time.time()

    def through_function(self):
        return bad_helper(self.log)

    def of_part(self):
        return self.book.take()

    def by_setattr(self):
        return [setattr(self, "x", 1)]

    def nested_item(self):
        self.rows[0][0] = 2

    def count_on(self):
        return next(self.counter)

    def by_vars(self):
        vars(self)["x"] = 1

    def by_dict(self):
        self.__dict__["x"] = 1

    def of_class(self):
        type(self).kind = 1

    def pop(self):
        self.items.pop("a")

    def setdefault(self):
        return self.items.setdefault("q", 1)

    def bound_method(self):
        f = self.log.append
        f(1)

    def mapped(self):
        return list(map(self.log.append, [1]))

    def in_comprehension(self):
        return [self.add() for _ in range(2)]

    def generate(self):
        yield 1

    def default_argument(self, x=SEEN):
        x.append(1)
        return x

    def global_name(self):
        global LIMIT
        LIMIT = 3

    def delete(self):
        del self.items["a"]

    def percent(self):
        return "%(a)s" % self.dd

    def format_field(self):
        return "{0[a]}".format(self.dd)

    @functools.lru_cache
    def cached(self):
        return 1

    def field_of_item(self):
        i = self.items["a"]
        i.price = 3

    def unpack(self):
        i, *r = self.it
        return i

    def through_list(self):
        x = [self.log]
        x[0].append(1)

    def through_dict(self):
        x = {}
        x["a"] = self.log
        x["a"].append(1)

    def sort(self):
        x = helper(self.log)
        y = self.rows
        y.sort()
        return x

    def by_key(self):
        return sorted(self.log, key=self._key)

    def _key(self, x):
        self.balance += 1
        return x

    def acquire(self):
        self.lock.acquire()

    def max_of_iterator(self):
        return max(self.it)

    def chained(self):
        a = b = self.log
        b[0] = 1

    def in_lambda(self):
        return (lambda: self.log.append(1))()

    def in_closure(self):
        def f():
            self.balance = 3

        return f()

    def of_argument(self, w):
        return w.bump()

    def multiply(self):
        total = self.log
        total *= 2

    def percent_s(self):
        return "%s" % self.dd

    def pop_of_set(self):
        return self.names.pop()

    def start_of_sum(self):
        return sum(self.rows, self.log.append(1))

    def star(self):
        return [*self.it]

    def double_star(self):
        return {**self.items, **self.book}

    def say(self):
        print("x")

    def import_module(self):
        import os

    def pairs_of_unknown(self):
        return dict(self.rows)

    def out_of_list(self):
        x = []
        x.append(self.log)
        x.pop().append(2)

    def by_object(self):
        return object.__setattr__(self, "x", 1)

    def nested_iterator(self):
        x = []
        x.append(self.it)
        return [list(q) for q in x]

    def extend_in_place(self):
        out = []
        out += self.it
        return out

    def extend(self):
        out = []
        out.extend(self.it)

    def nested_loop(self):
        for x in self.rows:
            for y in x:
                pass

    def execute(self):
        exec("1")

    def stored_in_new(self):
        x = Book()
        x.orders = self.items
        x.orders["q"] = 1

    def kept_in_new(self):
        x = Item("a", 1, self.log)
        x.tags.append(1)

    def loop(self):
        while True:
            pass


class Shelf:
    def __init__(self) -> None:
        self.books: dict[str, Any] = {"a": 1}

    def find(self, name: str) -> Any:
        return self.books[name]
