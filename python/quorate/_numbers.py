"""Numbers of numpy, single and in arrays.

numpy is never imported here: where it is not loaded, they arrive as numbers and lists of Python.
"""

from __future__ import annotations

import re
import struct
import sys
from typing import Any

from quorate._errors import MalformedValue

_FORM = re.compile(r"\|b1|\|[iu]1|[<>](?:[iu][248]|f[248]|c8|c16|[Mm]8(?:\[[0-9A-Za-z]+\])?)")
"""Byte order, kind and width: what `dtype.str` says of numbers and times."""

_DIMENSIONS_MAX = 64

_LETTERS = {
    **{"b1": "?", "i1": "b", "i2": "h", "i4": "i", "i8": "q"},
    **{"u1": "B", "u2": "H", "u4": "I", "u8": "Q", "f2": "e", "f4": "f", "f8": "d"},
}
"""Letters of `struct` by kind and width."""


def reduce(value: Any) -> Any:
    """(form, lengths, bytes) of a number or an array; a plain value for a text; None for everything else."""
    numpy = sys.modules.get("numpy")
    generic, array = getattr(numpy, "generic", None), getattr(numpy, "ndarray", None)
    if generic is None or array is None:
        return None
    if isinstance(value, generic):
        if isinstance(value, str):
            return str.__str__(value)
        shape = None
    elif type(value) is array:
        shape = list(value.shape)
    else:
        return None
    form = value.dtype.str
    if not _FORM.fullmatch(form) or (shape is not None and len(shape) > _DIMENSIONS_MAX):
        return None
    return form, shape, value.tobytes()


def build(form: str, shape: Any, data: bytes) -> Any:
    """The number, or the array."""
    if not _FORM.fullmatch(form):
        raise MalformedValue(f"no number has the form {form!r}")
    count = 1
    for length in shape or ():
        if not isinstance(length, int) or length < 0:
            raise MalformedValue("a length of an array is no length")
        count *= length
    if count * int(re.findall(r"\d+", form)[0]) != len(data) or len(shape or ()) > _DIMENSIONS_MAX:
        raise MalformedValue("an array has another length than its dimensions")
    numpy: Any = sys.modules.get("numpy")
    if numpy is None or not hasattr(numpy, "frombuffer"):
        return _nested(_plain(form, data), shape)
    flat = numpy.frombuffer(data, dtype=numpy.dtype(form)).copy()
    return flat[0] if shape is None else flat.reshape(shape)


def _plain(form: str, data: bytes) -> list[Any]:
    order, kind = form[0].replace("|", "<"), form[1:]
    if kind in ("c8", "c16"):
        parts = struct.iter_unpack(order + ("ff" if kind == "c8" else "dd"), data)
        return [complex(real, imaginary) for real, imaginary in parts]
    letter = _LETTERS.get(kind)
    if letter is None:
        raise MalformedValue(f"numbers of the form {form!r} need numpy: import it before")
    return [number for (number,) in struct.iter_unpack(order + letter, data)]


def _nested(flat: list[Any], shape: list[int] | None) -> Any:
    if not shape:
        return flat[0]
    for length in reversed(shape[1:]):
        count = len(flat) // length if length else 0
        flat = [flat[index * length : (index + 1) * length] for index in range(count)]
    # Of an empty array the lengths of the inner dimensions say nothing.
    return flat if len(flat) == shape[0] else []
