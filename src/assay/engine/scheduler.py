"""Continues schedules whose last run has closed, so that the next may start.

The times themselves are the timekeeper's: a schedule has one deadline like everything else that waits for a time.
"""

from assay.core.model.events import next_run_of
from assay.core.schedules.requests import ElapseSchedule, ScheduledRunClosed
from assay.engine.clock import Clock
from assay.engine.commit.committer import Committed, Committer
from assay.storage.ports import Store


class Scheduler:
    """Posts requests to schedules that wait for a run to close, or whose due times the wall clock has passed again."""

    def __init__(self, store: Store, clock: Clock, committer: Committer) -> None:
        self._store = store
        self._clock = clock
        self._committer = committer

    def notice(self, committed: Committed) -> None:
        """Tell the schedules of runs that came to their end; one that was continued has not."""
        over = {
            (run.namespace, run.start.schedule)
            for run, closing in committed.ended
            if run.start.schedule is not None and next_run_of(closing) is None
        }
        for namespace, name in over:
            self._committer.post(ScheduledRunClosed(namespace, name))

    async def take_over(self) -> None:
        """Look at schedules with waiting fires: the predecessor may have died before it told them."""
        for schedule in await self._store.list_schedules(None, waiting=True):
            self._committer.post(ScheduledRunClosed(schedule.namespace, schedule.name))

        await self.look_back()

    async def look_back(self) -> None:
        """Look at schedules with missed due times that lie ahead: the wall clock was set back."""
        wall = self._clock.wall()
        for schedule in await self._store.list_schedules(None):
            if any(last > wall for _, last in schedule.given_up):
                self._committer.post(ElapseSchedule(schedule.namespace, schedule.name))
