"""Inline steps: run in the worker, retried by policy, their outcome handed back to the run (R3)."""

import asyncio
import inspect
from collections.abc import Callable

from assay.core.errors import Failure, Kind
from assay.core.events import StepCompleted, StepFailed
from assay.core.failure import FailureInfo
from assay.core.ids import SECOND, Time
from assay.core.payload import NULL, Payload
from assay.core.requests import StepOutcome
from assay.sdk.converter import Converter
from assay.sdk.execution.live import LiveRun, Outcome
from assay.sdk.execution.threads import DaemonThreads, abandon
from assay.sdk.failures import judged, to_info
from assay.sdk.replay.turn import StepCall, StepOrder
from assay.sdk.transport import Transport

LONGEST_WAIT: Time = 10 * SECOND
"""A longer back-off is a durable timer: it must not hold the run's task."""


class Steps:
    """Runs the steps of a worker's runs."""

    def __init__(
        self,
        transport: Transport,
        converter: Converter,
        threads: DaemonThreads,
        report: Callable[[LiveRun, Outcome], None],
    ) -> None:
        self._transport = transport
        self._converter = converter
        self._threads = threads
        self._report = report
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, run: LiveRun, call: StepCall) -> None:
        """Begin a step whose predecessors are durable."""
        task = asyncio.get_running_loop().create_task(self._run(run, call))
        self._tasks.add(task)
        run.tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(run.tasks.discard)

    def stop(self) -> None:
        """Leave steps that are still running; they are repeated elsewhere."""
        for task in self._tasks:
            task.cancel()

    async def _run(self, run: LiveRun, call: StepCall) -> None:
        try:
            outcome = await self._outcome(run, call)
        finally:
            run.steps -= 1
        self._report(run, outcome)

    async def _outcome(self, run: LiveRun, call: StepCall) -> Outcome:
        order, attempt = call.order, call.order.attempt
        while True:
            try:
                raw = self._converter.encode(await self._call(order), name=f"result of step '{order.name}'")
            except (Exception, SystemExit) as error:  # noqa: BLE001  # whatever a step raises is its failure
                info = judged(to_info(error, source="step"), error, order.retry)
                delay = order.retry.delay_after(attempt, info)
                if delay is None or delay > LONGEST_WAIT:
                    return self._failed(run, call, info, attempt, delay)
                attempt += 1
                await asyncio.sleep(delay / SECOND)
            else:
                return self._done(run, call, NULL if raw == b"null" else Payload(raw), attempt)

    async def _call(self, order: StepOrder) -> object:
        if order.timeout is None:
            return await self._value(order)
        limit = asyncio.timeout(order.timeout)
        try:
            async with limit:
                return await self._value(order)
        except TimeoutError:
            if not limit.expired():
                raise  # the step's own
            raise Failure(f"step '{order.name}' took longer than {order.timeout:g} s", kind=Kind.TIMEOUT) from None

    async def _value(self, order: StepOrder) -> object:
        if inspect.iscoroutinefunction(order.function):
            return await order.function(*order.args)
        job = self._threads.submit(order.function, *order.args)
        try:
            value = await job
        except asyncio.CancelledError:
            abandon(job)
            raise
        # a lambda around an async function is `def`, and its result still has to be awaited
        return await value if inspect.isawaitable(value) else value

    def _done(self, run: LiveRun, call: StepCall, result: Payload, attempt: int) -> Outcome:
        name = call.order.name
        outcome = StepOutcome(call.seq, name, self._time(run), result, None, attempt)
        return outcome, StepCompleted(call.seq, name, result, attempt)

    def _failed(self, run: LiveRun, call: StepCall, info: FailureInfo, attempt: int, delay: Time | None) -> Outcome:
        name, again = call.order.name, None if delay is None else delay / SECOND
        outcome = StepOutcome(call.seq, name, self._time(run), NULL, info, attempt, again)
        return outcome, StepFailed(call.seq, name, info.message, info, attempt, again)

    def _time(self, run: LiveRun) -> Time:
        return max(self._transport.now(), run.execution.time)
