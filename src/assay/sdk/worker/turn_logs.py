"""The log lines of a worker about workflow tasks and runs that failed."""

import logging

from assay.core.model.commands import FailWorkflow
from assay.core.model.ids import RunKey
from assay.sdk.values.failures import shown
from assay.sdk.worker.live_run import LiveRun

log = logging.getLogger("assay.worker")


def log_stuck(key: RunKey, failure: tuple[str, str], error: BaseException | None) -> None:
    """Log why a workflow task failed, with the traceback of the exception that its code raised."""
    trace = None if error is None else shown(error)
    log.error("workflow %s is stuck (%s): %s", key.workflow_id, *failure, exc_info=trace)


def log_failure(run: LiveRun) -> None:
    """Log how a run failed: once, when that is recorded, and not whenever a replay comes to the same end."""
    closing = run.turn.commands[-1] if run.turn.closes else None
    if isinstance(closing, FailWorkflow):
        error = run.execution.closing.error
        log.warning(
            "workflow %s failed: %s",
            run.execution.definition.name,
            closing.error,
            exc_info=None if error is None else shown(error),
            extra={"workflow_id": run.key.workflow_id, "run_id": run.key.run_id},
        )
