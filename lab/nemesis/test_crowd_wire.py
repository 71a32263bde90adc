"""What crowds say and count is what the wire has: the samples of `core/wire/golden` decide."""

from __future__ import annotations

from pathlib import Path

import pytest

from checker import ROOT
from crowd_wire import HEAD_BYTES, answers, opens

GOLDEN = Path(ROOT) / "core" / "wire" / "golden"


def golden(name: str) -> bytes:
    """The bytes of a sample."""
    return bytes.fromhex((GOLDEN / f"{name}.hex").read_text())


def test_an_open_is_whole() -> None:
    """The sample names a shorter time, which takes eight bytes more; a crowd asks for the usual terms."""
    sample, body = golden("request_open"), opens(1)[HEAD_BYTES:]
    assert sample[0] == body[0]
    assert (sample[25], body[25]) == (1, 0)
    assert len(sample) == len(body) + 8


@pytest.mark.parametrize(
    ("sample", "name"),
    [
        ("answer_opened", "opened"),
        ("answer_refused_open", "refused"),
        ("answer_refused_call", "refused"),
        ("answer_refused_request", "refused"),
        ("answer_refused_session", "refused"),
        ("answer_kept_alive", "kept alive"),
        ("answer_full", "full"),
        ("answer_leader", "leader"),
        ("answer_no_leader", "leader"),
        ("answer_returned", "replied"),
        ("answer_raised", "replied"),
        ("answer_skipped", "replied"),
    ],
)
def test_answers_are_told_apart_and_each_has_its_length(sample: str, name: str) -> None:
    """Two in a row are two."""
    assert list(answers(golden(sample) * 2)) == [name, name]


def test_an_answer_that_no_crowd_asks_for_is_refused() -> None:
    """It would be counted wrong."""
    with pytest.raises(ValueError, match="tag 3"):
        list(answers(golden("answer_read")))
