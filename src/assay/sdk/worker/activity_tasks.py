"""Activities in a worker: run them, extend their leases, report their outcomes.

A result whose run is cached in this worker is sent with the run's next turn; other outcomes are reported alone.
"""

import asyncio
import functools
import logging
from collections.abc import Callable
from typing import Any

from assay.core.model.errors import AssayError, Failure, Kind, NotFound, Refused
from assay.core.model.grants import ActivityGrant
from assay.core.model.ids import SECOND, Time
from assay.core.model.payload import NULL, Payload
from assay.core.model.requests import (
    CancelledActivity,
    CompleteActivity,
    ExtendActivity,
    FailActivity,
    HeartbeatActivity,
    ReleaseActivity,
)
from assay.sdk.app import App, Definition
from assay.sdk.client.recorded_results import encode_result
from assay.sdk.client.transport import Transport
from assay.sdk.values.converter import Converter
from assay.sdk.values.failures import judged, shown, to_info
from assay.sdk.worker.process_child import ProcessCall
from assay.sdk.worker.processes import Processes, RaisedInProcess, address_of
from assay.sdk.worker.rates import StartRate
from assay.sdk.worker.reports import Reports, unsure
from assay.sdk.worker.stacks import HANDLERS
from assay.sdk.worker.threads import DaemonThreads
from assay.sdk.worker.workflow_tasks import WorkflowTasks
from assay.sdk.workflow.activity_context import ActivityContext, ActivityInfo
from assay.sdk.workflow.carried import Carried

log = logging.getLogger("assay.worker")


class Attempt:
    """One attempt that runs in this worker."""

    __slots__ = (
        "beat_at",
        "began",
        "details",
        "flush",
        "grant",
        "is_over",
        "job",
        "loop",
        "released",
        "stop_requested",
        "task",
    )

    def __init__(self, grant: ActivityGrant, loop: asyncio.AbstractEventLoop) -> None:
        self.grant = grant
        self.loop = loop
        self.task: asyncio.Task[None] | None = None
        self.began = False
        self.stop_requested = False
        self.released = False
        self.is_over = False
        """True if the engine has ended the attempt: its outcome no longer counts."""
        self.job: asyncio.Future[Any] | None = None
        """The call in a thread, for a `def` activity."""
        self.beat_at: Time = 0
        self.details: Payload = NULL
        self.flush: asyncio.TimerHandle | None = None
        """The timer of a pending heartbeat."""

    def begin(self) -> None:
        """Mark the attempt as begun; raise `CancelledError` if it was cancelled or released before."""
        self.began = True
        if self.stop_requested or self.released:
            raise asyncio.CancelledError

    def interrupt(self) -> None:
        """Cancel the body at its await; not before it began, because the task would end without a report."""
        if self.task is not None and self.began:
            self.task.cancel()


class ActivityTasks:
    """Runs the activities of one worker."""

    def __init__(
        self,
        transport: Transport,
        app: App,
        converter: Converter,
        workflow_tasks: WorkflowTasks,
        threads: DaemonThreads,
        reports: Reports,
        processes: Processes,
        *,
        freed: Callable[[], None],
        abandoned: Callable[[], None],
        per_second: float | None = None,
    ) -> None:
        self._transport = transport
        self._rate = None if per_second is None else StartRate(per_second)
        self._reports = reports
        self._app = app
        self._converter = converter
        self._abandoned = abandoned
        self._workflow_tasks = workflow_tasks
        self._threads = threads
        self._processes = processes
        self._freed = freed
        self._attempts: dict[int, Attempt] = {}
        self.loop: asyncio.AbstractEventLoop | None = None
        self._released = False

    @property
    def busy(self) -> bool:
        """Return True while an activity runs."""
        return bool(self._attempts)

    def take(self, grant: ActivityGrant) -> None:
        """Begin a leased attempt."""
        if self._released:
            self._reports.send(ReleaseActivity(grant.key.run_id, grant.activity.seq, grant.activity.attempt_id))
            self._freed()
            return
        loop = self.loop or asyncio.get_running_loop()
        attempt = Attempt(grant, loop)
        self._attempts[grant.activity.attempt_id] = attempt
        attempt.task = loop.create_task(self._run(attempt))

    async def _run(self, attempt: Attempt) -> None:
        activity = attempt.grant.activity
        try:
            attempt.begin()
            if self._rate is not None:
                await asyncio.sleep(self._rate.delay(attempt.loop.time()))
            definition = self._app.activities.get(activity.name)
            if definition is None:
                raise Failure(f"No handler registered for activity: {activity.name}", kind=Kind.NOT_FOUND)
            if definition.in_process:
                raw = bytes(await self._call_in_process(definition, attempt))
            else:
                result, name = await self._call(definition, attempt), f"result of activity '{activity.name}'"
                raw = encode_result(self._converter, result, name, definition.signature.result_annotation)
        except asyncio.CancelledError as error:
            self._cancelled(attempt, error)
        except GeneratorExit:  # the loop is closed: no report can be sent
            raise
        except BaseException as error:  # noqa: BLE001  # every exception of an activity is its failure
            self._fail(attempt, error)
        else:
            self._complete(attempt, NULL if raw == b"null" else Payload(raw))
        finally:
            if attempt.flush is not None:
                attempt.flush.cancel()
            self._attempts.pop(activity.attempt_id, None)
            self._freed()

    async def _call(self, definition: Definition, attempt: Attempt) -> Any:
        activity, signature = attempt.grant.activity, definition.signature
        value = signature.value_of(activity.input, self._converter)
        context = self._context(attempt) if signature.takes_context else None
        args, named = signature.arguments(context, value)
        if signature.is_async:
            return await definition.function(*args, **named)
        attempt.job = self._threads.submit(lambda: definition.function(*args, **named))
        return await attempt.job

    async def _call_in_process(self, definition: Definition, attempt: Attempt) -> Payload:
        activity = attempt.grant.activity
        call = ProcessCall(
            activity.attempt_id,
            *address_of(definition),
            _info(attempt.grant),
            activity.options.retry,
            activity.input,
            activity.details,
            _carried(attempt.grant),
        )

        def beat(details: Payload) -> None:
            if details != NULL:
                attempt.details = details
            self._send_beat(attempt)

        return await self._processes.call(call, activity.options.start_to_close, beat)

    def _context(self, attempt: Attempt) -> ActivityContext:
        activity = attempt.grant.activity
        details = None if activity.details is NULL else self._converter.decode(activity.details)
        return ActivityContext(
            lambda: _info(attempt.grant),
            details,
            lambda details: self._beat(attempt, details),
            lambda: _carried(attempt.grant),
        )

    def _complete(self, attempt: Attempt, result: Payload) -> None:
        activity, run_id = attempt.grant.activity, attempt.grant.key.run_id
        if not self._workflow_tasks.offer(run_id, activity, result):
            self._reports.send(CompleteActivity(run_id, activity.seq, activity.attempt_id, result))

    def _fail(self, attempt: Attempt, error: BaseException) -> None:
        activity, key = attempt.grant.activity, attempt.grant.key
        if isinstance(error, RaisedInProcess):
            info, traceback = error.failure, f"\n{error.failure.stack}"
        else:
            info, traceback = judged(to_info(error, source="activity"), error, activity.options.retry), ""
        log.warning(
            "activity %s failed (attempt %d): %s%s",
            activity.name,
            activity.attempt,
            info.message,
            traceback,
            exc_info=shown(error),
            extra={"workflow_id": key.workflow_id, "run_id": key.run_id},
        )
        self._flush(attempt)
        self._reports.send(FailActivity(key.run_id, activity.seq, activity.attempt_id, info))

    def _cancelled(self, attempt: Attempt, error: asyncio.CancelledError) -> None:
        activity, run_id = attempt.grant.activity, attempt.grant.key.run_id
        if attempt.is_over:
            return  # the engine ended the attempt before, and the slot is free now
        if attempt.stop_requested:
            self._reports.send(CancelledActivity(run_id, activity.seq, activity.attempt_id))
        elif attempt.released:
            self._flush(attempt)
            self._reports.send(ReleaseActivity(run_id, activity.seq, activity.attempt_id))
        else:
            # Raised by the code itself: released, the attempt would not count, and be retried without end.
            self._fail(attempt, error)

    def _beat(self, attempt: Attempt, details: Any) -> bool:
        """Record a heartbeat, from any thread: the first is sent at once, then at most three per time-out."""
        if details is not None:
            attempt.details = Payload(self._converter.encode(details, name="heartbeat details"))
        if asyncio._get_running_loop() is attempt.loop:
            self._send_beat(attempt)
        else:
            attempt.loop.call_soon_threadsafe(self._send_beat, attempt)
        return attempt.stop_requested

    def _send_beat(self, attempt: Attempt) -> None:
        activity = attempt.grant.activity
        if activity.attempt_id not in self._attempts or attempt.flush is not None:
            return
        window = (activity.options.heartbeat or 3 * SECOND) // 3
        pause = min(attempt.beat_at + window - self._transport.now(), window)
        if pause <= 0:
            self._send_now(attempt)
        else:
            # Delayed, not dropped: the last heartbeat of a burst also extends the time-out, and its details are where
            # the next attempt begins.
            attempt.flush = attempt.loop.call_later(pause / SECOND, self._flush, attempt)

    def _flush(self, attempt: Attempt) -> None:
        """Send the pending heartbeat, if any."""
        if attempt.flush is not None:
            attempt.flush.cancel()
            attempt.flush = None
            self._send_now(attempt)

    def _send_now(self, attempt: Attempt) -> None:
        activity = attempt.grant.activity
        attempt.beat_at = self._transport.now()
        request = HeartbeatActivity(
            attempt.grant.key.run_id, activity.seq, activity.attempt_id, attempt.details, self._transport.lease
        )
        self._transport.send(request, functools.partial(self._beaten, attempt))

    def _beaten(self, attempt: Attempt, reply: Any, error: AssayError | None) -> None:
        if unsure(error):
            return  # unknown outcome: only a refusal shows that the attempt is over
        if error is not None:
            self._stop(attempt, over=isinstance(error, Refused | NotFound), has_closed=True)
        elif reply.cancel_requested:
            self._stop(attempt)

    def cancel(self, attempt_id: int, *, over: bool = False) -> None:
        """Cancel an attempt; `over` if the engine has ended the attempt, so that its outcome no longer counts."""
        attempt = self._attempts.get(attempt_id)
        if attempt is not None:
            self._stop(attempt, over=over)

    def _stop(self, attempt: Attempt, *, over: bool = False, has_closed: bool = False) -> None:
        """Stop an attempt: `async def` code at its await, other code at its next heartbeat.

        The code is interrupted only once, so that its clean-up is not interrupted again. A process has time to clean up
        if its run `has_closed`; the engine itself ends the process of an attempt that has timed out.
        """
        first, attempt.stop_requested = not attempt.stop_requested, True
        definition = self._app.activities.get(attempt.grant.activity.name)
        if definition is None:
            return
        if definition.in_process:
            self._processes.cancel(attempt.grant.activity.attempt_id, over=over and not has_closed)
        elif definition.signature.is_async:
            if first:
                attempt.interrupt()
        elif over:
            self._abandon(attempt)

    def _abandon(self, attempt: Attempt) -> None:
        """Free the slot of an attempt that the engine has ended; its thread cannot be stopped, and is abandoned."""
        attempt.is_over = True
        if attempt.job is None:
            return  # the call has not begun, or has just ended
        stack = self._threads.abandon(attempt.job)
        if stack is not None:
            activity = attempt.grant.activity
            log.warning(
                "activity '%s' (attempt %d) is over, and its code has not returned: the thread is abandoned:\n%s",
                activity.name,
                activity.attempt,
                stack,
                extra={"workflow_id": attempt.grant.key.workflow_id, "run_id": attempt.grant.key.run_id},
            )
            self._abandoned()

    def extend(self) -> None:
        """Extend the leases of running attempts, which are valid while this process lives."""
        if self._transport.lease is None:
            return
        for attempt in tuple(self._attempts.values()):
            activity = attempt.grant.activity
            request = ExtendActivity(attempt.grant.key.run_id, activity.seq, activity.attempt_id, self._transport.lease)
            self._transport.send(request, functools.partial(self._beaten, attempt))

    def release(self) -> None:
        """Release running attempts to other workers; the interrupted attempts do not count."""
        self._released = True
        for attempt in tuple(self._attempts.values()):
            attempt.released = True
            attempt.interrupt()
        self._processes.close()


HANDLERS[ActivityTasks._run.__code__] = lambda local: f"activity '{local['attempt'].grant.activity.name}'"


def _carried(grant: ActivityGrant) -> Carried:
    return Carried.of(grant.start, grant.activity.options.context)


def _info(grant: ActivityGrant) -> ActivityInfo:
    activity, key = grant.activity, grant.key
    return ActivityInfo(
        name=activity.name,
        activity_id=activity.id,
        attempt=activity.attempt,
        workflow_id=key.workflow_id,
        run_id=key.run_id,
        workflow_type=grant.start.workflow_type,
        namespace=key.namespace,
        task_queue=activity.queue,
    )
