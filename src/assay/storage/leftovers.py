"""The port to what may be forgotten: answers to old requests, due times at which nothing was started, old notes.

Histories are never among it. Whoever is interrupted has forgotten some of it, and finds the rest the next time.
"""

from typing import Protocol

from assay.core.ids import Time


class Leftovers(Protocol):
    """What the engine keeps only for a while."""

    async def forget_outcomes(self, before: Time, limit: int) -> int:
        """Forget answers given before a time, oldest first; how many.

        An answer stays while a run of its namespace is open that is as old as itself: it may be about that run, and is
        kept for the life of it (4.4).
        """
        ...

    async def forget_fires(self, before: Time, limit: int) -> int:
        """Forget records from before a time of due times that started no run; how many.

        One that did start a run is kept like the run: a backfill must not start it again (I11).
        """
        ...

    async def forget_notes(self, before: Time, limit: int) -> int:
        """Forget notes of the journal from before a time, which nobody is told any more; how many."""
        ...
