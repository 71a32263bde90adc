"""Arrays of numpy that share memory or must not be written: what its own way to make them leaves out.

Only where numpy is allowed; it is never imported here.
"""

from __future__ import annotations

import sys
from typing import Any

from quorate._errors import MalformedValue

Parts = tuple[str, tuple[Any, ...], Any]


def take_apart(value: Any) -> Parts | str | None:
    """A view by what it views, an array that is read-only by a copy; None for all that needs no care."""
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return None
    if isinstance(value, numpy.dtype):
        # Of these there is one each.
        return ("numpy.dtype", (value.str,), None) if value.isbuiltin == 1 and value.isnative else None
    if type(value) is not numpy.ndarray:
        return None
    if isinstance(value.base, numpy.ndarray):
        return _view(value, value.base)
    if not value.flags.writeable:
        return "numpy.read-only", (value.copy(order="K"),), None
    return None


def _view(value: Any, base: Any) -> Parts | str:
    start = value.__array_interface__["data"][0] - base.__array_interface__["data"][0]
    parts = base, value.dtype, value.shape, start, value.strides, bool(value.flags.writeable)
    try:
        again = make_view(*parts)
    except (TypeError, ValueError, MalformedValue):
        again = None
    if again is None or again.base is not base:
        return "ndarray is not supported, for it is a view that cannot be made again: keep a copy"
    return "numpy.view", parts, None


def make_dtype(name: str) -> Any:
    """A type of plain numbers."""
    return _numpy().dtype(name)


def make_view(base: Any, *layout: Any) -> Any:
    """An array in the memory of another one."""
    dtype, shape, start, strides, is_writeable = layout
    numpy = _numpy()
    if not isinstance(base, numpy.ndarray) or not (base.flags.c_contiguous or base.flags.f_contiguous):
        raise MalformedValue("a snapshot has a view of what cannot be viewed")
    memory = base if base.flags.c_contiguous else base.T
    if dtype.hasobject:
        if start or dtype != base.dtype:
            raise MalformedValue("a snapshot has a view of a part of an array of objects")
        flat = memory.reshape(-1)
        made = flat.reshape(shape)
        if made.strides != strides:
            made = flat.reshape(shape[::-1]).T
        if made.strides != strides:
            raise MalformedValue("a snapshot has a view of a part of an array of objects")
    else:
        made = numpy.ndarray(shape, dtype, memory, start, strides)
    if made.flags.writeable and not is_writeable:
        made.flags.writeable = False
    return made


def make_read_only(array: Any) -> Any:
    """The array, not to be written any more."""
    if type(array) is not _numpy().ndarray:
        raise MalformedValue("a snapshot has a read-only array that is no array")
    array.flags.writeable = False
    return array


def _numpy() -> Any:
    numpy = sys.modules.get("numpy")
    if numpy is None:
        raise MalformedValue("a snapshot has arrays, and numpy is not loaded")
    return numpy
