"""Ends leases of workers that died with their engine, and looks in the store for ready work."""

import asyncio
import logging
from collections.abc import Iterable

from assay.core.model.errors import NotFound, Refused
from assay.core.model.ids import SECOND, Time, WorkerId
from assay.core.model.limits import STARTUP_GRACE
from assay.core.model.requests import ExtendActivity, ExtendTask, LoseTask, ReleaseActivity, Request
from assay.engine.clock import Clock
from assay.engine.commit.committer import Committer
from assay.engine.dispatch import Dispatcher
from assay.engine.ready_reader import ReadyReader
from assay.storage.ports import HeldLease, Store

log = logging.getLogger("assay.engine")
SHARED_READY_PAUSE: Time = SECOND
"""How often an engine looks for work of a shared store; hints of other engines come sooner."""


class Reaper:
    """Takes over leases at a start and after a pause, and finds ready work that no engine has in memory."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        committer: Committer,
        dispatcher: Dispatcher,
        reader: ReadyReader,
        task_lease: Time,
    ) -> None:
        self._store = store
        self._spared_task = min(STARTUP_GRACE, task_lease)
        self._clock = clock
        self._committer = committer
        self._dispatcher = dispatcher
        self._reader = reader
        self._began = False

    async def run_once(self) -> Time | None:
        """Void the leases of the predecessor's own workers (once), then read the work that is ready."""
        if not self._began:
            if not self._store.shared:
                await self._void()
            await self.spare()
            self._began = True
        await self._reader.find_work()
        return self._clock.now() + SHARED_READY_PAUSE if self._store.shared else None

    async def _void(self) -> None:
        """They died with the engine that is gone (R9); a lost attempt counts, a lost task is due at once."""
        leases = await self._store.local_leases()
        if leases:
            log.info("took over %d leases of workers that ended with the engine before this one", len(leases))
        await self._ask(_lost(lease) for lease in leases)

    async def spare(self) -> None:
        """Give workers over the network one full lease from now: they live on while this engine starts or stands still.

        Other engines of a shared store have heard of the workers that live. There only leases that are over and not
        yet ended are extended, and those of workers connected to this engine: otherwise engines that are restarted
        often would keep the work of dead workers for ever.
        """
        now = self._clock.now()
        spared = [
            (lease, self._spared_task if lease.seq < 0 else STARTUP_GRACE) for lease in await self._store.leases()
        ]
        held = [
            (lease, period)
            for lease, period in spared
            if lease.until is not None and lease.until <= now + (period if self._serves(lease) else 0)
        ]
        await self._ask(_extended(lease, period) for lease, period in held)

    def _serves(self, lease: HeldLease) -> bool:
        """Can only this engine have heard of the worker that holds a lease?"""
        return not self._store.shared or self._dispatcher.find_worker(WorkerId(lease.worker)) is not None

    async def _ask(self, requests: Iterable[Request]) -> None:
        asked = [self._committer.submit(request) for request in requests]
        for answer in await asyncio.gather(*asked, return_exceptions=True):
            # refused: somebody else was faster; all else leaves a lease that nobody would take back, or too soon
            if isinstance(answer, BaseException) and not isinstance(answer, Refused | NotFound):
                raise answer


def _extended(lease: HeldLease, period: Time) -> Request:
    if lease.seq < 0:
        return ExtendTask(lease.run_id, lease.worker, lease.fence, period)
    return ExtendActivity(lease.run_id, lease.seq, lease.fence, period)


def _lost(lease: HeldLease) -> Request:
    if lease.seq < 0:
        return LoseTask(lease.run_id, lease.fence)
    return ReleaseActivity(lease.run_id, lease.seq, lease.fence, lost=True)
