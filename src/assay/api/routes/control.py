"""Routes that change runs: signal, cancel, terminate, continue as new, retry, and schedule an activity directly."""

from functools import partial
from typing import Any, Final

from msgspec.structs import asdict

from assay.api import answers
from assay.api.access import ACT, READ_FOUND, require
from assay.api.answers import HttpResponse
from assay.api.auditing import acting_name
from assay.api.backend import Backend
from assay.api.call import ApiCall, document, payload
from assay.api.mutations import change
from assay.api.records import activity_record
from assay.api.router import Route
from assay.api.routes.starts import message_of, several_of
from assay.api.routes.workflows import NAMESPACE, RUN
from assay.auth.permissions import Permission
from assay.core.model.commands import ScheduleActivity
from assay.core.model.errors import AssayError, Invalid, Kind, NotFound
from assay.core.model.ids import Namespace, RunId, RunKey, WorkflowId, seconds
from assay.core.model.options import check_id, check_text, duration
from assay.core.model.payload import NULL
from assay.core.model.replies import Reopened, Started
from assay.core.model.requests import RequestCancel, RestartAsNew, RetryFailed, ScheduleDirect, Signal, Terminate
from assay.core.model.run import Activity
from assay.core.rules.retry import check_requester
from assay.engine.reads import StoredActivity
from assay.wire import responses
from assay.wire.activities import open_activity_record, retry_record
from assay.wire.render import start_record
from assay.wire.request_bodies import ActivityBody, CancelBody, ContinueBody, RetryBody, SignalBody, TerminateBody


def _target(call: ApiCall) -> dict[str, Any]:
    """Return the target of a request: the newest run of the id, or the run of `run_id`."""
    run_id = call.text("run_id")
    return {
        "namespace": Namespace(call.namespace),
        "workflow_id": WorkflowId(call.parameters["workflow_id"]),
        "run_id": None if run_id is None else RunId(run_id),
    }


async def signal(backend: Backend, call: ApiCall) -> HttpResponse:
    """Send a signal to an open run."""
    body = await call.read(SignalBody)
    request = Signal(
        **_target(call),
        name=check_id(call.parameters["name"], "name"),
        payload=message_of(body.payload, body.args),
        args=several_of(body.args),
        sender=body.sender,
        context=document(body.context, "context"),
        message_id=body.message_id,
    )
    return await change(backend, call, call.namespace, request)


async def cancel(backend: Backend, call: ApiCall) -> HttpResponse:
    """Request the cancellation of an open run. The run may clean up before it ends."""
    body = await call.read(CancelBody)
    deadline = duration(body.deadline, "deadline")
    request = RequestCancel(**_target(call), reason=body.reason, sender=body.sender, deadline=deadline)
    return await change(backend, call, call.namespace, request)


async def terminate(backend: Backend, call: ApiCall) -> HttpResponse:
    """End an open run at once. Its code does not run again."""
    body = await call.read(TerminateBody)
    return await change(backend, call, call.namespace, Terminate(**_target(call), reason=body.reason))


async def continue_as_new(backend: Backend, call: ApiCall) -> HttpResponse:
    """Start a new run with the type and options of this run, which is closed if it is open.

    With a `workflow_id` in the body the new run has that id.
    """
    body = await call.read(ContinueBody)
    other = (body.workflow_id or "").strip()
    request = RestartAsNew(
        **_target(call),
        input=payload(body.input, "input"),
        keep_input=_keeps_input(body),
        new_workflow_id=WorkflowId(body.workflow_id or "") if other else None,
    )
    return await change(backend, call, call.namespace, request, _continued)


def _keeps_input(body: ContinueBody) -> bool:
    """Return whether the new run has the input of this run: by default if the body has no input."""
    absent = body.input is NULL or body.input == NULL
    if body.keep_input and not absent:
        raise Invalid("keep_input is true, but the body has an input; send only one of them", field="keep_input")
    return absent if body.keep_input is None else body.keep_input


def _continued(reply: object) -> tuple[int, bytes]:
    if not isinstance(reply, Started):
        raise TypeError(reply)
    return 201, answers.encoded(start_record(reply))


async def retry(backend: Backend, call: ApiCall) -> HttpResponse:
    """Continue a closed run as a new run of the same id, with the history of the closed run."""
    body = await call.read(RetryBody)
    requester = acting_name(call, body.requested_by)
    check_requester(requester, body.reason)
    who, why = (requester or "").strip(), (body.reason or "").strip()
    target = _target(call)
    if body.run_id is not None:
        target["run_id"] = RunId(check_id(body.run_id, "run_id"))
    request = RetryFailed(**target, requested_by=who, reason=why, from_seq=body.from_seq)
    return await change(backend, call, call.namespace, request, _reopened)


def _reopened(reply: object) -> tuple[int, bytes]:
    if not isinstance(reply, Reopened):
        raise TypeError(reply)
    return 200, answers.encoded(retry_record(reply))


async def schedule_activity(backend: Backend, call: ApiCall) -> HttpResponse:
    """Schedule an activity of an open run. If the seq is used already, the response is the existing activity."""
    body = await call.read(ActivityBody)
    run = (await backend.engine.reads.run(call.namespace, call.parameters["workflow_id"], call.text("run_id"))).run
    known = await backend.engine.reads.activity_of(run.run_id, body.seq)
    if known is not None and call.header(b"idempotency-key") is None:
        return answers.json(activity_record(known), 201)
    # Name the run: the seq was looked up in this run, and the id may have a new run by now.
    target = {**_target(call), "run_id": run.run_id}
    request = ScheduleDirect(**target, command=_command(body), known=known is not None)
    try:
        return await change(backend, call, call.namespace, request, partial(_scheduled, run.key, known))
    except AssayError as error:
        known = await backend.engine.reads.activity_of(run.run_id, body.seq) if error.kind is Kind.UNAVAILABLE else None
        if known is None:
            raise
        return answers.json(activity_record(known), 201)  # a concurrent request has used this seq


def _scheduled(key: RunKey, known: StoredActivity | None, reply: object) -> tuple[int, bytes]:
    """Return status and body with the activity's record. A closed activity is only in the store, hence `known`."""
    if isinstance(reply, Activity):
        return 201, answers.encoded(open_activity_record(key, reply))
    if known is None:
        raise TypeError(reply)
    return 201, answers.encoded(activity_record(known))


def _command(body: ActivityBody) -> ScheduleActivity:
    fields = {name: _plain(name, value) for name, value in asdict(body).items()}
    fields["input"] = payload(body.input, "input")
    fields["context"] = document(body.context, "context")
    fields["non_retryable"] = tuple(body.non_retryable or ())
    check_id(body.name, "name")
    check_id(body.task_queue, "task_queue")
    check_text(body.summary, "summary")
    return ScheduleActivity(**fields)


def _plain(name: str, value: Any) -> Any:
    """Return a field of the body as the command has it: durations are numbers of seconds."""
    time = duration(value, name) if name.endswith("_secs") else None
    return value if time is None else seconds(time)


async def activity(backend: Backend, call: ApiCall) -> HttpResponse:
    """Return an activity by its id, or by the id of an attempt."""
    number = number_of(call.parameters["activity_id"], "activity id")
    found = await backend.engine.reads.activity(number)
    wanted = call.text("namespace")
    if found is None or (wanted is not None and found.namespace != wanted) or _is_hidden(call, found.namespace):
        raise NotFound(f"activity {number} not found")
    require(call.principal, Permission.READ, found.namespace)
    return answers.json(activity_record(found))


def _is_hidden(call: ApiCall, namespace: str) -> bool:
    """Return whether a namespace is hidden from the caller, who has no role in it."""
    return not call.principal.has_role_in(namespace)


def number_of(text: str, name: str) -> int:
    """Return a whole number of a path; raise `Invalid` for other texts."""
    if not (text.isascii() and text.isdecimal()) or len(text) > 20:
        raise Invalid(f"{name} must be a whole number, not {text!r}", field=name.replace(" ", "_"))
    return int(text)


def _control(path: str, operation_id: str, summary: str, reaction: Any, body: Any, answer: dict[int, Any]) -> Route:
    return Route(
        method="POST",
        path=f"/workflows/{{workflow_id}}{path}",
        operation_id=operation_id,
        summary=summary,
        tag="workflows",
        reaction=reaction,
        body=body,
        body_optional=body not in (ActivityBody, RetryBody),
        query=(NAMESPACE, RUN),
        idempotent=True,
        answers=answer,
        access=ACT,
    )


_NOTHING: Final[dict[int, Any]] = {200: None}
_STARTED: Final[dict[int, Any]] = {201: responses.StartAnswer}

ROUTES: Final = (
    _control("/signal/{name}", "signalWorkflow", "Send a signal to a run", signal, SignalBody, _NOTHING),
    _control("/cancel", "cancelWorkflow", "Cancel a run", cancel, CancelBody, _NOTHING),
    _control("/terminate", "terminateWorkflow", "Terminate a run", terminate, TerminateBody, _NOTHING),
    _control("/continue-as-new", "continueAsNew", "Continue a run as new", continue_as_new, ContinueBody, _STARTED),
    _control("/retry", "retryWorkflow", "Retry a closed run", retry, RetryBody, {200: responses.RetryAnswer}),
    _control(
        "/activities",
        "scheduleActivity",
        "Schedule an activity directly",
        schedule_activity,
        ActivityBody,
        {201: responses.ActivityRecord},
    ),
    Route(
        method="GET",
        path="/activities/{activity_id}",
        operation_id="getActivity",
        summary="Describe an activity",
        tag="activities",
        reaction=activity,
        query=(NAMESPACE,),
        answers={200: responses.ActivityRecord},
        access=READ_FOUND,
    ),
)
