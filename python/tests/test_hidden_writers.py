"""No method that writes in a way that is hard to see is shown to change nothing."""

from __future__ import annotations

from pathlib import Path

import hidden_writers
import pytest
from test_proven_reads import output_alone


@pytest.mark.parametrize("case", hidden_writers.CASES)
def test_a_method_that_writes_is_not_proven(case: str, tmp_path: Path) -> None:
    (tmp_path / "hidden.py").write_text(hidden_writers.STATE + hidden_writers.CASES[case])
    printed = output_alone(f"""if True:
        import contextlib, sys
        sys.path.insert(0, {str(tmp_path)!r})
        import hidden
        from quorate import _names, _native, _reads
        _names.register(hidden.Object)
        finding = _reads.find(hidden.Object(), "run")
        target = hidden.Object()
        if hasattr(target, "turn"):
            target.turn()
        before = _native.dump_state(target)
        with contextlib.suppress(ValueError, TypeError):
            target.run()
        print(before != _native.dump_state(target), finding.is_read)
    """)
    assert printed == "True False\n"
