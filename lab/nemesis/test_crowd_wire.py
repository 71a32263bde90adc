"""What crowds say and count is what the wire has: the samples of `core/wire/golden` decide."""

from __future__ import annotations

from pathlib import Path

import pytest

from checker import ROOT
from crowd_wire import HEAD_BYTES, answers, fills, opened, opens

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


def test_the_session_is_found_behind_other_answers() -> None:
    """The sample's session is its bytes 17 to 24."""
    sample = golden("answer_opened")
    assert opened(golden("answer_leader") + sample) == int.from_bytes(sample[17:25], "little")
    assert opened(golden("answer_leader")) is None


def test_calls_are_laid_out_as_the_sample_is() -> None:
    """Tag, session, sequence, acknowledged, object, and a payload with its length in front."""
    sample, body = golden("request_call"), fills(3, 1, 1 << 20)[HEAD_BYTES:]
    assert (body[0], body[1], body[9], body[17], body[25]) == (sample[0], 3, 1, 0, 0)
    assert len(body) == 33 + int.from_bytes(body[29:33], "little")
    assert (body[33], body[39], body[-1]) == (sample[33], sample[42], sample[-1])
