"""Constructor arguments on their way to a host: as JSON where JSON says them, else encoded whole.

A configuration keeps arguments as JSON, which people read. What JSON cannot say, such as a tuple, bytes or a
data class, goes in one named argument. The host decodes it when it knows the class and its package.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from quorate import _native
from quorate._errors import UnsupportedValue

ENCODED = "__quorate_arguments__"
"""The named argument that stands for all arguments; no class has one of this name."""

WORD_BYTES_MAX = 96 << 10
"""Of arguments on a command line: the system takes words of 128 KiB."""

_INTEGERS = range(-(1 << 53), (1 << 53) + 1)
_DEPTH_MAX = 32


def words(args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[str, str]:
    """Arguments as `quorate up` takes them.

    >>> words(["A-1"], {"balance": 100})
    ('["A-1"]', '{"balance": 100}')

    Raises UnsupportedValue when one of them cannot be sent, or when they are too large.
    """
    positional, named = list(args), dict(kwargs)
    if ENCODED in named or not _is_json([positional, named], _DEPTH_MAX):
        encoded = _native.dumps([positional, named])
        positional, named = [], {ENCODED: base64.b85encode(encoded).decode()}
    told = json.dumps(positional), json.dumps(named)
    size = max(len(word.encode()) for word in told)
    if size > WORD_BYTES_MAX:
        raise UnsupportedValue(
            f"the class's arguments have {size} bytes, and at most {WORD_BYTES_MAX} can be given: "
            "call a method with the rest"
        )
    return told


def given(args: list[Any], kwargs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """The arguments in what the host got.

    >>> import json
    >>> given(*map(json.loads, words([(1, 2)], {"key": b"x"})))
    ([(1, 2)], {'key': b'x'})
    """
    encoded = kwargs.get(ENCODED)
    if not isinstance(encoded, str):
        return args, kwargs
    positional, named = _native.loads(base64.b85decode(encoded))
    return list(positional), dict(named)


def _is_json(value: Any, depth: int) -> bool:
    """Whether JSON says the value so that it comes back as it is."""
    if depth == 0:
        return False
    kind = type(value)
    if kind is list:
        return all(_is_json(item, depth - 1) for item in value)
    if kind is dict:
        return all(type(key) is str and _is_json(item, depth - 1) for key, item in value.items())
    if kind is float:
        return math.isfinite(value)
    if kind is str:
        return value.isascii() or _is_text(value)
    return value is None or kind is bool or (kind is int and value in _INTEGERS)


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
