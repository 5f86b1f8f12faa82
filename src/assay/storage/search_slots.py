"""Slots for callers' searches: a few run at a time, some wait for a limited time, further searches are refused."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from assay.storage.ports import TooManyReads

SEARCH_WAIT_SECONDS: Final = 5.0
"""The longest wait for a slot: the sum of wait and search stays below the usual time-outs of clients."""
MAX_WAITING_SEARCHES: Final = 100


class SearchSlots:
    """A slot for each connection that a store has for searches."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._free = asyncio.Semaphore(count)
        self._waiting = 0

    @asynccontextmanager
    async def all_reserved(self) -> AsyncIterator[None]:
        """Hold all slots during the block, once the running searches have ended; later searches wait."""
        taken = 0
        try:
            for _ in range(self._count):
                await self._free.acquire()
                taken += 1
            yield
        finally:
            for _ in range(taken):
                self._free.release()

    @asynccontextmanager
    async def reserved(self, *, patient: bool = False) -> AsyncIterator[None]:
        """Hold a slot during the block; raise `TooManyReads` if no slot becomes free in time, unless `patient`."""
        if not patient and self._waiting >= MAX_WAITING_SEARCHES:
            raise TooManyReads(f"{self._waiting} searches wait already: try again later")
        self._waiting += 1
        try:
            async with asyncio.timeout(None if patient else SEARCH_WAIT_SECONDS):
                await self._free.acquire()
        except TimeoutError:
            text = f"no search could begin within {SEARCH_WAIT_SECONDS:g} s: too many run already"
            raise TooManyReads(text) from None
        finally:
            self._waiting -= 1
        try:
            yield
        finally:
            self._free.release()
