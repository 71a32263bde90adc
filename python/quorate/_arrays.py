"""Arrays of numpy that share memory or must not be written: what its own way to make them leaves out.

Only where numpy is allowed; it is never imported here.
"""

from __future__ import annotations

import math
import sys
from typing import Any

from quorate._errors import MalformedValue

Parts = tuple[str, tuple[Any, ...], Any]


class _Mark:
    """Stands for `numpy.nan` in what numpy and pandas say of themselves."""

    __slots__ = ()


_NAN = _Mark()
PACKAGES = ("numpy", "pandas")
"""They tell missing values by what is this very object, which is equal to nothing."""


def take_mark_apart(_: _Mark) -> Parts:
    """By the name that numpy has for it."""
    return "global", ("numpy.nan",), None


MARKS: dict[type, Any] = {_Mark: take_mark_apart}


def marked(value: Any) -> Any:
    """With a mark for each `numpy.nan` in a tuple, and in lists of it, which are made for this only.

    Slices are copied: who shares one says nothing of the state, and does not share it after a restore.
    """
    nan = getattr(sys.modules.get("numpy"), "nan", None)
    if nan is None:
        return value
    if value is nan:
        return _NAN
    if type(value) is slice:
        return slice(value.start, value.stop, value.step)
    if type(value) is tuple:
        return tuple(map(marked, value))
    if type(value) is list and any(each is nan for each in value):
        return [_NAN if each is nan else each for each in value]
    return value


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
    strides = value.strides
    if value.dtype.hasobject:
        # What says nothing is not the same in an array that is made by slices.
        start = start if value.size else 0
        strides = tuple(
            step if n > 1 and value.size else 0 for n, step in zip(value.shape, strides, strict=True)
        )
    parts = base, value.dtype, value.shape, start, strides, bool(value.flags.writeable)
    try:
        again = make_view(*parts)
    except (TypeError, ValueError, MalformedValue):
        again = None
    is_there = (
        again is not None and again.__array_interface__["data"][0] == value.__array_interface__["data"][0]
    )
    if again is None or again.base is not base or not (is_there or 0 in value.shape):
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
        if dtype != base.dtype:
            raise MalformedValue("a snapshot has a view of objects as something else")
        made = _view_of_objects(memory, shape, start, strides)
    else:
        made = numpy.ndarray(shape, dtype, memory, start, strides)
    if made.flags.writeable and not is_writeable:
        made.flags.writeable = False
    return made


def _view_of_objects(memory: Any, shape: tuple[int, ...], start: int, strides: tuple[int, ...]) -> Any:
    """By slices, for numpy takes no address of objects: all of an array, or a part of a row or of a table."""
    flat, first = memory.reshape(-1), start // memory.itemsize
    wide = [(count, step // memory.itemsize) for count, step in zip(shape, strides, strict=True) if count > 1]
    made = None
    if 0 in shape:
        made = flat[:0].reshape(shape)
    elif len(wide) < 2:
        made = flat[_slice(first, *(wide[0] if wide else (1, 1)))].reshape(shape)
    elif flat.size == math.prod(shape):
        made = flat.reshape(shape)
        made = made if _is_laid(made, shape, strides) else flat.reshape(shape[::-1]).T
    if len(wide) == 2 and (made is None or not _is_laid(made, shape, strides)):
        made = _part_of_table(memory, wide, first, shape)
    if made is None or not _is_laid(made, shape, strides):
        raise MalformedValue("a snapshot has a view of objects that cannot be made by slices")
    return made


def _part_of_table(memory: Any, wide: list[tuple[int, int]], first: int, shape: tuple[int, ...]) -> Any:
    """Some rows and columns, turned if the columns come first; None where they are no rows of a table."""
    length = memory.shape[1] if memory.ndim == 2 else max(abs(step) for _, step in wide)
    if not length or memory.size % length:
        return None
    is_turned = abs(wide[0][1]) < abs(wide[1][1])
    (rows, row_step), (columns, step) = reversed(wide) if is_turned else wide
    row, column = divmod(first, length)
    down, across = _slice(row, rows, row_step // length), _slice(column, columns, step)
    if row_step % length or abs(step) >= length:
        return None
    table = memory.reshape(-1, length)[down, across]
    return (table.T if is_turned else table).reshape(shape) if table.size == math.prod(shape) else None


def _slice(first: int, count: int, step: int) -> slice:
    end = first + count * step
    return slice(first, end if end >= 0 else None, step or 1)


def _is_laid(made: Any, shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Whether an array has this layout; of a dimension of one the stride says nothing."""
    pairs = zip(shape, strides, made.strides, strict=False)
    return made.shape == shape and (0 in shape or all(one == other for n, one, other in pairs if n > 1))


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
