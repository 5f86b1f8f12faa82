"""Long polls of polling workers, answered at once or held until a task is ready.

A poll is added to the engine as a worker with a single free slot. A held workflow poll also ends when an activity waits
on its queue: a worker that polls for workflow tasks and activities in turn would otherwise never start the activity.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from assay.api.call import ApiCall
from assay.core.model.errors import AssayError, Kind
from assay.core.model.grants import ActivityGrant, TaskGrant
from assay.core.model.ids import Namespace, RunId, Time
from assay.core.model.requests import ReleaseActivity, ReleaseTask, Request
from assay.core.model.slots import Slots
from assay.engine.engine import Engine
from assay.engine.worker_registry import Registration, WorkerRegistry

Grant = TaskGrant | ActivityGrant

MAX_HELD_POLLS: Final = 1_000
"""Polls that are held at the same time."""


class TooManyPolls(AssayError):
    """The limit of held polls is reached."""

    code = "too_many_polls"
    kind = Kind.RATE_LIMITED


class PollSlots(Slots):
    """The single slot of a poll; `released` is called when the lease that had reserved the slot was refused."""

    __slots__ = ("_released",)

    def __init__(self, released: Callable[[], None], *, tasks: bool) -> None:
        super().__init__(tasks=1 if tasks else 0, activities=0 if tasks else 1)
        self._released = released

    def release(self, activity: str | None = None) -> None:
        """See `Slots`."""
        super().release(activity)
        self._released()

    @property
    def free(self) -> bool:
        """Return whether the slot is neither reserved nor withdrawn."""
        return self.tasks + self.activities > 0

    def withdraw(self) -> None:
        """Make the slot unavailable."""
        self.tasks = self.activities = 0


class PollingWorker:
    """A poll as a `ConnectedWorker`, with a single slot for a workflow task or for an activity."""

    local = False
    identity = ""

    def __init__(self, worker: Registration, queue: str, lease: Time | None, *, tasks: bool, held: bool) -> None:
        self.worker = worker.worker
        self.namespace = worker.namespace
        self.queue = queue
        self.lease = lease
        self.workflows = worker.workflows
        self.activities = worker.activities
        self.tasks = tasks
        self.held = held
        self._slot = PollSlots(self._slot_released, tasks=tasks)
        self.slots: Slots = self._slot
        self._loop = asyncio.get_running_loop()
        self.answer: asyncio.Future[Grant | None] = self._loop.create_future()

    def _slot_released(self) -> None:
        if not self.held:
            # The dispatcher may reserve the slot again for other queued work before the next iteration of the loop.
            self._loop.call_soon(self.settle)

    def settle(self) -> None:
        """End the poll without a task, unless the slot is reserved for a task whose lease is being committed.

        The slot is withdrawn first, so that no task is leased to a poll that has been answered.
        """
        if self._slot.free and not self.answer.done():
            self._slot.withdraw()
            self.answer.set_result(None)

    def release(self) -> None:
        """Stop holding the poll, and end it if no task is on its way."""
        self.held = False
        self.settle()

    def holds(self, _run_id: RunId) -> bool:
        """See `ConnectedWorker`: a polling worker keeps no live runs."""
        return False

    def take(self, grant: Grant) -> None:
        """See `ConnectedWorker`."""
        if not self.answer.done():
            self.answer.set_result(grant)

    def news(self, run_id: RunId) -> None:
        """See `ConnectedWorker`: new events come with the next task."""

    def cancel(self, attempt_id: int, *, over: bool = False) -> None:
        """See `ConnectedWorker`: the response to the attempt's next heartbeat has the cancel request."""


class Polls:
    """The held polls of all polling workers."""

    def __init__(self, engine: Engine, worker_registry: WorkerRegistry, limit: int = MAX_HELD_POLLS) -> None:
        self._engine = engine
        self._worker_registry = worker_registry
        self._limit = limit
        self._held: set[PollingWorker] = set()
        self.draining = False
        engine.on_idle_activity(self._idle_activity)

    def __len__(self) -> int:
        return len(self._held)

    def drain(self) -> None:
        """Answer all held polls, and hold no further polls."""
        self.draining = True
        for poller in tuple(self._held):
            poller.release()

    def _idle_activity(self, namespace: Namespace, queue: str, name: str) -> None:
        for poller in tuple(self._held):
            here = poller.tasks and (poller.namespace, poller.queue) == (namespace, queue)
            if here and (poller.activities is None or name in poller.activities):
                poller.release()

    async def poll(self, call: ApiCall, poller: PollingWorker, wait: float) -> Grant | None:
        """Return a task, or None at the end of the wait; release a task whose caller has disconnected."""
        if self.draining:
            return None
        poller.held = await self._may_hold(poller, wait)
        self._engine.add_worker(poller)
        try:
            await self._engine.find_work(poller)
            if not poller.held:
                poller.settle()
                return await asyncio.shield(poller.answer)
            return await self._hold(call, poller, wait)
        finally:
            self._engine.remove_worker(poller)
            if not poller.answer.done():
                # Cancelled while a lease is being committed: release the task as soon as the lease is granted.
                poller.answer.add_done_callback(lambda _: self._return(poller))
                poller.release()

    async def _may_hold(self, poller: PollingWorker, wait: float) -> bool:
        if wait <= 0:
            return False
        if len(self._held) >= self._limit:
            raise TooManyPolls(f"{self._limit} polls are held already")
        return not (
            poller.tasks
            and await self._worker_registry.has_waiting_activity(poller.namespace, poller.queue, poller.activities)
        )

    async def _hold(self, call: ApiCall, poller: PollingWorker, wait: float) -> Grant | None:
        self._held.add(poller)
        gone = call.watch()
        timer = asyncio.get_running_loop().call_later(wait, poller.release)
        try:
            await asyncio.wait((poller.answer, gone), return_when=asyncio.FIRST_COMPLETED)
            if not gone.done():
                return poller.answer.result()
            if poller.answer.done():
                self._return(poller)
            return None
        finally:
            timer.cancel()
            self._held.discard(poller)

    def _return(self, poller: PollingWorker) -> None:
        """Release a task whose caller disconnected before the response; it does not count as an attempt."""
        grant = None if poller.answer.cancelled() else poller.answer.result()
        if grant is not None:
            self._engine.post(_given_back(grant, poller))


def _given_back(grant: Grant, poller: PollingWorker) -> Request:
    if isinstance(grant, TaskGrant):
        return ReleaseTask(grant.key.run_id, poller.worker, grant.epoch)
    return ReleaseActivity(grant.key.run_id, grant.activity.seq, grant.activity.attempt_id)
