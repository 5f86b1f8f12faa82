"""Fresh ids for decisions: random run ids, and numbers from blocks that the store hands out."""

import uuid

from assay.core.ids import RunId
from assay.storage.store import Store

BLOCK = 200_000
"""Numbers reserved at a time: rarely enough to cost nothing, and far below what 63 bits hold."""


class BlockIds:
    """The engine's source of ids. Each number is the first of a pair: an activity and its first attempt (R35)."""

    def __init__(self) -> None:
        self._next = 0
        self._end = 0

    def run_id(self) -> RunId:
        """A random id."""
        return RunId(uuid.uuid4().hex)

    def number(self) -> int:
        """The next pair's first number."""
        number = self._next
        self._next += 2
        return number

    async def ensure(self, store: Store, count: int) -> None:
        """Make sure that `count` pairs are at hand before decisions begin, because they cannot wait."""
        wanted = 2 * count
        if self._end - self._next < wanted:
            size = max(BLOCK, wanted)
            self._next = await store.numbers(size)
            self._end = self._next + size
