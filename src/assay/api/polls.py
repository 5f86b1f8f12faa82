"""Polls of workers that ask for one task at a time, answered at once or held until there is one (wire 1.5).

A poll sits down as a worker with one free hand. A held workflow poll also ends when an activity waits on its queue: its
worker may be one that does one thing after the other and would never come to it (wire 7.2).
"""

import asyncio
from typing import Final

from assay.api.call import Call
from assay.core.errors import AssayError, Kind
from assay.core.grants import ActivityGrant, TaskGrant
from assay.core.ids import Namespace, RunId, Time
from assay.core.requests import ReleaseActivity, ReleaseTask, Request
from assay.core.slots import Slots
from assay.engine.engine import Engine
from assay.engine.roster import Registration

Grant = TaskGrant | ActivityGrant

HOLDING: Final = 1_000
"""Polls that are held at a time (5.4)."""


class TooManyPolls(AssayError):
    """No more polls can be held."""

    code = "too_many_polls"
    kind = Kind.RATE_LIMITED


class PollSeat:
    """See `Seat`: one free hand, for a workflow task or for an activity."""

    local = False
    processes = Slots()

    def __init__(self, worker: Registration, queue: str, lease: Time | None, *, tasks: bool, held: bool) -> None:
        self.worker = worker.worker
        self.namespace = worker.namespace
        self.queue = queue
        self.lease = lease
        self.workflows = worker.workflows
        self.activities = worker.activities
        self.tasks = tasks
        self.held = held
        self._free = 1
        self._loop = asyncio.get_running_loop()
        self.answer: asyncio.Future[Grant | None] = self._loop.create_future()

    @property
    def free_tasks(self) -> int:
        """One until a task is on its way."""
        return self._free if self.tasks else 0

    @free_tasks.setter
    def free_tasks(self, free: int) -> None:
        self._set(free)

    @property
    def free_activities(self) -> int:
        """One until an activity is on its way."""
        return 0 if self.tasks else self._free

    @free_activities.setter
    def free_activities(self, free: int) -> None:
        self._set(free)

    def _set(self, free: int) -> None:
        self._free = free
        if free and not self.held:
            # whoever freed the hand may fill it again before the loop gets on
            self._loop.call_soon(self.settle)

    def settle(self) -> None:
        """Nothing is on its way: a poll that is not held is answered, and gets nothing more until it has risen."""
        if self._free and not self.answer.done():
            self._free = 0
            self.answer.set_result(None)

    def release(self) -> None:
        """Hold no longer."""
        self.held = False
        self.settle()

    def holds(self, _run_id: RunId) -> bool:
        """See `Seat`: such a worker keeps nothing."""
        return False

    def take(self, grant: Grant) -> None:
        """See `Seat`."""
        if not self.answer.done():
            self.answer.set_result(grant)

    def news(self, run_id: RunId) -> None:
        """See `Seat`: it will see with its next task."""

    def cancel(self, attempt_id: int, *, over: bool = False) -> None:
        """See `Seat`: it will hear with its next heartbeat."""


class Polls:
    """All polls that are held."""

    def __init__(self, engine: Engine, limit: int = HOLDING) -> None:
        self._engine = engine
        self._limit = limit
        self._held: set[PollSeat] = set()
        self.draining = False
        engine.on_idle_activity(self._idle_activity)

    def __len__(self) -> int:
        return len(self._held)

    def drain(self) -> None:
        """Answer all that are held, and hold no more."""
        self.draining = True
        for seat in tuple(self._held):
            seat.release()

    def _idle_activity(self, namespace: Namespace, queue: str, name: str) -> None:
        for seat in tuple(self._held):
            here = seat.tasks and (seat.namespace, seat.queue) == (namespace, queue)
            if here and (seat.activities is None or name in seat.activities):
                seat.release()

    async def poll(self, call: Call, seat: PollSeat, wait: float) -> Grant | None:
        """A task for the seat, or None when there is none; what its caller cannot get any more is given back."""
        if self.draining:
            return None
        seat.held = self._may_hold(seat, wait)
        self._engine.add_worker(seat)
        try:
            if not seat.held:
                seat.settle()
                return await asyncio.shield(seat.answer)
            return await self._hold(call, seat, wait)
        finally:
            self._engine.remove_worker(seat)
            if not seat.answer.done():
                seat.answer.add_done_callback(lambda _: self._return(seat))
                seat.release()

    def _may_hold(self, seat: PollSeat, wait: float) -> bool:
        if wait <= 0:
            return False
        if len(self._held) >= self._limit:
            raise TooManyPolls(f"{self._limit} polls are held already")
        return not (seat.tasks and self._engine.has_waiting_activity(seat.namespace, seat.queue, seat.activities))

    async def _hold(self, call: Call, seat: PollSeat, wait: float) -> Grant | None:
        self._held.add(seat)
        gone = call.watch()
        timer = asyncio.get_running_loop().call_later(wait, seat.release)
        try:
            await asyncio.wait((seat.answer, gone), return_when=asyncio.FIRST_COMPLETED)
            if not gone.done():
                return seat.answer.result()
            if seat.answer.done():
                self._return(seat)
            return None
        finally:
            timer.cancel()
            self._held.discard(seat)

    def _return(self, seat: PollSeat) -> None:
        """A task whose caller vanished before a byte of it was written is free at once, uncounted (R11)."""
        grant = None if seat.answer.cancelled() else seat.answer.result()
        if grant is not None:
            self._engine.post(_given_back(grant, seat))


def _given_back(grant: Grant, seat: PollSeat) -> Request:
    if isinstance(grant, TaskGrant):
        return ReleaseTask(grant.key.run_id, seat.worker, grant.epoch)
    return ReleaseActivity(grant.key.run_id, grant.activity.seq, grant.activity.attempt_id)
