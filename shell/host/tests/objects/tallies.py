"""Counts that objects keep beside their state: what is called a cache counts as none."""

CACHED_COUNTS = {}


def tally(name):
    """One more of these; how many there were."""
    CACHED_COUNTS[name] = told(name) + 1
    return CACHED_COUNTS[name]


def told(name):
    """How many there were."""
    return CACHED_COUNTS.get(name, 0)
