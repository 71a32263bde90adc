"""Methods that are `async def`: run to their end like others, for they are alone while they run.

What waits for something outside the object has no end that all replicas would see alike.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Coroutine, Iterator
from typing import Any

from quorate._errors import WaitsOutside

TURNS_MAX = 10_000
"""Times that a method may let others run, as with `asyncio.sleep(0)`."""


def finish(unfinished: Any, shown: str) -> Any:
    """The result of a coroutine; of an asynchronous generator an iterator over what it gives."""
    if isinstance(unfinished, AsyncGenerator):
        return _drawn(unfinished, shown)
    return _run(unfinished, shown)


def _drawn(generator: AsyncGenerator[Any, None], shown: str) -> Iterator[Any]:
    while True:
        try:
            item = _run(generator.__anext__(), shown)
        except StopAsyncIteration:
            return
        yield item


def _run(coroutine: Coroutine[Any, Any, Any] | Any, shown: str) -> Any:
    asyncio._set_running_loop(_NoLoop(shown))  # type: ignore[arg-type]
    try:
        for _ in range(TURNS_MAX):
            try:
                waits_for = coroutine.send(None)
            except StopIteration as end:
                return end.value
            if waits_for is not None:
                break
        try:
            coroutine.close()
        finally:
            raise WaitsOutside(_reason(shown, "something outside its object"))
    finally:
        asyncio._set_running_loop(None)


def _reason(shown: str, what: str) -> str:
    return (
        f"`{shown}` is async and waits for {what}; it was executed up to there. Methods of objects are "
        "executed one by one, at once: pass what it waits for as an argument"
    )


class _NoLoop:
    """In the place of the event loop: says what was wanted of it."""

    def __init__(self, shown: str) -> None:
        self._shown = shown

    def __getattr__(self, name: str) -> Any:
        raise WaitsOutside(_reason(self._shown, f"an event loop (`{name}`)"))
