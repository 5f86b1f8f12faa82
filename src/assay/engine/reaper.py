"""Ends leases of workers that died with their engine, and has ready work read from the store."""

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
"""Longest time between two reads of ready work from a shared store; hints of other engines come sooner."""


class Reaper:
    """The service that takes over leases after a start or suspension, and finds ready work in the store."""

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
        self._task_grace = min(STARTUP_GRACE, task_lease)
        self._clock = clock
        self._committer = committer
        self._dispatcher = dispatcher
        self._reader = reader
        self._began = False

    async def run_once(self) -> Time | None:
        """Take over the predecessor's leases (once), then read ready work."""
        if not self._began:
            if not self._store.shared:
                await self._void()
            await self.extend_leases()
            self._began = True
        await self._reader.find_work()
        return self._clock.now() + SHARED_READY_PAUSE if self._store.shared else None

    async def _void(self) -> None:
        """End the leases of workers in the predecessor's process, which died with it.

        A lost attempt counts, because its function may have run; a lost workflow task is due at once.
        """
        leases = await self._store.local_leases()
        if leases:
            log.info("took over %d leases of workers that ended with the previous engine", len(leases))
        await self._submit_all(_lost(lease) for lease in leases)

    async def extend_leases(self) -> None:
        """Extend the leases of workers over the network to a full lease from now.

        These workers ran on while this engine was starting or suspended, and could not extend their leases. On a
        shared store they may have reached another engine, so only expired leases, and leases of workers connected to
        this engine, are extended: otherwise engines that restart often would keep the work of dead workers for ever.
        """
        now = self._clock.now()
        leases = [(lease, self._task_grace if lease.seq < 0 else STARTUP_GRACE) for lease in await self._store.leases()]
        short = [
            (lease, period)
            for lease, period in leases
            if lease.until is not None and lease.until <= now + (period if self._serves(lease) else 0)
        ]
        await self._submit_all(_extended(lease, period) for lease, period in short)

    def _serves(self, lease: HeldLease) -> bool:
        """Return whether the worker of a lease can only report to this engine."""
        return not self._store.shared or self._dispatcher.find_worker(WorkerId(lease.worker)) is not None

    async def _submit_all(self, requests: Iterable[Request]) -> None:
        submitted = [self._committer.submit(request) for request in requests]
        for reply in await asyncio.gather(*submitted, return_exceptions=True):
            # A refusal is fine: the lease changed meanwhile. After any other error the start is tried again:
            # an unextended lease would end too soon, an unvoided one never.
            if isinstance(reply, BaseException) and not isinstance(reply, Refused | NotFound):
                raise reply


def _extended(lease: HeldLease, period: Time) -> Request:
    if lease.seq < 0:
        return ExtendTask(lease.run_id, lease.worker, lease.fence, period)
    return ExtendActivity(lease.run_id, lease.seq, lease.fence, period)


def _lost(lease: HeldLease) -> Request:
    if lease.seq < 0:
        return LoseTask(lease.run_id, lease.fence)
    return ReleaseActivity(lease.run_id, lease.seq, lease.fence, lost=True)
