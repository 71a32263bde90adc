"""Random bytes, from such as nobody can read to frames that are wrong in one bit; sent by `crowd`."""

from __future__ import annotations

import random

from crowd_wire import frame

KINDS = range(16)
"""Of frames, and a little above."""


def noise(rng: random.Random) -> bytes:
    """Bytes alone, a request of HTTP that is none, a whole frame, or one with a flipped bit."""
    body = rng.randbytes(rng.randrange(2000))
    drawn = rng.randrange(4)
    if drawn == 0:
        return body
    if drawn == 1:
        return b"GET /" + body + b"\r\n\r\n"
    whole = bytearray(frame(rng.choice(KINDS), body))
    if drawn == 2:
        whole[rng.randrange(len(whole))] ^= 1 << rng.randrange(8)
    return bytes(whole)
