"""Workflow tasks in a worker: replay or continue a run, send its commands, act on the reply.

The states of a run and their transitions are in live_run.py. Rules owned here: a refused turn evicts the coroutine;
results that the run's own worker produces are sent together with the commands that the code derives from them, and
never before the commands that they depend on are durable.
"""

import asyncio
import functools
import logging
from collections import deque
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from assay.core.model.commands import AnyCommand, FailWorkflow
from assay.core.model.errors import AssayError, Invalid, Kind
from assay.core.model.events import ActivityCompleted, Recorded
from assay.core.model.failure import FailureInfo
from assay.core.model.grants import TaskGrant
from assay.core.model.ids import RunId, Seq, Time, WorkerId
from assay.core.model.payload import Payload
from assay.core.model.replies import Advanced
from assay.core.model.requests import (
    ActivityOutcome,
    Advance,
    CompleteActivity,
    ExtendTask,
    FailTask,
    ReleaseTask,
    StepOutcome,
)
from assay.core.model.run import DEADLOCK, NO_HANDLER, TASK_FAILED, Activity
from assay.sdk.app import App
from assay.sdk.client.transport import Transport
from assay.sdk.values.converter import Converter
from assay.sdk.worker.live_run import (
    ACCEPT,
    AHEAD,
    CLOSING,
    GONE,
    GRANT,
    GRANTED,
    KEEP,
    OWE_NOTHING,
    OWE_TURN,
    OWING,
    RELEASE,
    RESTING,
    SEND_CLOSING,
    SEND_OUTCOMES,
    SEND_TURN,
    UNLEASED,
    LiveRun,
    Outcome,
)
from assay.sdk.worker.live_runs import LiveRuns
from assay.sdk.worker.main import main
from assay.sdk.worker.reports import FIRST_REPEAT_SECONDS, LONGEST_REPEAT_SECONDS, Reports, over, unsure
from assay.sdk.worker.steps import Steps, step_event
from assay.sdk.worker.threads import DaemonThreads
from assay.sdk.worker.turn_logs import log_failure, log_stuck
from assay.sdk.worker.turn_parts import is_end
from assay.sdk.workflow.replay.completion import Completion
from assay.sdk.workflow.replay.runtime import Execution

log = logging.getLogger("assay.worker")
NEWS_RETRY_SECONDS = 0.5
"""Seconds after which a failed read of new events is repeated."""
EARLY_REPORT_AFTER_TURNS = 16
"""Consecutive turns of steps alone after which outcomes are sent before the code runs. A wrong guess costs one round
trip, which about this number of right guesses saves."""


class WorkflowTasks:
    """Drives the runs of one worker."""

    def __init__(
        self,
        transport: Transport,
        app: App,
        converter: Converter,
        worker: WorkerId,
        threads: DaemonThreads,
        reports: Reports,
        *,
        cache_limit: int,
        freed: Callable[[], None],
        errors: str = "fail",
        strict: bool = False,
    ) -> None:
        self._transport = transport
        self._app = app
        self._converter = converter
        self._worker = worker
        self._live = LiveRuns(cache_limit)
        self._steps = Steps(converter, threads, self._now, self._report)
        self._freed = freed
        self._reports = reports
        self._lease = transport.lease
        self._local = transport.lease is None
        self._loading: set[asyncio.Task[None]] = set()
        self._released = False
        self._errors, self._strict = errors, strict

    def holds(self, run_id: RunId) -> bool:
        """Return True if the run's coroutine is cached here."""
        return run_id in self._live

    @property
    def busy(self) -> bool:
        """Return True while a run has work that an eviction would lose."""
        return bool(self._loading) or any(not run.idle for run in self._live)

    def take(self, grant: TaskGrant, *, outdated: bool = False) -> None:
        """Begin a leased task, at once if its events are here; `outdated` if newer events exist than in the grant."""
        if self._released:
            self._give_back(grant)
            return
        run = self._live.get(grant.key.run_id)
        if run is not None and run.epoch >= grant.epoch:
            self._freed()  # a late grant of an expired lease: a newer execution of the run is here
            return
        if run is not None and grant.tail is not None and run.stands_at(grant.seen_seq):
            self._activate(run, grant, grant.tail)
            return
        lags = run is not None and grant.tail is None and run.stands_at(grant.seen_seq)
        if run is not None and not lags:
            self._lost(run)
        if grant.tail is not None and grant.seen_seq == 0:
            self._begin(grant, grant.tail, fresh=grant.last_seq == 1 and not outdated)
            return
        task = asyncio.get_running_loop().create_task(self._replay(grant, grant.seen_seq if lags else 0))
        self._loading.add(task)
        task.add_done_callback(self._loading.discard)

    async def _replay(self, grant: TaskGrant, after: int) -> None:
        """Run the code on the history; a live run that lags gets the events after its last, however many."""
        try:
            history = await self._transport.history(grant.key.run_id, after)
        except AssayError as error:
            if unsure(error):
                log.warning("cannot read the history of %s: %s", grant.key.workflow_id, error)
                self._give_back(grant)
            else:
                self._fail_task(grant, (TASK_FAILED, str(error)))
            return
        current = self._live.get(grant.key.run_id)
        if is_end(history) or (current is not None and current.epoch >= grant.epoch):
            self._freed()  # the run was closed, or leased anew, while the history was read
            return
        # Later events belong to a later lease, and would contradict this one.
        events = [recorded for recorded in history if recorded.seq <= grant.last_seq]
        if after and current is not None and current.stands_at(after):
            return self._activate(current, grant, events)
        if current is not None:
            self._lost(current)
        if after:  # the live run was evicted meanwhile
            return await self._replay(grant, 0)
        return self._begin(grant, events)

    def _give_back(self, grant: TaskGrant) -> None:
        self._reports.send(ReleaseTask(grant.key.run_id, self._worker, grant.epoch))
        self._freed()

    def _begin(self, grant: TaskGrant, history: Sequence[Recorded], *, fresh: bool = False) -> None:
        definition = self._app.workflows.get(grant.start.workflow_type)
        if definition is None:
            known = ", ".join(sorted(self._app.workflows)) or "none"
            message = f"no workflow handler registered for type {grant.start.workflow_type} (registered: {known})"
            self._fail_task(grant, (NO_HANDLER, message))
            return
        present = self._live.get(grant.key.run_id)
        if present is not None and present.epoch > grant.epoch:
            self._freed()  # the lease expired while the history was read, and a later grant was faster
            return
        if present is not None:
            self._lost(present)
        errors, strict = self._errors, self._strict
        execution = Execution(grant.key, definition, self._app, self._converter, main, errors=errors, strict=strict)
        run = LiveRun(grant.key, execution)
        self._live.put(run)
        self._activate(run, grant, history, fresh=fresh)

    def _activate(self, run: LiveRun, grant: TaskGrant, events: Sequence[Recorded], *, fresh: bool = False) -> None:
        """Run the code on the events of a grant.

        The completion is sent even if it only orders steps: the reply shows whether the task is still leased, and
        whether newer events exist. For a newly started run both are certain, so the request is saved.
        """
        self._unlease(run)
        run.epoch = grant.epoch
        run.lease_event(GRANT)
        turn = run.execution.activate(events, grant.seen_seq)
        if turn.failure is not None:
            self._live.drop(run)
            self._fail_task(grant, turn.failure, run.execution.closing.error)
        elif fresh and turn.is_plain and not run.execution.has_task_timeout:
            self._start_steps(run, turn)
        else:
            self._send(run, turn, run.execution.seen)

    def _start_steps(self, run: LiveRun, turn: Completion) -> None:
        for step in turn.steps:
            self._steps.start(run, step)

    def _fail_task(self, grant: TaskGrant, failure: tuple[str, str], error: BaseException | None = None) -> None:
        log_stuck(grant.key, failure, error)
        self._reports.send(FailTask(grant.key.run_id, self._worker, grant.epoch, *failure))
        self._freed()

    def give_up(self, grant: TaskGrant, error: Exception) -> None:
        """Fail a task because of a defect of the worker; another worker may succeed."""
        run = self._live.get(grant.key.run_id)
        if run is not None:
            self._live.drop(run)
        self._fail_task(grant, (TASK_FAILED, f"{type(error).__name__}: {error}"))

    def _send(self, run: LiveRun, turn: Completion, seen: int, outcomes: tuple[Outcome, ...] = ()) -> None:
        if turn.failure is not None and outcomes:
            # Record the outcomes alone, then fail the task: a step that has run must not run again because the code
            # after it cannot go on.
            run.turn = turn
            run.turn_event(OWE_TURN)
            self._report_turn(run, seen, outcomes, pending=True, early=True)
            return
        if turn.failure is not None:
            self._abandon(run, turn.failure)
            return
        run.turn, run.unsent = turn, turn.commands
        self._send_part(run, seen, outcomes)

    def _send_part(self, run: LiveRun, seen: int, outcomes: tuple[Outcome, ...] = ()) -> None:
        """Send as many commands of a turn as a message may have; the rest is sent when these are accepted."""
        run.turn_event(SEND_TURN)
        turn, part = run.turn, run.next_part()
        # A turn that paused at a side effect is not over either: its inputs are seen when the code has gone on.
        more = turn.paused or bool(run.unsent)
        pending = more or (not turn.closes and (bool(turn.steps) or run.execution.busy))
        deadlock = None if pending else turn.deadlock
        if deadlock is not None:
            log_stuck(run.key, (DEADLOCK, deadlock), None)
        self._report_turn(run, seen, outcomes, part, pending=pending, more=more, deadlock=deadlock)

    def _report_turn(
        self,
        run: LiveRun,
        seen: int,
        outcomes: tuple[Outcome, ...],
        commands: tuple[AnyCommand, ...] = (),
        *,
        pending: bool = False,
        early: bool = False,
        more: bool = False,
        deadlock: str | None = None,
    ) -> None:
        request = Advance(
            run.key.run_id,
            self._worker,
            run.epoch,
            seen,
            commands,
            tuple([outcome for outcome, _ in outcomes]),
            pending,
            early,
            self._lease,
            self._local,
            more=more,
            deadlock=deadlock,
        )
        self._post(run, request)

    def _post(self, run: LiveRun, request: Advance, pause: float = FIRST_REPEAT_SECONDS) -> None:
        self._transport.send(request, functools.partial(self._answered, run, request, pause))

    def _abandon(self, run: LiveRun, failure: tuple[str, str]) -> None:
        """Evict a run whose code cannot continue, and fail its task; unrecorded outcomes are reported alone."""
        self._forget(run)
        if run.lease != UNLEASED:
            log_stuck(run.key, failure, run.execution.closing.error)
            self._reports.send(FailTask(run.key.run_id, self._worker, run.epoch, *failure))
            self._unlease(run)

    def _answered(
        self, run: LiveRun, request: Advance, pause: float, reply: Advanced, error: AssayError | None
    ) -> None:
        here = run.state != GONE
        if here and unsure(error):
            again = min(2 * pause, LONGEST_REPEAT_SECONDS)
            asyncio.get_running_loop().call_later(pause, self._post, run, request, again)
        elif not here:
            # Evicted meanwhile: the next worker continues the run, but only this one has the results of activities.
            self._complete(run, () if error is None else request.outcomes)
            if error is None and reply.accepted and reply.leased:
                # The run is gone: release its lease.
                self._reports.send(ReleaseTask(run.key.run_id, self._worker, reply.epoch))
        elif error is not None:
            self._refused(run, request, pause, error)
        elif reply.accepted:
            self._accepted(run, reply)
        else:
            self._lost(run)

    def _refused(self, run: LiveRun, request: Advance, pause: float, error: AssayError) -> None:
        if run.lease != UNLEASED and not over(error):
            self._refuse_turn(run, request, error)
            return
        self._lost(run)
        self._complete(run, request.outcomes)
        if pause > FIRST_REPEAT_SECONDS:
            self._let_go(run)

    def _let_go(self, run: LiveRun) -> None:
        """Release the lease that a repeated turn may have been given: an earlier copy may have been accepted."""
        for epoch in (run.epoch, run.epoch + 1):
            self._reports.send(ReleaseTask(run.key.run_id, self._worker, epoch))

    def _lost(self, run: LiveRun) -> None:
        """Evict a run whose lease or turn was refused; the engine leases its task again."""
        self._forget(run)
        self._unlease(run)

    def _forget(self, run: LiveRun) -> None:
        self._live.drop(run)
        waiting = [outcome for outcome, _ in run.waiting]
        run.waiting.clear()
        self._complete(run, waiting)

    def _complete(self, run: LiveRun, outcomes: Sequence[StepOutcome | ActivityOutcome]) -> None:
        """Report results of activities without their turn; steps are repeated by the next worker."""
        for outcome in outcomes:
            if isinstance(outcome, ActivityOutcome):
                request = CompleteActivity(run.key.run_id, outcome.seq, outcome.attempt_id, outcome.result)
                self._reports.send(request)

    def _unlease(self, run: LiveRun) -> None:
        occupied_slot = run.lease == GRANTED
        run.lease_event(RELEASE)
        if occupied_slot:
            self._freed()

    def _refuse_turn(self, run: LiveRun, request: Advance, error: AssayError) -> None:
        """Handle commands that the engine rejects while the task is still leased here.

        Either the code ordered something invalid, which fails the run unless its errors wait; or the engine cannot
        decide the request for another reason: then the task fails, and the run is stuck until a person intervenes.
        """
        if isinstance(error, Invalid) and run.state != CLOSING and not run.execution.closing.waits:
            failure = FailureInfo(kind=Kind.INVALID, message=str(error), type=error.code, retryable=False)
            run.turn, run.unsent = Completion((FailWorkflow(str(error), failure),), closes=True), ()
            run.turn_event(SEND_CLOSING)
            self._report_turn(run, run.execution.seen, (), run.turn.commands)
        else:
            self._abandon(run, (TASK_FAILED, str(error)))
        self._complete(run, request.outcomes)

    def _accepted(self, run: LiveRun, reply: Advanced) -> None:
        turn, owing = run.turn, run.state == OWING
        run.epoch = reply.epoch
        if run.unsent:
            run.execution.acknowledge_part(reply.seen_seq)
        else:
            run.execution.acknowledge(reply.seen_seq, reply.last_seq)
        if reply.closed:
            log_failure(run)
            self._live.drop(run)
            self._unlease(run)
            return
        run.turn_event(ACCEPT)
        if reply.leased:
            if run.lease == UNLEASED:  # otherwise the lease is unchanged
                run.lease_event(KEEP)
        else:
            self._unlease(run)
        if run.unsent:
            self._send_part(run, run.execution.seen)
            return
        if owing:
            self._send(run, turn, run.execution.seen)
            return
        self._start_steps(run, turn)
        if run.waiting:
            self._date_again(run)
        if turn.paused:
            self._send(run, run.execution.resume(), run.execution.seen)
        elif run.waiting or run.news or (run.lease != UNLEASED and not run.tasks):  # running steps call back
            self._continue(run)

    def _date_again(self, run: LiveRun) -> None:
        """Move the time of queued outcomes after the events that the last turn has recorded."""
        now = self._now(run)
        run.waiting = deque((replace(outcome, time=now), event) for outcome, event in run.waiting)

    def _continue(self, run: LiveRun) -> None:
        """Send the next turn if outcomes are queued; otherwise read new events, or release the lease."""
        if run.state != RESTING:
            return
        if run.waiting:
            self._advance(run)
        elif run.news and run.lease != UNLEASED:
            run.news = False
            task = asyncio.get_running_loop().create_task(self._read_news(run))
            self._loading.add(task)
            task.add_done_callback(self._loading.discard)
        elif run.lease != UNLEASED and not run.execution.busy:
            self._send(run, Completion(), run.execution.seen)

    def _advance(self, run: LiveRun) -> None:
        """Run the code on all queued outcomes before they are recorded, and send both together.

        After many turns of steps alone, the outcomes are sent first, so that the engine records them while the code
        runs. If the code then orders anything but steps, its completion is sent when the outcomes are accepted.
        """
        outcomes, run.waiting = tuple(run.waiting), deque()
        seen = run.execution.seen
        events = [
            Recorded(Seq(seen + place), outcome.time, event) for place, (outcome, event) in enumerate(outcomes, 1)
        ]
        early = run.step_turns >= EARLY_REPORT_AFTER_TURNS and not self._local
        if early:
            run.turn_event(SEND_OUTCOMES)
            self._report_turn(run, seen, outcomes, pending=True, early=True)
            if run.state != AHEAD:
                return  # refused at once: the transport is closed
        turn = run.execution.speculate(events)
        plain = turn.is_plain
        run.step_turns = run.step_turns + 1 if plain else 0
        if early:
            run.turn = turn
            run.turn_event(OWE_NOTHING if plain else OWE_TURN)
        else:
            self._send(run, turn, seen, outcomes)

    def offer(self, run_id: RunId, activity: Activity, result: Payload) -> bool:
        """Accept an activity's result if its run is cached here; return False if it must be reported alone."""
        run = self._live.get(run_id)
        if run is None:
            return False
        outcome = ActivityOutcome(activity.seq, activity.attempt_id, self._now(run), result)
        event = ActivityCompleted(activity.id, activity.seq, activity.name, result)
        run.waiting.append((outcome, event))
        self._continue(run)
        return True

    def _report(self, run: LiveRun, outcome: StepOutcome) -> None:
        """Queue a step's outcome, unless the code has cancelled the step."""
        if run.state != GONE and run.execution.futures.wants_step(outcome.seq):
            run.waiting.append((outcome, step_event(outcome)))
            self._continue(run)

    def _now(self, run: LiveRun) -> Time:
        """Return the time of an outcome: the engine's time as estimated here, never before the run's last event."""
        now, last = self._transport.now(), run.execution.commands.time
        return now if now > last else last

    def news(self, run_id: RunId) -> None:
        """Note new events of a run whose task is leased here."""
        run = self._live.get(run_id)
        if run is not None and run.lease != UNLEASED:
            run.news = True
            self._continue(run)

    async def _read_news(self, run: LiveRun) -> None:
        try:
            events = await self._transport.history(run.key.run_id, run.execution.seen)
        except AssayError as error:
            log.warning("cannot read the news of %s: %s", run.key.workflow_id, error)
            asyncio.get_running_loop().call_later(NEWS_RETRY_SECONDS, self.news, run.key.run_id)
            return
        if run.state == GONE:
            return
        if is_end(events):
            self._lost(run)
        elif events and run.lease != UNLEASED and run.state == RESTING:
            turn = run.execution.activate(events, 0)
            self._send(run, turn, run.execution.seen)
        else:
            self._continue(run)

    def extend(self) -> None:
        """Extend the leases of tasks."""
        for run in self._live:
            if run.lease != UNLEASED and self._lease is not None:
                extension = ExtendTask(run.key.run_id, self._worker, run.epoch, self._lease)
                self._transport.send(extension, functools.partial(self._extended, run, run.epoch))

    def _extended(self, run: LiveRun, epoch: int, _reply: object, error: AssayError | None) -> None:
        """Evict the run if the extension was refused: the lease has expired, and another worker has the task."""
        stale = error is not None and not unsure(error)
        if stale and run.state == RESTING and run.lease != UNLEASED and run.epoch == epoch:
            self._lost(run)

    def release(self) -> None:
        """Release all leases, so that other workers need not wait for their expiry."""
        self._released = True
        for run in self._live:
            if run.lease != UNLEASED:
                self._reports.send(ReleaseTask(run.key.run_id, self._worker, run.epoch))
            self._lost(run)
