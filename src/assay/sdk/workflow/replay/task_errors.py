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


def examine(run: "Execution") -> None:
    """Raise the first exception of an unawaited task of `ctx.go` in the main coroutine; log the others.

    Exceptions of other tasks are kept: when the main coroutine returns, code may have retrieved them.
    """
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
                continue
        if not run.closed:
            WorkflowLogger(run).error("exception of a task that no code awaits", exc_info=error)


def is_unretrieved(task: "asyncio.Task[Any]") -> bool:
    """Return True if the task raised an exception that no code has retrieved."""
    return bool(task._log_traceback)


def exception_of(task: "asyncio.Task[Any]") -> BaseException:
    """Return the exception of a failed task, without retrieving it."""
    error = task._exception
    assert error is not None  # noqa: S101  # the task has failed
    return error
