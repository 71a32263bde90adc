"""`python -m quorate`: the program `quorate`, with this interpreter for its objects."""

from __future__ import annotations

import os
import sys

from quorate._errors import QuorateError
from quorate._local import program


def main() -> None:
    """Become the program."""
    try:
        path = program()
    except QuorateError as error:
        sys.exit(f"quorate: {error}")
    environment = {**os.environ, "QUORATE_PYTHON": os.environ.get("QUORATE_PYTHON", sys.executable)}
    os.execve(path, [path, *sys.argv[1:]], environment)


if __name__ == "__main__":
    main()
