"""Continues schedules after their last run has closed, so that a waiting run may start.

Due times are the timekeeper's: a schedule has a deadline row like a timer.
"""

from assay.core.model.events import next_run_of
from assay.core.schedules.requests import ElapseSchedule, ScheduledRunClosed
from assay.engine.clock import Clock
from assay.engine.commit.committer import Committed, Committer
from assay.storage.ports import Store


class Scheduler:
    """Posts requests to schedules after a run has closed, and after the wall clock was set back."""

    def __init__(self, store: Store, clock: Clock, committer: Committer) -> None:
        self._store = store
        self._clock = clock
        self._committer = committer

    def continue_after(self, committed: Committed) -> None:
        """Post to the schedules of runs that a commit has closed, unless the chain continues with another run."""
        over = {
            (run.namespace, run.start.schedule)
            for run, closing in committed.ended
            if run.start.schedule is not None and next_run_of(closing) is None
        }
        for namespace, name in over:
            self._committer.post(ScheduledRunClosed(namespace, name))

    async def take_over(self) -> None:
        """Post to all schedules with waiting fires: the predecessor may have died before it posted to them."""
        for schedule in await self._store.list_schedules(None, waiting=True):
            self._committer.post(ScheduledRunClosed(schedule.namespace, schedule.name))
        await self.look_back()

    async def look_back(self) -> None:
        """Post to schedules with skipped due times in the future: the wall clock was set back."""
        wall = self._clock.wall()
        for schedule in await self._store.list_schedules(None):
            if any(last > wall for _, last in schedule.given_up):
                self._committer.post(ElapseSchedule(schedule.namespace, schedule.name))
