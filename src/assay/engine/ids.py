"""Fresh ids for decisions: random run ids, and numbers from blocks that the store hands out."""

import os
import random

from assay.core.model.ids import RunId
from assay.engine.clock import Clock
from assay.storage.ports import Store

BLOCK = 200_000
"""Numbers reserved at a time: rarely enough to cost nothing, and far below what 63 bits hold."""


class BlockIds:
    """The engine's source of ids. Each number is the first of a pair: an activity and its first attempt (R35)."""

    def __init__(self, clock: Clock, chance: random.Random | None = None) -> None:
        self._clock = clock
        # seeded from the system, once: a system call for each run would cost more than all else about its id
        self._chance = chance or random.Random(os.urandom(32))  # noqa: S311  # an id is no secret
        self._next = 0
        self._end = 0
        self._millisecond = 0
        self._random = 0

    def run_id(self) -> RunId:
        """An id that grows with time, so that new runs lie side by side in every index; 79 bits of it are random.

        Within a millisecond it grows by one: runs made together are listed in the order in which they were made.
        """
        millisecond = self._clock.now() // 1_000
        if millisecond == self._millisecond:
            self._random += 1
        else:
            self._millisecond, self._random = millisecond, self._chance.getrandbits(79)
        return RunId(f"{millisecond:012x}{self._random:020x}")

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
