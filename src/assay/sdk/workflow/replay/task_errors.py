"""Exceptions of tasks that no other task awaits: raised in the main coroutine, or the failure of a run that returns.

Rules owned here:

* Exceptions are examined when the loop has drained after an input, in the order in which the tasks ended: a task that
  begins to wait in the same turn still counts, and the moment at which an object is freed does not.
* An exception is retrieved if the task was awaited, or read by `result()` or `exception()`: asyncio's own mark.
"""

import asyncio
from typing import TYPE_CHECKING, Any

from assay.sdk.workflow.logger import WorkflowLogger
from assay.sdk.workflow.replay.determinism import GoTask

if TYPE_CHECKING:
    from assay.sdk.workflow.replay.runtime import Execution


def settle(run: "Execution") -> None:
    """Raise exceptions of tasks in the main coroutine, and run it on; called when the loop has drained."""
    if run.speculation.paused_at is not None or run.commands.divergence is not None:
        return  # not drained
    is_raised = run.cancellation.insist()
    while examine(run) or is_raised:
        run.loop.drain()
        is_raised = False


def examine(run: "Execution") -> bool:
    """Raise the first exception of an unawaited task of `ctx.go` in the main coroutine; log the others.

    Exceptions of other tasks are kept: when the main coroutine returns, code may have retrieved them.

    Returns:
        True if an exception was raised in the main coroutine.
    """
    is_raised = False
    failed, run.loop.failed = run.loop.failed, []
    for task in failed:
        if not is_unretrieved(task):
            continue
        error = exception_of(task)
        if run.closed or not isinstance(task, GoTask) or task.waiters:
            run.closing.unretrieved.append(task)
        else:
            task.exception()  # from here on retrieved: raised or logged
            if run.cancellation.intrude(error):
                is_raised = True
                continue
        if not run.closed:
            WorkflowLogger(run).error("exception of a task that no code awaits", exc_info=error)
    return is_raised


def is_unretrieved(task: "asyncio.Task[Any]") -> bool:
    """Return True if the task raised an exception that no code has retrieved."""
    return bool(task._log_traceback)


def exception_of(task: "asyncio.Task[Any]") -> BaseException:
    """Return the exception of a failed task, without retrieving it."""
    error = task._exception
    assert error is not None  # noqa: S101  # the task has failed
    return error
