"""Questions about runs: what is there now, page by page; nothing here changes anything."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence

from msgspec.structs import replace

from assay.core.errors import NotFound
from assay.core.events import ActivityScheduled, Event, Recorded, next_run_of
from assay.core.ids import RunId
from assay.core.run import Run
from assay.storage.store import ActivityRecord, RunFilter, RunRecord, Snapshot, Store

READ_PAGE_ROWS = 500

__all__ = ["ActivityRecord", "Reads", "RunFilter", "RunRecord", "Snapshot"]


class Reads:
    """What callers may want to know."""

    def __init__(self, store: Store, explained: Callable[[RunRecord], RunRecord] = lambda record: record) -> None:
        self._store = store
        self._explained = explained

    async def run(self, namespace: str, workflow_id: str, run_id: str | None = None) -> RunRecord:
        """A run: the newest of its id, or the one that is named."""
        found = await self._store.describe(namespace, workflow_id, run_id)
        if found is None:
            raise NotFound(f"workflow {workflow_id}")
        return self._explained(found)

    async def closing(self, run: Run) -> Event | None:
        """The event that closed a run."""
        if not run.closed:
            return None
        page = await self._store.events(run.run_id, run.last_seq - 1, limit=1)
        return page[0].event if page else None

    async def last(self, run: Run, *, follow: bool = True) -> tuple[Run, Event | None]:
        """The run that a chain has come to by now, and how that one ended if it has."""
        while True:
            event = await self.closing(run)
            following = None if event is None or not follow else next_run_of(event)
            if following is None:
                return run, event
            run = (await self.run(run.namespace, run.workflow_id, following)).run

    async def page(self, wanted: RunFilter) -> tuple[Sequence[RunRecord], int, bool]:
        """The runs of one page, how many there are in all, and whether more follow."""
        found, total = await asyncio.gather(
            self._store.list_runs(replace(wanted, limit=wanted.limit + 1)), self._store.count_runs(wanted)
        )
        return [*map(self._explained, found[: wanted.limit])], total, len(found) > wanted.limit

    async def all(self, wanted: RunFilter) -> list[RunRecord]:
        """All runs that a filter matches, newest first."""
        found: list[RunRecord] = []
        while True:
            page = await self._store.list_runs(replace(wanted, limit=READ_PAGE_ROWS))
            found.extend(map(self._explained, page))
            if len(page) < READ_PAGE_ROWS:
                return found
            last = page[-1].run
            wanted = replace(wanted, cursor=(last.created_at, last.run_id))

    async def history(self, run: Run) -> AsyncIterator[Sequence[Recorded]]:
        """A whole history, page by page; what is recorded meanwhile is not part of it."""
        seen = 0
        while seen < run.last_seq:
            page = await self._store.events(run.run_id, seen, min(READ_PAGE_ROWS, run.last_seq - seen))
            if not page:
                return
            yield page
            seen = page[-1].seq

    async def events(self, run: Run, cursor: int | None, limit: int, *, newest_first: bool) -> Sequence[Recorded]:
        """A page of a history. Seqs are dense, so a page that goes backwards is a page that begins further ahead."""
        if not newest_first:
            return await self._store.events(run.run_id, cursor or 0, limit)
        end = run.last_seq if cursor is None else min(cursor - 1, run.last_seq)
        begin = max(0, end - limit)
        page = await self._store.events(run.run_id, begin, end - begin) if end > begin else ()
        return page[::-1]

    async def snapshot(self, run_id: RunId) -> Snapshot | None:
        """What a run's queries answer."""
        return await self._store.snapshot(run_id)

    async def activity_of(self, run_id: RunId, seq: int) -> ActivityRecord | None:
        """An activity of a run by its seq."""
        after = 0
        while page := await self._store.events(run_id, after, kind="ActivityScheduled"):
            for recorded in page:
                if isinstance(recorded.event, ActivityScheduled) and recorded.event.activity_seq == seq:
                    return await self._store.activity(recorded.event.activity_id)
            after = page[-1].seq
        return None

    async def activity(self, number: int) -> ActivityRecord | None:
        """An activity by its own id or by that of one of its attempts (R35)."""
        return await self._store.activity(number) if 0 <= number < 2**63 else None
