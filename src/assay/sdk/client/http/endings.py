"""The closing event of a run, rebuilt from a response of the result route."""

from typing import Any

import msgspec

from assay.core.model import events as ev
from assay.core.model.failure import FailureInfo
from assay.core.model.ids import Namespace, RunId, RunKey, WorkflowId
from assay.core.model.payload import NULL, Payload
from assay.core.model.replies import Started


class ResultBody(msgspec.Struct, kw_only=True):
    """A response of the start and result routes; `status` shows whether the run has ended."""

    workflow_id: str
    run_id: str
    status: str
    result: Payload = NULL
    error: str | None = None
    failure: FailureInfo | None = None
    close_reason: str | None = None
    reason: str | None = None
    timeout_type: str | None = None
    started: bool = True


decode = msgspec.json.Decoder(ResultBody).decode


def key_of(namespace: Namespace, body: ResultBody) -> RunKey:
    """Return the key of the run in a response."""
    return RunKey(namespace, WorkflowId(body.workflow_id), RunId(body.run_id))


def started_of(namespace: Namespace, body: ResultBody) -> Started:
    """Return the outcome of a start."""
    return Started(key_of(namespace, body), body.status, body.started)


def closing_of(body: ResultBody) -> ev.Event:
    """Return the event that closed the run."""
    text: dict[str, Any] = {"error": body.error or ""}
    match body.status, body.close_reason:
        case "COMPLETED", _:
            return ev.WorkflowCompleted(body.result)
        case "CANCELLED", _:
            return ev.WorkflowCancelled(body.reason)
        case "TIMED_OUT", _:
            return ev.WorkflowTimedOut(scope=body.timeout_type or "run", **text)
        case _, "terminated":
            return ev.WorkflowTerminated(body.reason or "terminated")
    return ev.WorkflowFailed(failure=body.failure, **text)
