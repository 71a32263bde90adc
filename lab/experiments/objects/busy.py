"""An object whose calls keep a processor busy for as long as the caller says."""


class Busy:
    """Counts its calls, each of which adds up so many numbers first."""

    def __init__(self) -> None:
        self.calls = 0

    def work(self, numbers: int) -> int:
        """Add up; returns how many calls there were."""
        # One step of the interpreter: a loop here would also measure how steps are counted.
        sum(range(numbers))
        self.calls += 1
        return self.calls
