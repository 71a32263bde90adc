"""Counts that objects keep beside their state: in a module of its own, as their own is searched."""

COUNTS = {}


def tally(name):
    """One more of these; how many there were."""
    COUNTS[name] = told(name) + 1
    return COUNTS[name]


def told(name):
    """How many there were."""
    return COUNTS.get(name, 0)
