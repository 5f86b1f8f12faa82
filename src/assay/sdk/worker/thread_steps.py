"""`def` steps in threads: at most one execution at a time of each step of a run.

A thread cannot be stopped. If the engine revokes a run's task while one of its steps runs here, and grants the task to
this worker again, the step of the new grant waits for the running execution and uses its outcome.
"""

import asyncio
import functools
import logging
from collections.abc import Callable
from typing import Any

from assay.core.model.ids import RunId
from assay.sdk.direct_calls import original_of
from assay.sdk.worker.threads import DaemonThreads, discard
from assay.sdk.workflow.replay.completion import StepOrder

log = logging.getLogger("assay.worker")

StepKey = tuple[RunId, int]
"""A run and the seq of one of its steps."""


class ThreadStep:
    """One execution of a step in a thread."""

    __slots__ = ("attempt", "began", "job", "order", "waiter")

    def __init__(self, order: StepOrder, attempt: int, began: float, job: "asyncio.Future[Any]") -> None:
        self.order = order
        self.attempt = attempt
        self.began = began
        self.job = job
        self.waiter: asyncio.Future[Any] | None = None
        """The future that the run awaits. Separate from `job`, because a lost run cancels the future that it awaits."""

    def executes(self, order: StepOrder) -> bool:
        """Return whether this is an execution of `order`, as far as its name and function show."""
        return self.order.name == order.name and _code(self.order.function) == _code(order.function)


class ThreadSteps:
    """The running executions in a worker's threads."""

    def __init__(self, threads: DaemonThreads) -> None:
        self._threads = threads
        self._running: dict[StepKey, ThreadStep] = {}

    def find(self, key: StepKey, order: StepOrder) -> ThreadStep | None:
        """Return the running execution of `order`, or None."""
        step = self._running.get(key)
        return step if step is not None and step.executes(order) else None

    async def value(self, key: StepKey, order: StepOrder, attempt: int) -> Any:
        """Return the result of the step's function; join the running execution if one exists."""
        step = self._running.get(key)
        if step is not None and not step.executes(order):
            await asyncio.wait({step.job})
            step = None
        if step is None:
            step = self._begin(key, order, attempt)
        waiter = step.waiter = step.job.get_loop().create_future()
        try:
            return await waiter
        except asyncio.CancelledError:
            discard(waiter)
            raise

    def give_up(self, key: StepKey) -> None:
        """Abandon an execution that timed out and may never end, so that the next attempt can begin."""
        step = self._running.pop(key, None)
        stack = None if step is None else self._threads.abandon(step.job)
        if step is not None and stack is not None:
            log.warning("step '%s' took too long and goes on in an abandoned thread:\n%s", step.order.name, stack)

    def _begin(self, key: StepKey, order: StepOrder, attempt: int) -> ThreadStep:
        job = self._threads.submit(order.function, *order.args)
        step = self._running[key] = ThreadStep(order, attempt, job.get_loop().time(), job)
        job.add_done_callback(functools.partial(self._ended, key, step))
        return step

    def _ended(self, key: StepKey, step: ThreadStep, job: "asyncio.Future[Any]") -> None:
        if self._running.get(key) is step:
            del self._running[key]
        if job.cancelled():
            return  # abandoned
        waiter, error = step.waiter, job.exception()
        if waiter is None or waiter.done():
            discard(job)  # the run was lost, and has not been granted again
        elif error is None:
            waiter.set_result(job.result())
        else:
            waiter.set_exception(error)


def _code(function: Callable[..., Any]) -> object:
    """Return the part of a function that is the same when a replay creates it anew, as with lambdas."""
    if isinstance(function, functools.partial):
        return _code(function.func)
    original = original_of(function)
    return getattr(original, "__code__", original)
