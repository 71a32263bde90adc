"""Random small states are written between two calls as in a snapshot process, and read again as they were."""

from __future__ import annotations

import datetime
import math
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from quorate import _names, _native

_names.allow_package(__name__)
BYTES_MAX = 64 << 10


class Missing:
    pass


MISSING = Missing()
NO_NUMBER = float("nan")
HOME = (MISSING, "home")


@dataclass
class Node:
    value: Any = None
    links: list[Any] = field(default_factory=list)


@dataclass(slots=True)
class Point:
    x: Any
    y: Any


class Both(Node):
    __slots__ = ("hidden",)


class Money(Decimal):
    pass


class Moment(datetime.datetime):
    pass


ZONES = st.one_of(
    st.none(),
    st.just(datetime.UTC),
    st.integers(-1439, 1439).map(lambda n: datetime.timezone(datetime.timedelta(minutes=n))),
    st.just(datetime.timezone(datetime.timedelta(hours=1), "named")),
)
PLAIN = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-(1 << 300), 1 << 300),
    st.floats(),
    st.sampled_from([math.nan, NO_NUMBER, MISSING, HOME, -(1 << 63), 1 << 63, -(1 << 64), (1 << 64) - 1]),
    st.builds(float, st.just("nan")),
    st.text(st.characters(exclude_categories=())),
    st.binary(max_size=40),
    st.decimals(),
    st.decimals(allow_nan=False).map(Money),
    st.uuids(),
    st.dates(),
    st.timedeltas(),
    st.datetimes(timezones=ZONES),
    st.datetimes().map(lambda at: Moment(at.year, at.month, at.day, fold=1)),
    st.builds(Missing),
)
PAIRS = st.tuples(st.integers(), st.text())
KEYS = st.one_of(st.text(max_size=5), st.integers(), st.uuids(), st.dates(), PAIRS)


@st.composite
def shrunk(draw: st.DrawFn) -> Any:
    """A set or dict that had more in it than it has."""
    keys = draw(st.lists(KEYS, max_size=60, unique_by=lambda key: (type(key), key)))
    made: Any = dict.fromkeys(keys, 0) if draw(st.booleans()) else {k for k in keys if type(k) in (str, int)}
    for key in draw(st.lists(st.sampled_from(keys), max_size=60)) if keys else ():
        made.pop(key, None) if isinstance(made, dict) else made.discard(key)
    if isinstance(made, set) and made and draw(st.booleans()):
        made.pop()
    return frozenset(made) if isinstance(made, set) and draw(st.booleans()) else made


def both(value: Any, hidden: Any) -> Both:
    made = Both(value)
    made.hidden = hidden  # type: ignore[attr-defined]
    return made


def grown(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        st.lists(inner, max_size=5),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(KEYS, inner, max_size=5),
        st.builds(Node, inner, st.lists(inner, max_size=3)),
        st.builds(Point, inner, inner),
        st.builds(both, inner, inner),
    )


VALUES = st.recursive(PLAIN | shrunk(), grown, max_leaves=25)


@st.composite
def states(draw: st.DrawFn) -> Any:
    """Values among which some are shared, and some contain themselves."""
    values = draw(st.lists(VALUES, min_size=1, max_size=6))
    for _ in range(draw(st.integers(0, 4))):
        holder, held = draw(st.sampled_from(values)), draw(st.sampled_from(values))
        if type(holder) is list:
            holder.append(held)
        elif type(holder) is dict:
            holder["more"] = held
        elif isinstance(holder, Node):
            holder.links.append(held)
    return values


class Seen:
    """How many of the states were small."""

    count = 0


@settings(max_examples=300, deadline=None)
@given(states())
def each_has_the_bytes_of_a_snapshot_process(state: Any) -> None:
    image = _native.dump_small_state(state, BYTES_MAX)
    if image is None:
        return
    Seen.count += 1
    assert image == _native.dump_state(state)
    assert _native.dump_small_state(_native.load_state(image), BYTES_MAX) == image


def test_random_states_have_the_bytes_of_a_snapshot_process() -> None:
    Seen.count = 0
    each_has_the_bytes_of_a_snapshot_process()
    assert Seen.count > 30
