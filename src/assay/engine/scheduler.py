"""Schedules as their callers see them; also tells a schedule that a run of it is over, so that the next may start.

The times themselves are the timekeeper's: a schedule has one deadline like everything else that waits for a time.
"""

from collections.abc import Sequence
from typing import Final

from assay.core.errors import Invalid, NotFound
from assay.core.events import next_run_of
from assay.core.ids import Namespace, Time
from assay.core.schedule import Fire, Schedule
from assay.core.schedule_requests import ElapseSchedule, ScheduledRunClosed
from assay.engine.clock import Clock
from assay.engine.commit.committer import Committed, Committer
from assay.storage.store import Store

PREVIEW: Final = 10
LARGEST_PREVIEW: Final = 1_000
FIRES_PAGE: Final = 50
LARGEST_FIRES: Final = 1_000


class Scheduler:
    """Reads schedules, and keeps those going that wait for a run to close."""

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

    async def find(self, namespace: str, name: str) -> Schedule:
        """A schedule by its name."""
        found = await self._store.load_schedules([(Namespace(namespace), name)])
        if not found:
            raise NotFound(f"schedule {name}")
        return found[0]

    async def list(self, namespace: str) -> Sequence[Schedule]:
        """The schedules of a namespace, by name."""
        return await self._store.list_schedules(namespace)

    async def preview(self, namespace: str, name: str, count: int | None) -> Sequence[Time]:
        """The next due times; of a paused schedule those it would have if it were resumed."""
        wanted = _within(count, PREVIEW, LARGEST_PREVIEW, "count")
        schedule = await self.find(namespace, name)
        left = wanted if schedule.remaining is None else min(wanted, schedule.remaining)
        due: Time | None = max(self._clock.wall(), (schedule.next_run_at or 1) - 1)
        found: list[Time] = []
        while len(found) < left and due is not None and (due := schedule.after(due)) is not None:
            found.append(due)
        return found

    async def fires(self, namespace: str, name: str, limit: int | None) -> Sequence[Fire]:
        """What became of the latest due times, newest first."""
        wanted = _within(limit, FIRES_PAGE, LARGEST_FIRES, "limit")
        await self.find(namespace, name)
        return await self._store.fires(namespace, name, wanted)

    async def count_fires(self, namespace: str, name: str) -> int:
        """Of how many due times it is known what became of them."""
        return await self._store.count_fires(namespace, name)


def _within(asked: int | None, default: int, largest: int, name: str) -> int:
    if asked is None:
        return default
    if not 1 <= asked <= largest:
        raise Invalid(f"{name} must be from 1 to {largest}", field=name)
    return asked
