"""An object that is undone, for the tests of execution ahead of decisions."""

import os

import quorate

# Of this process alone.
_cache = {"spins": 0}


class Ahead:
    __quorate_reads__ = ("balance_now", "weigh", "spins_here")

    def __init__(self):
        self.balance = 0

    def deposit(self, amount):
        self.balance += amount
        return self.balance

    def balance_now(self):
        return self.balance

    def weigh(self):
        """Ends the process where there is much."""
        if self.balance >= 100:
            os._exit(3)
        return self.balance

    def crash(self):
        os._exit(3)

    def swallow(self, *numbers):
        return len(numbers)

    def spins_here(self):
        return _cache["spins"]

    def spin(self, rounds):
        _cache["spins"] += 1
        for _ in range(rounds):
            self.balance += 1
        return self.balance

    def say(self, amount):
        print(f"said {amount}")
        self.balance += amount
        return self.balance

    def later(self):
        quorate.after(5, "deposit", 1)
