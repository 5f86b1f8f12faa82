"""New ids for decisions: random run ids, and numbers from blocks reserved in the store."""

import os
import random

from assay.core.model.ids import RunId
from assay.engine.clock import Clock
from assay.storage.ports import Store

ID_BLOCK_NUMBERS = 200_000
"""Numbers reserved at a time: enough that reservations are rare, far below the range of 63 bits."""


class BlockIds:
    """The engine's source of ids. Each number is the first of a pair: an activity and its first attempt."""

    def __init__(self, clock: Clock, chance: random.Random | None = None) -> None:
        self._clock = clock
        # Seeded from the system once: a system call per run would cost more than the rest of its id.
        self._chance = chance or random.Random(os.urandom(32))  # noqa: S311  # an id is no secret
        self._next = 0
        self._end = 0
        self._millisecond = 0
        self._random = 0

    def run_id(self) -> RunId:
        """Return an id that grows with time, so that new runs are adjacent in every index; 79 bits are random.

        Within a millisecond ids grow by one: runs created together are listed in the order of their creation.
        """
        millisecond = self._clock.now() // 1_000
        if millisecond == self._millisecond:
            self._random += 1
        else:
            self._millisecond, self._random = millisecond, self._chance.getrandbits(79)
        return RunId(f"{millisecond:012x}{self._random:020x}")

    def number(self) -> int:
        """Return the first number of the next pair."""
        number = self._next
        self._next += 2
        return number

    async def ensure(self, store: Store, count: int) -> None:
        """Reserve numbers for at least `count` pairs; decisions are synchronous and cannot reserve more."""
        wanted = 2 * count
        if self._end - self._next < wanted:
            size = max(ID_BLOCK_NUMBERS, wanted)
            self._next = await store.numbers(size)
            self._end = self._next + size
