"""The semaphore of figure 3 in the OpenReplica paper, with its lines in their order.

The paper's proxy adds the parameter `_concoord_cmd`, and raises `BlockingReturn` and `UnblockingReturn`. Here
`quorate.caller()` names the call, `return quorate.park()` blocks it, and `wake` unblocks another one.
"""

from __future__ import annotations

from threading import Lock
from typing import Any

import quorate


class Semaphore:
    def __init__(self, count: int = 1) -> None:
        self.count = int(count)
        self.queue: list[quorate.Caller] = []
        self.atomic = Lock()

    def acquire(self) -> Any:
        with self.atomic:
            self.count -= 1
            if self.count < 0:
                self.queue.append(quorate.caller())
                return quorate.park()
            else:
                return True

    def release(self) -> None:
        with self.atomic:
            self.count += 1
            if len(self.queue) > 0:
                unblockcmd = self.queue.pop(0)
                unblockcmd.wake(True)
