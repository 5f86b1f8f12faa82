"""The end of a run as Python receives it: a value, or one of four exceptions for runs without a result."""

from typing import Any, TypedDict

from assay.core.model import errors
from assay.core.model import events as ev
from assay.core.model.failure import FailureInfo
from assay.core.model.ids import RunKey
from assay.sdk.ports import WorkflowOutcome
from assay.sdk.values.converter import Converter
from assay.sdk.values.failures import to_exception


class _Names(TypedDict):
    workflow_id: str
    run_id: str


def outcome_of(key: RunKey, closing: ev.Event) -> WorkflowOutcome:
    """Return the outcome that a closing event records."""
    match closing:
        case ev.WorkflowCompleted():
            return WorkflowOutcome(closing.result)
        case ev.WorkflowContinuedAsNew():
            return WorkflowOutcome(None)  # another id has begun a chain of its own
        case _:
            return WorkflowOutcome(None, failure_of(key, closing))


def result_of(outcome: WorkflowOutcome, converter: Converter, annotation: Any) -> Any:
    """Return the result of an outcome, decoded by annotation; raise its exception if it has one."""
    if outcome.failure is not None:
        raise outcome.failure
    return None if outcome.result is None else converter.decode(outcome.result, annotation, name="result")


def failure_of(key: RunKey, closing: ev.Event) -> errors.Failure:
    """Return the exception for a run that closed without a result."""
    names: _Names = {"workflow_id": key.workflow_id, "run_id": key.run_id}
    match closing:
        case ev.WorkflowFailed(error=text, failure=info):
            error = to_exception(info or FailureInfo(message=text), errors.WorkflowFailed, **names)
            if error.stack:
                error.add_note(f"In the workflow:\n{error.stack.rstrip()}")
            return error
        case ev.WorkflowCancelled(reason=reason):
            return errors.WorkflowCancelled(reason or "its cancellation was requested", **names)
        case ev.WorkflowTerminated(reason=reason):
            return errors.WorkflowTerminated(reason, **names)
        case ev.WorkflowTimedOut(error=text, scope=scope):
            late = errors.WorkflowTimedOut(text or f"its {scope} time-out passed", **names)
            late.timeout_type = scope
            return late
    return errors.WorkflowFailed(f"closed by an event that this version does not know: {_name(closing)}", **names)


def _name(closing: ev.Event) -> str:
    return str(getattr(closing, "name", type(closing).__name__))
