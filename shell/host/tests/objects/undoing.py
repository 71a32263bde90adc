"""An object whose class says how its calls are undone, for the tests of execution ahead."""

import itertools
import os
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

    def leave(self, amount):
        self.balance += amount
        return self.balance

    @quorate.undoes(leave)
    def _undo_leave(self, result, amount):
        os._exit(0)

    def peek(self, amount):
        self.balance += amount
        return self.balance

    @quorate.undoes(peek)
    def _undo_peek(self, amount):
        self.balance += 1
        yield
        self.balance -= amount

    def barge(self, amount):
        self.balance += amount
        return self.balance

    @quorate.undoes(barge)
    def _undo_barge(self, amount):
        self.balance += 1
        os._exit(3)
        yield

    def dawdle(self, amount):
        self.balance += amount
        return self.balance

    @quorate.undoes(dawdle)
    def _undo_dawdle(self, amount):
        self.balance += 1
        all(itertools.repeat(1))
        yield

    def give_up(self, amount):
        self.balance += amount
        return self.balance

    @quorate.undoes(give_up)
    def _undo_give_up(self, amount):
        self.balance += 1
        raise RuntimeError("no way on")
        yield

    def plain(self, amount):
        self.balance += amount
        return self.balance

    def fail(self, amount):
        raise ValueError(f"not {amount}")
