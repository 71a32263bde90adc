"""Random bytes, from such as nobody can read to frames that are wrong in one bit; sent by `crowd`.

Some go where a node of the group would speak: they have the length and the shape of what is read there, and
no proof in them is true.
"""

from __future__ import annotations

import random
import struct

from crowd_wire import CHALLENGE, PROOF, REACH, REJECT, SIGHTING, frame

KINDS = range(16)
"""Of frames, and a little above."""

REASONS = range(13)
"""Why connections are refused, and a little above."""

RECALLS = range(1, 5)


def noise(rng: random.Random) -> bytes:
    """Bytes alone, a request of HTTP that is none, frames, some with a flipped bit, or words of a node."""
    body = rng.randbytes(rng.randrange(2000))
    drawn = rng.randrange(5)
    if drawn == 0:
        return body
    if drawn == 1:
        return b"GET /" + body + b"\r\n\r\n"
    if drawn == 2:
        return node_words(rng)
    whole = bytearray(frame(rng.choice(KINDS), body))
    if drawn == 3:
        whole[rng.randrange(len(whole))] ^= 1 << rng.randrange(8)
    return bytes(whole)


def node_words(rng: random.Random) -> bytes:
    """What a node says before a link stands: a challenge, a proof, how far it has come, or a refusal."""
    drawn = rng.randrange(5)
    if drawn == 0:
        return frame(CHALLENGE, rng.randbytes(48))
    if drawn == 1:
        return frame(PROOF, rng.randbytes(32) + _reach(rng))
    if drawn == 2:
        return frame(REACH, _reach(rng))
    if drawn == 3:
        return frame(SIGHTING, struct.pack("<QB", _count(rng), rng.randrange(4)))
    # A number behind these words is believed of a node that has proved itself.
    text = rng.choice((b"you are not named by view 99", rng.randbytes(20).hex().encode()))
    return frame(REJECT, struct.pack("<BH", rng.choice(REASONS), len(text)) + text)


def _reach(rng: random.Random) -> bytes:
    starts = rng.randrange(3)
    body = struct.pack("<QQQB", _count(rng), rng.getrandbits(64), _count(rng), rng.choice(RECALLS))
    body += struct.pack("<QB", rng.randrange(4), starts)
    return body + b"".join(struct.pack("<QQQ", at + 1, rng.getrandbits(64), at) for at in range(starts))


def _count(rng: random.Random) -> int:
    return rng.getrandbits(rng.choice((3, 20, 63)))
