"""The deadline service: timers, time-outs, leases, back-offs and delayed starts, each on time and never early (I10).

The service sleeps until the next deadline, without a tick. `core` decides the effect of a deadline; one that is no
longer due has no effect, so deadlines may be stored too early but never too late.
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
"""Pause after deadlines have fired: many timers in short sequence share a commit."""
SHARED_DUE_PAUSE: Time = SECOND
"""Longest sleep on a shared store: other engines set deadlines without notice."""

NOT_FIRED = frozenset({Kind.UNAVAILABLE, Kind.INTERNAL, Kind.INVALID})
"""Kinds of refusals that leave a deadline in the store; any other refusal means that it is no longer due."""


class Timekeeper:
    """The service that submits a request for each deadline that is due."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        committer: Committer,
        presence: Presence,
        extend_leases: Callable[[], Awaitable[None]],
    ) -> None:
        self._store = store
        self._clock = clock
        self._committer = committer
        self._presence = presence
        self._extend_leases = extend_leases
        self._next: Time | None = None
        self._next_schedule: Time | None = None
        """In wall time, as all times of schedules."""

    def note_deadlines(self, committed: Committed) -> bool:
        """Note the deadlines of a commit; return True if one comes before the deadline that the service sleeps for."""
        due, scheduled = committed.next_due, committed.next_schedule
        found = False
        if due is not None and (self._next is None or due < self._next):
            self._next, found = due, True
        if scheduled is not None and (self._next_schedule is None or scheduled < self._next_schedule):
            self._next_schedule, found = scheduled, True
        return found

    def is_due(self) -> bool:
        """Return whether the next deadline is due.

        Called every second beside the sleep of the loop: the loop's clock stops with the machine, while the wall clock
        steps and engine time is slewed.
        """
        due, scheduled = self._next, self._next_schedule
        return (due is not None and due <= self._clock.now()) or (
            scheduled is not None and scheduled <= self._clock.wall()
        )

    async def run_once(self) -> Time | None:
        """Fire all due deadlines; return the time of the next."""
        fired = False
        while True:
            # Before each read: a lease that ran out while this engine was suspended must be extended, not ended.
            await self._presence.extend_after_suspension(self._extend_leases)
            page = await self._store.due(self._clock.now(), self._clock.wall(), DUE_PAGE_RUNS)
            fired = fired or bool(page)
            if page and not await self._fire(page):
                return self._clock.now() + DUE_RETRY_PAUSE
            if len(page) < DUE_PAGE_RUNS:
                break
        self._next = self._next_schedule = None  # so that a deadline committed during the read wakes this service
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
        """Submit a page of deadlines; return False if some stay due, so that the caller pauses before it retries."""
        submitted = [self._committer.submit(_request(due)) for due in page]
        replies = await asyncio.gather(*submitted, return_exceptions=True)
        for reply in replies:
            if isinstance(reply, BaseException) and not isinstance(reply, AssayError):
                raise reply
        return not any(isinstance(reply, AssayError) and reply.kind in NOT_FIRED for reply in replies)


def _request(due: Deadline) -> Request:
    """Return the request that a deadline stands for."""
    if due.kind == "schedule":
        return ElapseSchedule(*named_by(due.run_id))
    return Elapse(due.run_id, due.kind, due.ref)
