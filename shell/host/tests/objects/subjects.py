"""Objects that behave and misbehave, for the tests of the host."""

import itertools
import os
import random
import threading
import time

import tallies


class Counted:
    def __getstate__(self):
        tallies.tally("encodings")
        return {}

    def __setstate__(self, state):
        pass


class Account:
    __quorate_reads__ = (
        "balance_now",
        "crash",
        "sly",
        "draw",
        "encoded",
        "hang",
        "deposit",
        "note",
        "peek",
    )

    def __init__(self, balance=0):
        self.balance = balance
        self.lock = threading.Lock()
        self.blobs = []

    def deposit(self, amount):
        with self.lock:
            self.balance += amount
        return self.balance

    def balance_now(self):
        return self.balance

    def note(self, thing):
        self.blobs.append(thing)

    def peek(self):
        self.blobs.append("peeked")
        return len(self.blobs)

    def sly(self, honest):
        """Changes its object at the given read and at no earlier one."""
        if tallies.tally("reads") == honest:
            self.blobs.append("sly")

    def encoded(self):
        """How often this process has encoded such an account."""
        return tallies.told("encodings")

    def count_encoding(self):
        self.blobs.append(Counted())

    def fill(self, size):
        self.blobs.append(b"x" * size)

    def grow(self, size):
        self.blobs.append(bytes(size))
        return len(self.blobs)

    def large(self, size):
        self.balance += 1
        return bytes(size)

    def fail_at_length(self, size):
        raise ValueError("x" * size)

    def fail(self):
        self.balance += 1000
        raise ValueError("on purpose")

    def draw(self):
        return [time.time_ns(), random.randrange(10**9)]

    def crash(self):
        os._exit(3)

    def crash_once(self, path):
        if not os.path.exists(path):
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY))
            os._exit(4)
        return self.deposit(1)

    def hang(self):
        # Within C, where no steps are counted.
        all(itertools.repeat(True))

    def spin(self, rounds):
        for _ in range(rounds):
            self.balance += 1

    def escape(self):
        threading.Thread(target=print).start()

    def spoil(self):
        self.file = open(__file__)

    def _hidden(self):
        return "hidden"


class Unkeepable:
    def __init__(self):
        self.me = {"owner": [0, open(__file__)]}
