"""The worker of our engines: accepts workflow tasks and activities of one queue, up to its free slots."""

import asyncio
import functools
import logging
import os
import time

from assay.core.model.errors import AssayError
from assay.core.model.grants import ActivityGrant, TaskGrant
from assay.core.model.ids import SECOND, Namespace, RunId, WorkerId
from assay.core.model.slots import Slots
from assay.sdk.app import App
from assay.sdk.client.transport import Transport
from assay.sdk.garbage_collection import collect_less_often
from assay.sdk.ports import WorkerOptions
from assay.sdk.worker.activity_tasks import ActivityTasks
from assay.sdk.worker.processes import Processes
from assay.sdk.worker.reports import Reports
from assay.sdk.worker.threads import DaemonThreads
from assay.sdk.worker.watchdog import WATCHDOG, lease_seconds
from assay.sdk.worker.workflow_tasks import WorkflowTasks

log = logging.getLogger("assay.worker")
ABANDONED_LOG_PAUSE_SECONDS = 60.0
RELEASE_REPLY_SECONDS = 1.0
"""Seconds for which a stopping worker waits for the replies to its releases."""


class EngineWorker:
    """The worker of our engines: a `ConnectedWorker` that runs an app's handlers until stopped."""

    def __init__(self, transport: Transport, app: App, options: WorkerOptions) -> None:
        self._transport = transport
        self.app = app
        self.worker = WorkerId(options.worker_id)
        self.identity = options.identity
        self.namespace = Namespace(options.namespace)
        self.queue = options.queue
        self.slots = Slots(options.max_concurrent_workflows, options.max_concurrent_activities)
        self.lease = self._transport.lease
        self.local = self._transport.lease is None
        self._threads = DaemonThreads(options.max_concurrent_activities + 8)
        self._reports = Reports(self._transport)
        self._workflow_tasks = WorkflowTasks(
            self._transport,
            self.app,
            options.converter,
            self.worker,
            self._threads,
            self._reports,
            cache_limit=options.max_cached_runs,
            freed=self._task_freed,
            errors=options.errors,
            strict=options.strict,
        )
        self._processes = Processes(self.slots, options.max_processes or os.cpu_count() or 1, self._process_offered)
        self._activity_tasks = ActivityTasks(
            self._transport,
            self.app,
            options.converter,
            self._workflow_tasks,
            self._threads,
            self._reports,
            self._processes,
            freed=self._activity_freed,
            abandoned=self._thread_abandoned,
            per_second=options.max_activities_per_second,
        )
        self._options = options
        self._most_abandoned = options.max_concurrent_activities
        self._abandoned_log_at = 0.0
        self._drain_seconds = options.drain_seconds
        self._stopping = options.stopping
        self._inbox: list[TaskGrant | ActivityGrant] = []
        self._outdated: set[RunId] = set()
        """Runs in the inbox with newer events than their grant has."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._refusal: AssayError | None = None

    @property
    def workflows(self) -> frozenset[str]:
        """Return the workflow types that the worker serves."""
        return frozenset(self.app.workflows)

    @property
    def activities(self) -> frozenset[str]:
        """Return the activities that the worker serves at present; withheld ones are left out."""
        served, withheld = frozenset(self.app.activities), self.slots.withheld
        return served - withheld if withheld else served

    async def run(self) -> None:
        """Serve until `stop` is called; then finish begun work and release the rest.

        Raises:
            AssayError: The engine refused the first connection of the worker.
        """
        collect_less_often()
        self._loop = asyncio.get_running_loop()
        self._activity_tasks.loop = self._loop
        self._processes.start(self.app.activities.values())
        self._transport.add_worker(self, self._refused)
        WATCHDOG.watch(self)
        try:
            await self._extend_until_stopped()
        finally:
            self._transport.remove_worker(self)
            try:
                await self._drain()
            finally:
                WATCHDOG.unwatch(self)
                self._processes.kill()
        if self._refusal is not None:
            raise self._refusal

    def _refused(self, error: AssayError) -> None:
        """End a worker that the engine has refused from the beginning: nobody else would notice."""
        self._refusal = error
        self.stop()

    def stop(self) -> None:
        """Accept no more work; `run` returns when begun work is finished."""
        self._stopping.set()

    async def _extend_until_stopped(self) -> None:
        pause = None if self.lease is None else self.lease / SECOND / 3
        while not self._stopping.is_set():
            try:
                await asyncio.wait_for(self._stopping.wait(), pause)
            except TimeoutError:
                self._workflow_tasks.extend()
                self._activity_tasks.extend()

    async def _drain(self) -> None:
        loop = asyncio.get_running_loop()
        end = loop.time() + self._drain_seconds
        self._workflow_tasks.extend()  # work that finishes during the drain must keep its lease
        self._activity_tasks.extend()
        # Polled: many small conditions end a drain, and no single event signals them.
        while self._busy and loop.time() < end:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        self._activity_tasks.release()
        self._workflow_tasks.release()
        await asyncio.sleep(0)
        end = loop.time() + RELEASE_REPLY_SECONDS
        while (self._reports.unanswered or self._processes.alive) and loop.time() < end:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        self._reports.close()
        self._threads.close()

    @property
    def _busy(self) -> bool:
        return self._workflow_tasks.busy or self._activity_tasks.busy or self._reports.unanswered > 0

    # for the watchdog

    @property
    def lease_seconds(self) -> float:
        """Return the seconds of silence after which the engine leases this worker's work to another."""
        return lease_seconds(self.lease)

    def health(self) -> tuple[bool, int]:
        """Return whether the worker accepts all kinds of work, and the number of its abandoned threads."""
        abandoned = self._threads.abandoned
        if abandoned > self._most_abandoned:
            self._log_abandoned(abandoned)
        elif self.slots.withheld and self._loop is not None:
            self._loop.call_soon_threadsafe(self._thread_abandoned)  # threads have ended since: lift the restriction
        return abandoned <= self._most_abandoned, abandoned

    @property
    def is_overrun(self) -> bool:
        """Return True while more threads are abandoned than activities may run at a time."""
        return self._threads.abandoned > self._most_abandoned

    def _log_abandoned(self, abandoned: int) -> None:
        now = time.monotonic()
        if now < self._abandoned_log_at:
            return
        self._abandoned_log_at = now + ABANDONED_LOG_PAUSE_SECONDS
        log.error(
            "%d threads of activities or steps have not returned (at most %d may): no `def` activities are taken:\n%s",
            abandoned,
            self._most_abandoned,
            "\n\n".join(self._threads.abandoned_stacks()),
        )

    def _thread_abandoned(self) -> None:
        """Withhold `def` activities while too many threads are abandoned; other activities continue."""
        withheld: frozenset[str] = frozenset()
        if self.is_overrun:
            definitions = self.app.activities.items()
            withheld = frozenset(name for name, one in definitions if not (one.signature.is_async or one.in_process))
            if self._options.ends_unhealthy:
                self._options.is_overrun = True
                self.stop()
        if withheld != self.slots.withheld:
            self.slots.withheld = withheld
            self._transport.offer_slots(self)

    def report_health(self, *, healthy: bool, abandoned_threads: int) -> None:
        """Report the health to the engine; called in the watchdog's thread."""
        self._transport.report_health(self.worker, healthy=healthy, abandoned_threads=abandoned_threads)

    # as a connected worker

    def holds(self, run_id: RunId) -> bool:
        """Return True if the run's coroutine is in this worker's cache."""
        return self._workflow_tasks.holds(run_id)

    def take(self, grant: TaskGrant | ActivityGrant) -> None:
        """Accept leased work; it begins after the engine's batch is complete."""
        if not self._inbox and self._loop is not None:
            self._loop.call_soon(self._open)
        self._inbox.append(grant)

    def _open(self) -> None:
        inbox, self._inbox = self._inbox, []
        outdated, self._outdated = self._outdated, set()
        for grant in inbox:
            try:
                if isinstance(grant, TaskGrant):
                    self._workflow_tasks.take(grant, outdated=grant.key.run_id in outdated)
                else:
                    self._activity_tasks.take(grant)
            except Exception as error:
                log.exception("cannot begin with work for %s", grant.key.workflow_id)
                if isinstance(grant, TaskGrant):
                    # Scheduled, so that an exception there does not affect the rest of the inbox.
                    asyncio.get_running_loop().call_soon(self._workflow_tasks.give_up, grant, error)

    def news(self, run_id: RunId) -> None:
        """Note new events of a run whose task is leased here, or in the inbox."""
        if any(grant.key.run_id == run_id for grant in self._inbox):
            self._outdated.add(run_id)
        self._workflow_tasks.news(run_id)

    def cancel(self, attempt_id: int, *, over: bool = False) -> None:
        """Cancel an attempt that runs here, or is in the inbox."""
        if self._inbox and self._loop is not None:
            self._loop.call_soon(functools.partial(self._activity_tasks.cancel, attempt_id, over=over))
        else:
            self._activity_tasks.cancel(attempt_id, over=over)

    def _task_freed(self) -> None:
        self.slots.release()
        self._transport.offer_slots(self)

    def _activity_freed(self) -> None:
        self.slots.activities += 1  # the process of an activity is counted by `Processes`
        self._transport.offer_slots(self)

    def _process_offered(self) -> None:
        self._transport.offer_slots(self)
