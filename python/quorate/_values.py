"""Values of rare kinds: the native codec asks here about every value that is not of a plain kind.

The tags are those of the wire's value format. `reduce` gives a tag and plain content, `build` the way back.
"""

from __future__ import annotations

import dataclasses
import datetime
import enum
import threading
import uuid
import zoneinfo
from decimal import Decimal
from typing import Any

from quorate import _names, _native, _raised, _rare_values
from quorate._errors import MalformedValue

UUID, DATE, DATE_TIME, TIME_DELTA, DECIMAL, ENUM, DATA_CLASS = 37, 100, 60003, 60004, 60005, 60006, 60007

_DateTime, _Date, _TimeDelta, _TimeZone = (
    datetime.datetime,
    datetime.date,
    datetime.timedelta,
    datetime.timezone,
)
_EPOCH = _DateTime(1970, 1, 1)
_EPOCH_DAY = _Date(1970, 1, 1).toordinal()
_MICROSECOND = _TimeDelta(microseconds=1)


def reduce(value: Any, in_state: bool) -> tuple[int, Any] | str | None:
    """Tag and plain content of a value; why it cannot be sent; None when there is nothing to say of it."""
    if isinstance(value, enum.Enum):
        cls = type(value)
        if _names.is_allowed(cls):
            return ENUM, [_names.name_of(cls), member_name(value)]
        return None if in_state else f"{cls.__name__} is not registered: allow it with quorate.register"
    # In states subclasses go in parts, with the fields that they add.
    if in_state and isinstance(value, _Date) and type(value) not in (_Date, _DateTime):
        return None
    if in_state and isinstance(value, _DateTime) and _has_own_name(value.tzinfo):
        return None
    if isinstance(value, _DateTime):
        return _reduce_date_time(value)
    if isinstance(value, _Date):
        return DATE, value.toordinal() - _EPOCH_DAY
    cls = type(value)
    if cls is _TimeDelta:
        return TIME_DELTA, [value.days, value.seconds, value.microseconds]
    if cls is Decimal:
        return DECIMAL, str(value)
    if cls is uuid.UUID:
        return UUID, value.bytes
    # In states a data class goes in parts, like every instance: cycles, and no __init__ on the way back.
    if in_state:
        return None
    if cls.__module__ == "quorate._calling":
        return "a Caller stays in its group: return its token, or a number of your own"
    if dataclasses.is_dataclass(cls) and _names.is_allowed(cls):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return DATA_CLASS, (_names.name_of(cls), fields)
    return _rare_values.reduce(value)


def member_name(value: enum.Enum) -> str:
    """The member's name; of combined flags their names, and what has none as a number."""
    if not isinstance(value, enum.Flag) or value._name_ in type(value).__members__:
        return str(value._name_)
    names = [str(member._name_) for member in value]
    rest = value._value_
    for member in value:
        rest &= ~member._value_
    return "|".join([*names, str(rest)] if rest or not names else names)


def member(cls: type[enum.Enum], name: str) -> enum.Enum:
    if not issubclass(cls, enum.Flag) or name in cls.__members__:
        return cls[name]
    number = 0
    for part in name.split("|"):
        number |= int(part) if part.isdigit() else cls[part]._value_
    return cls(number)


def _has_own_name(zone: datetime.tzinfo | None) -> bool:
    """Whether the zone is a fixed offset with another name than the offset's."""
    return isinstance(zone, _TimeZone) and len(zone.__getinitargs__()) > 1  # type: ignore[attr-defined]


def _reduce_date_time(value: datetime.datetime) -> tuple[int, Any] | None:
    offset, zone = value.utcoffset(), value.tzinfo
    if zone is not None and not isinstance(zone, (_TimeZone, zoneinfo.ZoneInfo)):
        return None
    # Not with methods of a subclass, which may calculate otherwise.
    parts = (value.year, value.month, value.day, value.hour, value.minute, value.second, value.microsecond)
    local = (_DateTime(*parts) - _EPOCH) // _MICROSECOND
    name = zone.key if isinstance(zone, zoneinfo.ZoneInfo) else None
    return DATE_TIME, [local, None if offset is None else offset // _MICROSECOND, name, bool(value.fold)]


is_own_iterator = _rare_values.is_own_iterator


def build(tag: int, content: Any) -> Any:
    """The value of a tag and its plain content."""
    try:
        return _build(tag, content)
    except MalformedValue:
        if _reading.is_lenient:
            return Unknown(tag, content)
        raise
    except (TypeError, ValueError, ArithmeticError, LookupError) as error:
        raise MalformedValue(f"a value with tag {tag} is damaged: {error}") from error


class _Reading(threading.local):
    is_lenient = False
    is_host = False


_reading = _Reading()


def read_as_host() -> None:
    """Values that this thread reads come from callers."""
    _reading.is_host = True


class Unknown:
    """Stands for a part of an exception that is of a class which is not known here."""

    def __init__(self, tag: int, content: Any) -> None:
        self.tag = tag
        self.content = content

    def __repr__(self) -> str:
        name = self.content[0] if isinstance(self.content, list) and self.content else f"tag {self.tag}"
        return f"<unknown {name}>"


def exception(data: bytes) -> BaseException:
    """The exception of a call that raised, also where a part of it is of a class that is not known here."""
    try:
        parts = _native.loads(data)
    except MalformedValue:
        _reading.is_lenient = True
        try:
            parts = _native.loads(data)
        finally:
            _reading.is_lenient = False
    return _raised.exception_of(parts)


def _build(tag: int, content: Any) -> Any:
    match tag, content:
        case 37, bytes():
            return uuid.UUID(bytes=content)
        case 100, int():
            return _Date.fromordinal(content + _EPOCH_DAY)
        case 60003, [int() as local, offset, name, bool() as fold]:
            return _build_date_time(local, offset, name, fold)
        case 60004, [int() as days, int() as seconds, int() as microseconds]:
            return _TimeDelta(days, seconds, microseconds)
        case 60005, str():
            return Decimal(content)
        case 60006, [str() as class_name, str() as name]:
            found = _names.expect(class_name)
            if not issubclass(found, enum.Enum):
                raise MalformedValue(f"{class_name} is not an Enum")
            return member(found, name)
        case 60007, [str() as class_name, dict() as fields]:
            return _build_data_class(_names.expect(class_name), fields)
    return _rare_values.build(tag, content)


def _build_date_time(local: int, offset: int | None, name: str | None, fold: bool) -> datetime.datetime:
    zone: datetime.tzinfo | None = None
    if name is not None:
        zone = zoneinfo.ZoneInfo(name)
    elif offset is not None:
        zone = _TimeZone(_TimeDelta(microseconds=offset))
    return (_EPOCH + _TimeDelta(microseconds=local)).replace(tzinfo=zone, fold=int(fold))


def _build_data_class(cls: type, fields: dict[str, Any]) -> Any:
    """Through __init__, so that what the class checks is checked for values that arrive, too.

    A caller gets the fields as they were: what __init__ makes of its arguments was made before. A host
    keeps to what __init__ makes of what a caller sends.
    """
    if not dataclasses.is_dataclass(cls):
        raise MalformedValue(f"{_names.name_of(cls)} is not a data class")
    declared = dataclasses.fields(cls)
    given = {field.name: fields.pop(field.name) for field in declared if field.init}
    made = cls(**given)
    for field in declared:
        if not field.init:
            object.__setattr__(made, field.name, fields.pop(field.name))
    if fields:
        raise MalformedValue(f"{_names.name_of(cls)} has no field {next(iter(fields))!r}")
    if not _reading.is_host:
        for name, value in given.items():
            if getattr(made, name, value) is not value:
                object.__setattr__(made, name, value)
    return made
