"""What one worker has in its hands: the tokens of its leases, the runs it keeps alive, and how many hands are free."""

from typing import Final

from assay.core import requests as rq
from assay.core.errors import AssayError, NotFound, Refused
from assay.core.grants import Seat
from assay.core.ids import RunId
from assay.core.replies import Advanced
from assay.wire import exchange as wire

OUTCOMES: Final = (rq.CompleteActivity, rq.FailActivity, rq.CancelledActivity)
"""How an attempt ended; if that cannot be recorded, the attempt has failed, and that is reported instead."""
ENDS: Final = (*OUTCOMES, rq.ReleaseActivity)
"""Reports after which a worker has nothing more to say about an attempt."""
ENOUGH: Final = 8
"""Hands that the engine must believe free before a worker keeps it waiting for news of more."""


class Holdings:
    """Leases by what they are for."""

    def __init__(self, seat: Seat) -> None:
        self._seat = seat
        self._tasks: dict[str, tuple[str, int]] = {}
        """By run: the token of its last lease, and the epoch. A run that is no longer leased keeps it for its turns."""
        self._leased: set[str] = set()
        self._attempts: dict[int, str] = {}
        self._faulty: set[int] = set()
        """Attempts whose outcome was refused for what it says."""
        self._given: set[str] = set()
        """Runs that the engine believes to be live here."""

    def __len__(self) -> int:
        return len(self._leased) + len(self._attempts)

    def has_attempt(self, attempt_id: int) -> bool:
        """Is this attempt here?"""
        return attempt_id in self._attempts

    def knows(self, run_id: str) -> bool:
        """Was a task of this run given to this worker?"""
        return run_id in self._tasks

    def task_token(self, run_id: str, epoch: int) -> str:
        """The token of a run's last lease, if that is the one that is meant."""
        found = self._tasks.get(run_id)
        if found is None or found[1] != epoch:
            raise Refused("this worker no longer holds the workflow task", code="stale_task")
        return found[0]

    def run_token(self, run_id: str) -> str:
        """The token of a run's last lease, whichever that is."""
        found = self._tasks.get(run_id)
        return "" if found is None else found[0]

    def attempt_token(self, attempt_id: int) -> str:
        """The token of an attempt."""
        token = self._attempts.get(attempt_id)
        if token is None:
            raise Refused("this attempt is over; another one is pending or running", code="stale_attempt")
        return token

    def held(self) -> tuple[str, ...]:
        """The tokens of all leases (R11)."""
        return (*(self._tasks[run_id][0] for run_id in self._leased), *self._attempts.values())

    def live(self) -> tuple[str, ...]:
        """The runs that are live here; the engine will believe so."""
        self._given = {run_id for run_id in self._tasks if self._seat.holds(RunId(run_id))}
        return tuple(self._given)

    def left(self) -> list[str]:
        """Runs that the engine believes to be live here and that are so no longer; said once."""
        left = [run_id for run_id in self._given if not self._seat.holds(RunId(run_id))]
        self._given.difference_update(left)
        for run_id in left:
            if run_id not in self._leased:
                self._tasks.pop(run_id, None)
        return left

    def take_task(self, task: wire.Task) -> bool:
        """A task has come; False if it was here already, because an answer crossed it."""
        known = self._tasks.get(task.run_id)
        if known is not None and known[1] >= task.epoch and task.run_id in self._leased:
            return False
        self._tasks[task.run_id] = task.token, task.epoch
        self._leased.add(task.run_id)
        self._given.add(task.run_id)
        return True

    def take_attempt(self, order: wire.Activity) -> bool:
        """An attempt has come; False if it was here already."""
        if order.attempt_id in self._attempts:
            return False
        self._attempts[order.attempt_id] = order.token
        return True

    def refuse(self, request: rq.ToRun, error: AssayError) -> None:
        """A request was refused: what it was about is over, or it was the request's own fault, and another follows."""
        if isinstance(error, Refused | NotFound) or not self._awaits_another(request):
            self.settle(request, None)

    def _awaits_another(self, request: rq.ToRun) -> bool:
        if isinstance(request, OUTCOMES) and request.attempt_id not in self._faulty:
            self._faulty = {attempt for attempt in self._faulty if attempt in self._attempts} | {request.attempt_id}
            return True
        return isinstance(request, rq.Advance)

    def settle(self, request: rq.ToRun, answer: wire.Answer | None) -> None:
        """A request was answered; without an answer it came too late. Forget what is no longer held."""
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
        """A lease is gone, unless it is one that has been replaced already."""
        found = self._tasks.get(run_id)
        if found is not None and found[1] <= epoch:
            self._leased.discard(run_id)
            del self._tasks[run_id]


class Hands:
    """Free hands of a worker, and how many of them the engine knows of; totals, so that no message is missed."""

    def __init__(self, seat: Seat) -> None:
        self._seat = seat
        self.most = self._base = seat.free_tasks, seat.free_activities
        self._received_tasks = self._received_attempts = 0
        self._known_tasks, self._known_activities = self._base
        """What the engine believes to be free."""
        self._base_processes = self._known_processes = seat.processes.free
        self._received_processes = 0

    def count(self) -> tuple[int, int]:
        """Begin to count from now on: what is free."""
        self._base = self._known_tasks, self._known_activities = self._seat.free_tasks, self._seat.free_activities
        self._received_tasks = self._received_attempts = self._received_processes = 0
        self._base_processes = self._known_processes = self._seat.processes.free
        return self._base

    def received_task(self) -> None:
        """The engine has used a hand for a workflow task."""
        self._received_tasks += 1
        self._known_tasks -= 1

    def received_attempt(self, name: str) -> None:
        """Count an activity that the engine has leased."""
        self._received_attempts += 1
        self._known_activities -= 1
        if name in self._seat.processes.names:
            self._received_processes += 1
            self._known_processes -= 1

    def freed(self) -> tuple[int, int]:
        """Hands that became free since the count, to be told to the engine."""
        tasks, activities = self._known_tasks, self._known_activities = (
            self._seat.free_tasks,
            self._seat.free_activities,
        )
        return tasks - self._base[0] + self._received_tasks, activities - self._base[1] + self._received_attempts

    def freed_processes(self) -> int:
        """Return how many processes became idle since the count; fewer if idle ones have died."""
        free = self._known_processes = self._seat.processes.free
        return free - self._base_processes + self._received_processes

    @property
    def urgent(self) -> bool:
        """May the engine believe us busier than we are? Else it is told with whatever is said next."""
        if self._seat.processes.free != self._known_processes:
            return True  # they are few, and an engine that assumes too many leases attempts that have to wait
        free, known = self._seat.free_activities, self._known_activities
        if free > known and (known < ENOUGH or free > 2 * known):
            return True
        free, known = self._seat.free_tasks, self._known_tasks
        return free > known and (known < ENOUGH or free > 2 * known)
