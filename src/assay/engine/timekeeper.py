"""The one deadline service: timers, time-outs, leases, back-offs and delayed starts, each at its time and never early.

It wakes exactly when the next deadline is due (I10), so there is no tick to wait for. What a deadline means is
decided by `core`; one that is no longer due does nothing.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from assay.core.model.errors import AssayError, Kind
from assay.core.model.ids import SECOND, Time
from assay.core.model.requests import Elapse, Request
from assay.core.schedules.model import named_by
from assay.core.schedules.requests import ElapseSchedule
from assay.engine.clock import Clock
from assay.engine.commit.committer import Committed, Committer
from assay.engine.presence import Presence
from assay.storage.ports import Deadline, Store

DUE_PAGE_RUNS = 1_000
DUE_RETRY_PAUSE: Time = SECOND // 10
DUE_PAUSE: Time = SECOND // 500
"""Between two looks at what is due: many timers that come one after the other go into few commits."""
SHARED_DUE_PAUSE: Time = SECOND
"""How long to trust one's own knowledge of the next deadline where other engines set deadlines too."""

NOT_TAKEN = frozenset({Kind.UNAVAILABLE, Kind.INTERNAL, Kind.INVALID})


class Timekeeper:
    """Turns deadlines that have come into requests."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        committer: Committer,
        presence: Presence,
        spare: Callable[[], Awaitable[None]],
    ) -> None:
        self._store = store
        self._clock = clock
        self._committer = committer
        self._presence = presence
        self._spare = spare
        self._next: Time | None = None
        self._next_schedule: Time | None = None
        """By the wall clock, as all times of schedules."""

    def sooner(self, committed: Committed) -> bool:
        """Did a commit set a deadline that comes before the one this service sleeps for?"""
        due, scheduled = committed.next_due, committed.next_schedule
        found = False
        if due is not None and (self._next is None or due < self._next):
            self._next, found = due, True
        if scheduled is not None and (self._next_schedule is None or scheduled < self._next_schedule):
            self._next_schedule, found = scheduled, True
        return found

    def is_due(self) -> bool:
        """Has the next deadline come?

        The loop sleeps by a clock that stops with the machine, while the wall clock steps and engine time is slewed.
        """
        due, scheduled = self._next, self._next_schedule
        return (due is not None and due <= self._clock.now()) or (
            scheduled is not None and scheduled <= self._clock.wall()
        )

    async def run_once(self) -> Time | None:
        """Fire everything that is due now."""
        fired = False
        while True:
            # Before each look: a lease that ran out while this engine stood still must not be among what is due.
            await self._presence.make_up(self._spare)
            page = await self._store.due(self._clock.now(), self._clock.wall(), DUE_PAGE_RUNS)
            fired = fired or bool(page)
            if page and not await self._fire(page):
                return self._clock.now() + DUE_RETRY_PAUSE
            if len(page) < DUE_PAGE_RUNS:
                break
        self._next = self._next_schedule = None  # whatever is committed while the store is asked must wake us
        self._next, self._next_schedule = await self._store.next_due()
        return self._again(DUE_PAUSE if fired else 0)

    def _again(self, pause: Time) -> Time | None:
        now, due = self._clock.now(), self._next
        if self._next_schedule is not None:
            scheduled = now + self._next_schedule - self._clock.wall()
            due = scheduled if due is None else min(due, scheduled)
        if self._store.shared:
            due = now + SHARED_DUE_PAUSE if due is None else min(due, now + SHARED_DUE_PAUSE)
        return None if due is None else max(due, now + pause)

    async def _fire(self, page: Sequence[Deadline]) -> bool:
        """False if not all of it was taken: then it is as due as before, and to ask again at once would not help."""
        asked = [self._committer.submit(_request(due)) for due in page]
        answers = await asyncio.gather(*asked, return_exceptions=True)
        for answer in answers:
            if isinstance(answer, BaseException) and not isinstance(answer, AssayError):
                raise answer
        return not any(isinstance(answer, AssayError) and answer.kind in NOT_TAKEN for answer in answers)


def _request(due: Deadline) -> Request:
    """What to ask for when a deadline has come."""
    if due.kind == "schedule":
        return ElapseSchedule(*named_by(due.run_id))
    return Elapse(due.run_id, due.kind, due.ref)
