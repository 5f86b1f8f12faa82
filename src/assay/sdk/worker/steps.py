"""Inline steps: run in the worker, retried by their policy, and reported with the next turn of the run."""

import asyncio
import inspect
import logging
from collections.abc import Callable

from assay.core.model.errors import Failure, Kind
from assay.core.model.events import StepCompleted, StepFailed
from assay.core.model.ids import SECOND, Time
from assay.core.model.payload import NULL, Payload
from assay.core.model.requests import StepOutcome
from assay.sdk.client.recorded_results import encode_result
from assay.sdk.values.annotations import result_annotation
from assay.sdk.values.converter import Converter
from assay.sdk.values.failures import judged, shown, to_info
from assay.sdk.worker.live_run import LiveRun
from assay.sdk.worker.stacks import HANDLERS
from assay.sdk.worker.thread_steps import StepKey, ThreadSteps
from assay.sdk.worker.threads import DaemonThreads
from assay.sdk.workflow.replay.completion import StepCall, StepOrder

log = logging.getLogger("assay.worker")

LONGEST_INLINE_BACKOFF: Time = 10 * SECOND
"""A longer back-off becomes a durable timer: a sleep must not hold the run's task."""


class Steps:
    """Runs the steps of a worker's runs."""

    def __init__(
        self,
        converter: Converter,
        threads: DaemonThreads,
        now: Callable[[LiveRun], Time],
        report: Callable[[LiveRun, StepOutcome], None],
    ) -> None:
        self._converter = converter
        self._threads = ThreadSteps(threads)
        self._now = now
        self._report = report
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self, run: LiveRun, call: StepCall) -> None:
        """Start a step whose preceding commands are durable; cancelled when the run is evicted."""
        if self._loop is None:
            self._loop = asyncio.get_running_loop()  # cached: the lookup costs a system call on some Pythons
        run.tasks[call.seq] = self._loop.create_task(self._run(run, call))

    async def _run(self, run: LiveRun, call: StepCall) -> None:
        try:
            outcome = await self._outcome(run, call)
        finally:
            run.tasks.pop(call.seq, None)
        self._report(run, outcome)

    async def _outcome(self, run: LiveRun, call: StepCall) -> StepOutcome:
        order, attempt = call.order, call.order.attempt
        key = run.key.run_id, call.seq
        # Fast path: awaited in place, because a coroutine around the call would cost 2 % of a step.
        plain = order.timeout is None and _is_async(order.function)
        if not plain and (former := self._threads.find(key, order)) is not None:
            attempt = former.attempt
        while True:
            try:
                if plain:
                    value = await order.function(*order.args)
                else:
                    value = await (self._value if order.timeout is None else self._in_time)(key, order, attempt)
                annotation = result_annotation(order.function)
                raw = encode_result(self._converter, value, f"result of step '{order.name}'", annotation)
            except BaseException as error:  # every exception of a step is its failure
                if isinstance(error, GeneratorExit) or (isinstance(error, asyncio.CancelledError) and _cancelled()):
                    raise  # not raised by the step: the run is being evicted
                info = judged(to_info(error, source="step"), error, order.retry)
                _log_failure(run, order.name, attempt, info.message, error)
                delay = order.retry.delay_after(attempt, info)
                if delay is None or delay > LONGEST_INLINE_BACKOFF:
                    again = None if delay is None else delay / SECOND
                    now = self._now(run)
                    return StepOutcome(call.seq, order.name, now, NULL, info, attempt, again, order.input_hash)
                attempt += 1
                await asyncio.sleep(delay / SECOND)
            else:
                result, now = NULL if raw == b"null" else Payload(raw), self._now(run)
                return StepOutcome(call.seq, order.name, now, result, None, attempt, None, order.input_hash)

    async def _in_time(self, key: StepKey, order: StepOrder, attempt: int) -> object:
        seconds = order.timeout or 0.0
        former = self._threads.find(key, order)
        limit = asyncio.timeout(seconds) if former is None else asyncio.timeout_at(former.began + seconds)
        try:
            async with limit:
                return await self._value(key, order, attempt)
        except TimeoutError:
            if not limit.expired():
                raise  # raised by the step itself, not by the limit
            self._threads.give_up(key)
            raise Failure(f"step '{order.name}' took longer than {seconds:g} s", kind=Kind.TIMEOUT) from None

    async def _value(self, key: StepKey, order: StepOrder, attempt: int) -> object:
        if _is_async(order.function):
            return await order.function(*order.args)
        value = await self._threads.value(key, order, attempt)
        # A lambda around an async function is a `def` that returns an awaitable.
        return await value if inspect.isawaitable(value) else value


HANDLERS[Steps._outcome.__code__] = lambda local: f"step '{local['call'].order.name}'"


def _cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _log_failure(run: LiveRun, name: str, attempt: int, message: str, error: BaseException) -> None:
    log.warning(
        "step %s failed (attempt %d): %s",
        name,
        attempt,
        message,
        exc_info=shown(error),
        extra={"workflow_id": run.key.workflow_id, "run_id": run.key.run_id},
    )


def _is_async(function: Callable[..., object]) -> bool:
    """Return `inspect.iscoroutinefunction(function)`, at a fifth of the cost for a plain `async def`."""
    code = getattr(function, "__code__", None)
    return bool(code and code.co_flags & inspect.CO_COROUTINE) or inspect.iscoroutinefunction(function)


def step_event(outcome: StepOutcome) -> StepCompleted | StepFailed:
    """Return the event that a step's outcome is expected to become."""
    failure = outcome.failure
    if failure is None:
        return StepCompleted(outcome.seq, outcome.name, outcome.result, outcome.attempt, outcome.input_hash)
    return StepFailed(
        outcome.seq,
        outcome.name,
        failure.message,
        failure,
        outcome.attempt,
        outcome.retry_in,
        outcome.input_hash,
    )
