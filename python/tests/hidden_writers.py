"""Methods that write through what is hard to see, each with its classes; for the search for reads."""

from __future__ import annotations

STATE = """
import collections, copy, datetime, decimal, enum, functools, io, math

class Book:
    def __init__(self):
        self.n = 0

class Fields:
    def __init__(self):
        self.n = 0
        self.log = []
        self.book = Book()
        self.it = iter([1, 2, 3])
        self.texts = [iter(["a", "b"])]
        self.dd = collections.defaultdict(int)
        self.name = "x"
        self.number = 4
"""

CASES: dict[str, str] = {
    "a method of a member of an enumeration": """
class Side(str, enum.Enum):
    BUY = "b"
    def apply(self, book):
        book.n += 1
class Object(Fields):
    def run(self):
        Side("b").apply(self.book)
""",
    "an argument by keyword of a bound method in a variable": """
class Object(Fields):
    def _fill(self, *, into=None):
        into.append(1)
    def run(self):
        fill = self._fill
        fill(into=self.log)
""",
    "an argument by keyword of a method of an item": """
class Item:
    def add_to(self, *, into=None):
        into.append(1)
class Object(Fields):
    def __init__(self):
        super().__init__()
        self.items = {"a": Item()}
    def run(self):
        for item in self.items.values():
            item.add_to(into=self.log)
""",
    "a list of an own class uses up an iterator": """
class Names(list):
    pass
class Object(Fields):
    def run(self):
        return len(Names(self.it))
""",
    "a list of an own class uses up an iterator in __init__": """
class Names(list):
    def __init__(self, names):
        super().__init__(names)
class Object(Fields):
    def run(self):
        return len(Names(self.it))
""",
    "items of a list are compared when they are counted": """
class Asked:
    def __init__(self):
        self.n = 0
    def __eq__(self, other):
        self.n += 1
        return True
class Object(Fields):
    def __init__(self):
        super().__init__()
        self.items = [Asked()]
    def run(self):
        return self.items.count(1)
""",
    "keys of a dict are compared when one is looked for": """
class Asked:
    def __init__(self):
        self.n = 0
    def __hash__(self):
        return 1
    def __eq__(self, other):
        self.n += 1
        return self is other
class Object(Fields):
    def __init__(self):
        super().__init__()
        self.items = {Asked(): 1}
    def run(self):
        return self.items.get(1)
""",
    "keys of a dict are compared when one is taken": """
class Asked:
    def __init__(self):
        self.n = 0
    def __hash__(self):
        return 1
    def __eq__(self, other):
        self.n += 1
        return True
class Object(Fields):
    def __init__(self):
        super().__init__()
        self.items = {Asked(): 1}
    def run(self):
        return self.items[1]
""",
    "a time zone that counts": """
class Zone(datetime.tzinfo):
    def __init__(self):
        self.asked = [0]
    def utcoffset(self, when):
        self.asked[0] += 1
        return datetime.timedelta(hours=self.asked[0] % 9)
    def dst(self, when):
        return datetime.timedelta(0)
class Object(Fields):
    def __init__(self):
        super().__init__()
        self.zone = Zone()
        self.when = datetime.datetime(2020, 1, 1, tzinfo=self.zone)
    def run(self):
        return self.when.isoformat()
""",
    "an operator that chooses its function by type": """
class Sum:
    def __init__(self):
        self.n = 0
    @functools.singledispatchmethod
    def __add__(self, other):
        self.n += 1
        return 1
class Object(Fields):
    def __init__(self):
        super().__init__()
        self.sum = Sum()
    def run(self):
        return self.sum + 1
""",
    "an exception of the state gets a cause": """
class Object(Fields):
    def __init__(self):
        super().__init__()
        self.error = ValueError("x")
    def run(self):
        raise self.error from KeyError("y")
""",
    "an exception of the state gets a context": """
class Object(Fields):
    def __init__(self):
        super().__init__()
        self.error = ValueError("x")
    def run(self):
        try:
            raise KeyError("y")
        except KeyError:
            raise self.error
""",
    "a text in memory is read on": """
class Account:
    def read(self):
        return 1
class Object(Fields):
    def __init__(self):
        super().__init__()
        self.files = {"a": io.StringIO("text")}
    def run(self):
        return self.files["a"].read()
""",
    "super() that skips a class": """
class Base(Fields):
    def op(self):
        self.n += 1
class Middle(Base):
    def op(self):
        return self.n
class Object(Middle):
    def run(self):
        return super(Middle, self).op()
""",
    "a number in a text": """
class Number:
    def __init__(self):
        self.n = 0
    def __int__(self):
        self.n += 1
        return self.n
    def __trunc__(self):
        return 1
    def __index__(self):
        self.n += 1
        return self.n
class Object(Fields):
    def __init__(self):
        super().__init__()
        self.it = Number()
    def run(self):
        return "%d" % (self.it,)
""",
    "an instance that has another method than its class": """
class Item:
    def __init__(self):
        self.n = 0
        self.total = self.bump
    def total(self):
        return self.n
    def bump(self):
        self.n += 1
class Object(Fields):
    def __init__(self):
        super().__init__()
        self.items = [Item()]
    def run(self):
        return [item.total() for item in self.items]
""",
    "an object that gets another method than its class": """
class Object(Fields):
    def look(self):
        return self.n
    def bump(self):
        self.n += 1
    def turn(self):
        self.look = self.bump
    def run(self):
        return self.look()
""",
    "a copy that is the same": """
class Same:
    def __init__(self):
        self.n = 0
    def __copy__(self):
        return self
class Object(Fields):
    def __init__(self):
        super().__init__()
        self.same = Same()
    def run(self):
        same = copy.copy(self.same)
        same.n = 1
""",
    "what is rounded is the same": """
class Same:
    def __init__(self):
        self.n = 0
    def __round__(self):
        return self
class Object(Fields):
    def __init__(self):
        super().__init__()
        self.same = Same()
    def run(self):
        same = round(self.same)
        same.n = 1
""",
    "a floor that is no number": """
class Same:
    def __init__(self):
        self.n = 0
    def __floor__(self):
        return self
    def bump(self):
        self.n += 1
class Object(Fields):
    def __init__(self):
        super().__init__()
        self.same = Same()
    def run(self):
        math.floor(self.same).bump()
""",
    "a comparison gives a part": """
class Column:
    def __init__(self):
        self.parts = [0]
    def __lt__(self, other):
        return self.parts
class Object(Fields):
    def __init__(self):
        super().__init__()
        self.column = Column()
    def run(self):
        parts = self.column < 1
        parts[0] = 1
""",
    "the sum of nothing is its start": """
class Object(Fields):
    def __init__(self):
        super().__init__()
        self.log = [1]
        self.rows = []
    def run(self):
        total = sum(self.rows, self.log)
        total[0] = 2
""",
    "the sum of an empty list is its start": """
class Object(Fields):
    def run(self):
        sum([], self.log).append(1)
""",
    "a function of a text uses up iterators": """
class Object(Fields):
    def run(self):
        return list(map(",".join, self.texts))
""",
    "a format that looks up": """
class Object(Fields):
    def run(self):
        return list(map("{0[a]}".format, [self.dd]))
""",
    "a list of an own class is reversed": """
class Back(list):
    def __init__(self):
        super().__init__()
        self.n = 0
    def __reversed__(self):
        self.n += 1
        return iter([])
class Object(Fields):
    def __init__(self):
        super().__init__()
        self.back = Back()
    def run(self):
        return list(reversed(self.back))
""",
    "an item of what was made is deleted": """
class Tracked(dict):
    def __init__(self, log):
        self.log = log
    def __delitem__(self, key):
        self.log.append(key)
class Object(Fields):
    def run(self):
        tracked = Tracked(self.log)
        del tracked["a"]
""",
    "a number is made of an iterator": """
class Object(Fields):
    def run(self):
        return self.number.from_bytes(self.it, "big")
""",
}
