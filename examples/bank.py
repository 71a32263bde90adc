# Nothing here knows that it will be replicated.
class Account:
    def __init__(self, number, balance=0):
        self.number, self.balance = number, balance

    def deposit(self, amount):
        self.balance += amount
        return self.balance

    def debit(self, amount):
        if amount > self.balance:
            return False
        self.balance -= amount
        return True
