"""Answers that many dashboards ask for at once: made once a second per query, and shared."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from assay.api.answers import HttpResponse

SHARED_SECONDS: Final = 1.0
SHARED_ANSWERS: Final = 500
"""Answers kept at most; each is dropped when it is older than `SHARED_SECONDS`."""


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
        if known is None or now - known[0] >= SHARED_SECONDS:
            if len(self._made) >= SHARED_ANSWERS:
                self._drop_old(now)
            known = self._made[key] = now, asyncio.ensure_future(_awaited(make()))
        # Shielded: a caller who leaves must not take the answer from the others.
        return await asyncio.shield(known[1])

    def _drop_old(self, now: float) -> None:
        self._made = {key: made for key, made in self._made.items() if now - made[0] < SHARED_SECONDS}
        if len(self._made) >= SHARED_ANSWERS:
            self._made.clear()


async def _awaited(answer: Awaitable[HttpResponse]) -> HttpResponse:
    return await answer
