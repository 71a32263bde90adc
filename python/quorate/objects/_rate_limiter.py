"""A rate limiter: token buckets."""

from __future__ import annotations

import time

FORGETS_FROM = 1024
"""Buckets from which on those that are full are looked for, to forget them."""


class RateLimiter:
    """Allows each key `rate` calls a second on average, and up to `burst` at a time after a pause.

    Each key has a bucket of `burst` tokens, which fills with `rate` tokens a second. Time is `time.time()`,
    which a replicated object has agreed; if it goes back, buckets do not fill meanwhile.

    >>> limiter = RateLimiter(rate=0.001, burst=2)
    >>> limiter.allow("mia"), limiter.allow("mia"), limiter.allow("mia"), limiter.allow("ben")
    (True, True, False, True)
    >>> 900 < limiter.wait("mia") <= 1000
    True
    """

    def __init__(self, rate: float, burst: float = 1.0) -> None:
        """Raises ValueError unless both are above 0."""
        if not (rate > 0 and burst > 0):
            raise ValueError(f"rate and burst are above 0, not {rate} and {burst}")
        self.rate, self.burst = float(rate), float(burst)
        self._buckets: dict[str, tuple[float, float]] = {}
        self._forgets_at = FORGETS_FROM

    def allow(self, key: str = "", cost: float = 1.0) -> bool:
        """Take tokens from the bucket of a key if it has so many; whether it had.

        Raises ValueError for a cost below 0, or above `burst`, which no bucket ever has.
        """
        now = time.time()
        left = self._level(key, cost, now) - cost
        if left < 0:
            return False
        self._buckets[key] = left, now
        if len(self._buckets) >= self._forgets_at:
            self._forget_full(now)
        return True

    def wait(self, key: str = "", cost: float = 1.0) -> float:
        """After how many seconds the bucket of a key has so many tokens, if nobody takes any; 0 if it has."""
        missing = cost - self._level(key, cost, time.time())
        return max(missing / self.rate, 0.0)

    def reset(self, key: str = "") -> None:
        """Fill the bucket of a key."""
        self._buckets.pop(key, None)

    def _level(self, key: str, cost: float, now: float) -> float:
        if not 0 <= cost <= self.burst:
            raise ValueError(f"a cost is between 0 and the burst of {self.burst}, not {cost}")
        level, then = self._buckets.get(key, (self.burst, now))
        return min(level + max(now - then, 0.0) * self.rate, self.burst)

    def _forget_full(self, now: float) -> None:
        """Full buckets are as good as none. Looked for each time that twice as many are there."""
        self._buckets = {
            key: (level, then)
            for key, (level, then) in self._buckets.items()
            if level + max(now - then, 0.0) * self.rate < self.burst
        }
        self._forgets_at = max(2 * len(self._buckets), FORGETS_FROM)
