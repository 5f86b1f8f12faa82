"""Answers that many dashboards ask for at once: made once a second per query, and shared."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

from assay.api.answers import HttpResponse

T = TypeVar("T")
SHARED_SECONDS: Final = 1.0
SHARED_ANSWERS: Final = 500
"""Answers kept at most; each is dropped when it is older than `SHARED_SECONDS`."""


class SharedValues:
    """Values that are costly to read, by name, each for its own time."""

    def __init__(self) -> None:
        self._read: dict[tuple[object, ...], tuple[float, asyncio.Task[Any]]] = {}

    async def get(self, key: tuple[object, ...], read: Callable[[], Awaitable[Any]], seconds: float) -> Any:
        """Return a value, from memory if it was read within this time."""
        now = asyncio.get_running_loop().time()
        known = self._read.get(key)
        if known is None or now >= known[0] or _failed(known[1]):
            if len(self._read) >= SHARED_ANSWERS:
                self._read = {name: value for name, value in self._read.items() if now < value[0]}
            known = self._read[key] = now + seconds, asyncio.ensure_future(_awaited(read()))
        return await asyncio.shield(known[1])


def _failed(task: "asyncio.Task[Any]") -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)


class SharedAnswers:
    """Answers by query, for one second. Callers who ask while an answer is made wait for the same answer."""

    def __init__(self) -> None:
        self._made: dict[tuple[object, ...], tuple[float, asyncio.Task[HttpResponse]]] = {}

    async def get(self, key: tuple[object, ...], make: Callable[[], Awaitable[HttpResponse]]) -> HttpResponse:
        """Return the answer to a query, from the last second or made now.

        Args:
            key: The query, with everything that the answer depends on: what the caller may read, too.
            make: Makes the answer.
        """
        now = asyncio.get_running_loop().time()
        known = self._made.get(key)
        if known is None or now - known[0] >= SHARED_SECONDS or _failed(known[1]):
            if len(self._made) >= SHARED_ANSWERS:
                self._drop_old(now)
            known = self._made[key] = now, asyncio.ensure_future(_awaited(make()))
        # Shielded: a caller who leaves must not take the answer from the others.
        return await asyncio.shield(known[1])

    def _drop_old(self, now: float) -> None:
        self._made = {key: made for key, made in self._made.items() if now - made[0] < SHARED_SECONDS}
        if len(self._made) >= SHARED_ANSWERS:
            self._made.clear()


async def _awaited(answer: Awaitable[T]) -> T:
    return await answer
