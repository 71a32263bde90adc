"""An object whose class says how its calls are undone, for the tests of execution ahead."""

import random
import time

import quorate


class Ledger:
    __quorate_reads__ = ("total", "entries", "now", "drawn")

    def __init__(self):
        self.balance = 0
        self.notes = {}
        self.lies = 0
        self.luck = 0
        self.ballast = {}

    def fill(self, entries):
        self.ballast = {number: f"{number:0100d}" for number in range(entries)}

    def total(self):
        return self.balance

    def entries(self):
        return len(self.notes)

    def now(self):
        return time.time_ns() // 1_000_000_000

    def drawn(self):
        return self.luck

    def deposit(self, amount):
        self.balance += amount
        return self.balance

    @quorate.undoes(deposit)
    def _undo_deposit(self, result, amount):
        self.balance -= amount

    def double(self):
        self.balance *= 2
        return self.balance

    @quorate.undoes(double)
    def _undo_double(self, result):
        self.balance //= 2

    def note(self, key, value):
        self.notes[key] = value
        return len(self.notes)

    @quorate.undoes(note)
    def _undo_note(self, key, value):
        had, before = key in self.notes, self.notes.get(key)
        yield
        if had:
            self.notes[key] = before
        else:
            del self.notes[key]

    def gamble(self):
        self.luck = random.randrange(1 << 40)
        return self.luck

    @quorate.undoes(gamble)
    def _undo_gamble(self):
        before = self.luck
        random.random()
        yield
        self.luck = before

    def later(self, amount):
        quorate.after(5, "deposit", amount)
        return 0

    @quorate.undoes(later)
    def _undo_later(self, result, amount):
        pass

    def half(self, amount):
        self.balance += amount
        if amount > 5:
            raise ValueError("too much")
        return self.balance

    @quorate.undoes(half)
    def _undo_half(self, result, amount):
        self.balance -= amount

    def lie(self, amount):
        self.lies += amount
        return self.lies

    @quorate.undoes(lie)
    def _undo_lie(self, result, amount):
        self.lies -= 1

    def stumble(self, amount):
        self.balance += amount
        return self.balance

    @quorate.undoes(stumble)
    def _undo_stumble(self, result, amount):
        raise RuntimeError("no way back")

    def linger(self, amount):
        self.balance += amount
        return self.balance

    @quorate.undoes(linger)
    def _undo_linger(self, result, amount):
        while True:
            pass

    def plain(self, amount):
        self.balance += amount
        return self.balance

    def fail(self, amount):
        raise ValueError(f"not {amount}")
