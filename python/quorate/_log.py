"""The logger `quorate`: connections that are made and lost, and calls that are sent again.

It says nothing until the program that uses quorate sets logging up.
"""

from __future__ import annotations

import logging

logger = logging.getLogger("quorate")
logger.addHandler(logging.NullHandler())
