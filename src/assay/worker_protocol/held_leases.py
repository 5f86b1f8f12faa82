"""The leases of a worker with their tokens, and the engine's count of the worker's free slots."""

from typing import Final

from assay.core.model import requests as rq
from assay.core.model.errors import AssayError, NotFound, Refused
from assay.core.model.grants import ConnectedWorker
from assay.core.model.ids import RunId
from assay.core.model.replies import Advanced
from assay.core.model.slots import Slots
from assay.worker_protocol import messages as wire
from assay.worker_protocol.tokens import Token

OUTCOMES: Final = (rq.CompleteActivity, rq.FailActivity, rq.CancelledActivity)
"""Requests with the outcome of an attempt; a failure replaces an outcome that cannot be recorded."""
ENDS: Final = (*OUTCOMES, rq.ReleaseActivity)
"""Requests that end the lease of an attempt."""
UNANNOUNCED_SLOTS_ABOVE: Final = 8
"""While the engine counts at least this number of free slots, further released slots wait for the next message."""


class HeldLeases:
    """The leases of a worker: workflow tasks by run, attempts by id."""

    def __init__(self, worker: ConnectedWorker) -> None:
        self._worker = worker
        self._tasks: dict[str, tuple[Token, int]] = {}
        """By run: token and epoch of the last lease; kept after the end of the lease, for the next turn."""
        self._leased: set[str] = set()
        self._attempts: dict[int, Token] = {}
        self._faulty: set[int] = set()
        """Attempts whose outcome was refused as invalid."""
        self._given: set[str] = set()
        """Runs that the engine counts as live in this worker."""

    def __len__(self) -> int:
        return len(self._leased) + len(self._attempts)

    def has_attempt(self, attempt_id: int) -> bool:
        """Return whether an attempt is held."""
        return attempt_id in self._attempts

    def has_run(self, run_id: str) -> bool:
        """Return whether a task of this run was leased to this worker."""
        return run_id in self._tasks

    def task_token(self, run_id: str, epoch: int) -> Token:
        """Return the token of a run's last lease; raise `Refused` if the lease has another epoch."""
        found = self._tasks.get(run_id)
        if found is None or found[1] != epoch:
            raise Refused("this worker no longer holds the workflow task", code="stale_task")
        return found[0]

    def run_token(self, run_id: str) -> Token:
        """Return the token of a run's last lease, whatever its epoch."""
        found = self._tasks.get(run_id)
        return "" if found is None else found[0]

    def attempt_token(self, attempt_id: int) -> Token:
        """Return the token of a held attempt; raise `Refused` for any other."""
        token = self._attempts.get(attempt_id)
        if token is None:
            raise Refused("this attempt is over; another one is pending or running", code="stale_attempt")
        return token

    def tokens(self) -> tuple[Token, ...]:
        """Return the tokens of all leases."""
        return (*(self._tasks[run_id][0] for run_id in self._leased), *self._attempts.values())

    def live(self) -> tuple[str, ...]:
        """Return the live runs of this worker for a hello, and note them as announced."""
        self._given = {run_id for run_id in self._tasks if self._worker.holds(RunId(run_id))}
        return tuple(self._given)

    def take_dropped(self) -> list[str]:
        """Return the announced runs that the worker has dropped since the last call."""
        left = [run_id for run_id in self._given if not self._worker.holds(RunId(run_id))]
        self._given.difference_update(left)
        for run_id in left:
            if run_id not in self._leased:
                self._tasks.pop(run_id, None)
        return left

    def take_task(self, task: wire.SentTask) -> bool:
        """Add a task; return False for a task that is held already, because the engine sent its lease twice."""
        known = self._tasks.get(task.run_id)
        if known is not None and known[1] >= task.epoch and task.run_id in self._leased:
            return False
        self._tasks[task.run_id] = task.token, task.epoch
        self._leased.add(task.run_id)
        self._given.add(task.run_id)
        return True

    def take_attempt(self, order: wire.SentActivity) -> bool:
        """Add an attempt; return False for an attempt that is held already."""
        if order.attempt_id in self._attempts:
            return False
        self._attempts[order.attempt_id] = order.token
        return True

    def refuse(self, request: rq.ToRun, error: AssayError) -> None:
        """Drop the lease of a refused request, unless the request was invalid and another follows."""
        if isinstance(error, Refused | NotFound) or not self._awaits_another(request):
            self.settle(request, None)

    def _awaits_another(self, request: rq.ToRun) -> bool:
        if isinstance(request, OUTCOMES) and request.attempt_id not in self._faulty:
            self._faulty = {attempt for attempt in self._faulty if attempt in self._attempts} | {request.attempt_id}
            return True
        return isinstance(request, rq.Advance)

    def settle(self, request: rq.ToRun, answer: wire.ReportAnswer | None) -> None:
        """Drop the leases that end with a request; `answer` is None for a refused request."""
        if isinstance(request, rq.Advance):
            if answer is not None and answer.advanced is not None:
                self._advanced(request, answer.token, answer.advanced)
            else:
                self._unlease(request.run_id, request.epoch)
        elif isinstance(request, rq.FailTask | rq.ReleaseTask):
            self._unlease(request.run_id, request.epoch)
        elif isinstance(request, ENDS):
            self._attempts.pop(request.attempt_id, None)

    def _advanced(self, request: rq.Advance, token: str | None, reply: Advanced) -> None:
        for outcome, recorded in zip(request.outcomes, reply.recorded, strict=False):
            if recorded and isinstance(outcome, rq.ActivityOutcome):
                self._attempts.pop(outcome.attempt_id, None)
        run_id = request.run_id
        if not reply.accepted or reply.closed:
            self._unlease(run_id, request.epoch)
            if reply.closed:
                self._given.discard(run_id)
        elif reply.leased:
            self._leased.add(run_id)
            if token is not None:
                self._tasks[run_id] = token, reply.epoch
        else:
            self._leased.discard(run_id)

    def _unlease(self, run_id: str, epoch: int) -> None:
        """Drop a lease, unless a later lease has replaced this lease."""
        found = self._tasks.get(run_id)
        if found is not None and found[1] <= epoch:
            self._leased.discard(run_id)
            del self._tasks[run_id]


class AnnouncedSlots:
    """The engine's count of a worker's free slots.

    Each message has the totals of slots released since the last hello: a lost message does no harm.
    """

    def __init__(self, slots: Slots) -> None:
        self._slots = slots
        self.capacity = Slots(slots.tasks, slots.activities)
        self._known = self._released = self.restart()

    def restart(self) -> Slots:
        """Return the free slots; both ends count from this state on."""
        slots = self._slots
        self._known = Slots(slots.tasks, slots.activities, slots.process_activities, slots.processes)
        self._released = Slots()
        return slots

    def leased(self, activity: str | None = None) -> None:
        """Count a slot reserved by the engine: of an activity by its name, or of a workflow task."""
        self._known.reserve(activity)

    def announce(self) -> Slots:
        """Return the totals of released slots for the next message."""
        slots, known, released = self._slots, self._known, self._released
        released.tasks += slots.tasks - known.tasks
        released.activities += slots.activities - known.activities
        released.processes += slots.processes - known.processes  # below zero if idle processes have exited
        known.tasks, known.activities, known.processes = slots.tasks, slots.activities, slots.processes
        return released

    @property
    def urgent(self) -> bool:
        """Return whether the engine's count is too low for its leases, or differs in the number of processes."""
        slots, known = self._slots, self._known
        if slots.processes != known.processes:
            return True
        return _too_few(slots.activities, known.activities) or _too_few(slots.tasks, known.tasks)


def _too_few(free: int, known: int) -> bool:
    return free > known and (known < UNANNOUNCED_SLOTS_ABOVE or free > 2 * known)
