"""Routes of polling workers: poll for a task, and report its outcome.

A workflow task is fenced by its worker, an activity attempt by its id. A task token, if the worker sends it, fences
both. A stale report gets a 409 and changes nothing; an unknown task gets a 404.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from assay.api import answers
from assay.api.access import WORK_REGISTERED, may_act, require, require_queue
from assay.api.answers import HttpResponse
from assay.api.backend import Backend
from assay.api.call import ApiCall, payload
from assay.api.mutations import report
from assay.api.polling_protocol import FailTaskCommand, Sent, commands_of
from assay.api.polls import PollingWorker
from assay.api.records import task_record
from assay.api.router import Parameter, Route
from assay.api.routes.control import number_of
from assay.auth.permissions import Permission
from assay.core.model.commands import AnyCommand
from assay.core.model.errors import Kind, NotFound, Refused
from assay.core.model.failure import FailureInfo
from assay.core.model.grants import ActivityGrant, TaskGrant
from assay.core.model.ids import Namespace, RunId, WorkflowId, seconds
from assay.core.model.replies import Advanced
from assay.core.model.requests import (
    HELD_EPOCH,
    Advance,
    CompleteActivity,
    ExtendTask,
    FailActivity,
    FailTask,
    HeartbeatActivity,
)
from assay.core.model.run import COMPLETED, FAILED, Activity, Task
from assay.engine.reads import StoredActivity
from assay.engine.worker_registry import Registration
from assay.wire import responses
from assay.wire.render import history_event
from assay.wire.request_bodies import CommandsBody, CompleteBody, FailBody, HeartbeatBody, PollBody, Seconds, TaskBody
from assay.worker_protocol.foreign_namespaces import restricted
from assay.worker_protocol.tokens import Lease

WAIT: Final = Parameter(
    "wait_secs",
    "The time to wait for a task, in seconds or as a text; at most 25 s. Also a field of the body.",
    Seconds,
)


async def _registered(backend: Backend, call: ApiCall, worker_id: str) -> Registration:
    """Return the registration of a worker; raise if the caller may not work in the worker's namespace."""
    worker = await backend.worker_registry.worker(worker_id, call.principal.has_role_in)
    require(call.principal, Permission.WORK, worker.namespace)
    return worker


# workflow tasks


async def poll_workflow_task(backend: Backend, call: ApiCall) -> HttpResponse:
    """Return a workflow task with its whole history, or null if no task is ready in time."""
    body = await call.read(PollBody)
    worker = await _registered(backend, call, body.worker_id)
    lease = backend.settings.task_lease
    require_queue(call.principal, body.queue, worker.namespace)
    poller = PollingWorker(worker, body.queue, lease, tasks=True, held=False)
    grant = await backend.polls.poll(call, poller, call.wait(body.wait_secs) or 0.0)
    if not isinstance(grant, TaskGrant):
        return answers.json(None)
    return answers.json(await _task(backend, grant))


async def _task(backend: Backend, grant: TaskGrant) -> responses.WorkflowTask:
    key = grant.key
    history = grant.tail if grant.seen_seq == 0 and grant.tail is not None else None
    events = await backend.engine.reads.history(key.run_id) if history is None else history
    shown = [history_event(recorded) for recorded in events if recorded.seq <= grant.last_seq]
    reopening = grant.start.reopening
    return responses.WorkflowTask(
        workflow_id=key.workflow_id,
        run_id=key.run_id,
        namespace=key.namespace,
        workflow_type=grant.start.workflow_type,
        task_queue=grant.start.task_queue,
        input=shown[0].payload,
        history=shown,
        attempt=grant.start.attempt,
        replay_until=max(grant.seen_seq, 0 if reopening is None else reopening.replay_until),
        task_token=backend.tokens.seal(Lease(key.namespace, key.run_id, 0, grant.epoch)),
    )


async def submit_commands(backend: Backend, call: ApiCall) -> HttpResponse:
    """Complete a workflow task with commands. The whole list is committed in one transaction, or nothing."""
    body = await call.read(CommandsBody)
    commands = commands_of(body.commands)
    worker = await _registered(backend, call, body.worker_id)
    run_id, epoch = await _held(backend, call, worker, body.task_token)
    render = partial(_advanced, call.parameters["workflow_id"], run_id)
    turn = _turn(run_id, worker, epoch, commands)
    check = may_act(call.principal)
    if check is not None and isinstance(turn, Advance):
        turn = restricted(turn, worker.namespace, check)
    return await report(backend, call, worker.namespace, turn, render)


def _turn(run_id: RunId, worker: Registration, epoch: int, commands: Sequence[Sent]) -> Advance | FailTask:
    """Return the request of a list of commands. A `FailTask` command fails the task, and other commands are ignored."""
    obeyed: list[AnyCommand] = []
    for command in commands:
        if isinstance(command, FailTaskCommand):
            return FailTask(run_id, worker.worker, epoch, *command.stuck())
        obeyed.append(command)
    return Advance(run_id, worker.worker, epoch, -1, tuple(obeyed))


def _advanced(workflow_id: str, run_id: RunId, reply: object) -> tuple[int, bytes]:
    if isinstance(reply, Advanced) and not reply.accepted:
        message = "the run has events that this worker has not seen"
        if reply.code == "version_conflict":
            message = "another version of the change is recorded: the commands were refused, and the task has failed"
        refusal = Refused(message, code=reply.code)
        refusal.workflow_id, refusal.run_id = workflow_id, run_id
        answer = answers.error(refusal)
        return answer.status, answer.body
    return 200, b""


async def extend_task(backend: Backend, call: ApiCall) -> HttpResponse:
    """Extend the lease of a workflow task."""
    body = await call.read(TaskBody)
    worker = await _registered(backend, call, body.worker_id)
    run_id, epoch = await _held(backend, call, worker, body.task_token)
    request = ExtendTask(run_id, worker.worker, epoch, backend.settings.task_lease)
    return await report(backend, call, worker.namespace, request, _extended)


def _extended(reply: object) -> tuple[int, bytes]:
    until = reply.until if isinstance(reply, Task) else None
    return 200, answers.encoded(responses.LeaseAnswer(lease_until=None if until is None else seconds(until)))


async def _held(backend: Backend, call: ApiCall, worker: Registration, token: str | None) -> tuple[RunId, int]:
    """Return the run of a workflow task and the epoch of its lease; without a token, the worker's id is the fence."""
    name = call.parameters["workflow_id"]
    if token is not None:
        lease = backend.tokens.open(token)
        if lease.namespace != worker.namespace or _of_activity(lease) or not await _named(backend, lease, name):
            raise NotFound("task", code="unknown_task")
        return lease.run_id, lease.fence
    key = await backend.engine.reads.current(Namespace(worker.namespace), WorkflowId(name))
    return key.run_id, HELD_EPOCH


def _of_activity(lease: Lease) -> bool:
    """Return whether a lease is of an activity. Tokens of early versions lack the flag, and are recognized by seq."""
    return lease.activity or lease.seq != 0


async def _named(backend: Backend, lease: Lease, workflow_id: str) -> bool:
    """Return whether the run of a lease has this workflow id."""
    run = backend.engine.reads.live(lease.run_id)
    if run is not None:
        return run.workflow_id == workflow_id
    return await backend.engine.reads.find(lease.namespace, workflow_id, lease.run_id) is not None


# activities


async def poll_activity_task(backend: Backend, call: ApiCall) -> HttpResponse:
    """Return an attempt of an activity, or `{"task": null}` if no activity is ready in time."""
    body = await call.read(PollBody)
    worker = await _registered(backend, call, body.worker_id)
    require_queue(call.principal, body.queue, worker.namespace)
    poller = PollingWorker(worker, body.queue, None, tasks=False, held=False)
    grant = await backend.polls.poll(call, poller, call.wait(body.wait_secs) or 0.0)
    if not isinstance(grant, ActivityGrant):
        return answers.json(responses.NoTask(task=None))
    activity = grant.activity
    lease = Lease(grant.key.namespace, grant.key.run_id, activity.seq, activity.attempt_id, activity=True)
    return answers.json(task_record(grant, backend.tokens.seal(lease)))


async def complete(backend: Backend, call: ApiCall) -> HttpResponse:
    """Report that an attempt of an activity succeeded."""
    body = await call.read(CompleteBody)
    result = payload(body.result, "result")
    lease = await _attempt(backend, call, body.task_token)
    request = CompleteActivity(lease.run_id, lease.seq, lease.fence, result)
    try:
        return await report(backend, call, lease.namespace, request)
    except Refused as refusal:
        known = await backend.engine.reads.activity(lease.fence)
        if known is not None and _same(known, lease) and known.status == COMPLETED and known.result == result:
            return answers.empty()  # the same report again, because its response was lost
        raise refusal


async def fail(backend: Backend, call: ApiCall) -> HttpResponse:
    """Report that an attempt of an activity failed. The retry policy decides whether a further attempt follows."""
    body = await call.read(FailBody)
    lease = await _attempt(backend, call, body.task_token)
    failure = body.failure or FailureInfo(kind=Kind.UNKNOWN, message=body.error, retryable=body.retryable)
    request = FailActivity(lease.run_id, lease.seq, lease.fence, failure)
    try:
        return await report(backend, call, lease.namespace, request)
    except Refused as refusal:
        known = await backend.engine.reads.activity(lease.fence)
        if known is not None and _same(known, lease) and _failed(known) == failure.message:
            return answers.empty()
        raise refusal


def _same(known: StoredActivity, lease: Lease) -> bool:
    """Return whether the reporting attempt is the latest attempt of the activity."""
    return known.attempt_id == lease.fence


def _failed(known: StoredActivity) -> str | None:
    """Return the error of the latest attempt, or None if it did not fail."""
    if known.status == FAILED:
        return known.error
    return None if known.last_failure is None or known.claimed_by is not None else known.last_failure.message


async def heartbeat(backend: Backend, call: ApiCall) -> HttpResponse:
    """Report that an attempt is alive. The response contains a request to cancel the attempt, if any."""
    body = await call.read(HeartbeatBody)
    lease = await _attempt(backend, call, body.task_token)
    request = HeartbeatActivity(lease.run_id, lease.seq, lease.fence, payload(body.details, "details"))
    return await report(backend, call, lease.namespace, request, _beaten)


def _beaten(reply: object) -> tuple[int, bytes]:
    """Return an empty body, as polling workers expect, unless a cancel is requested."""
    if isinstance(reply, Activity) and reply.cancel_requested:
        return 200, answers.encoded({"cancel_requested": True})
    return 200, b""


async def _attempt(backend: Backend, call: ApiCall, token: str | None) -> Lease:
    """Return the lease of the attempt in the path; a token, if the worker sends it, must match the id."""
    number = number_of(call.parameters["task_id"], "task id")
    if token is not None:
        lease = backend.tokens.open(token)
        if lease.fence != number or not _of_activity(lease) or not call.principal.has_role_in(lease.namespace):
            raise NotFound("task", code="unknown_task")
        require(call.principal, Permission.WORK, lease.namespace)
        return lease
    found = await backend.engine.reads.activity(number)
    if found is None or not call.principal.has_role_in(found.namespace):
        raise NotFound(f"task {number}", code="unknown_task")
    require(call.principal, Permission.WORK, found.namespace)
    return Lease(Namespace(found.namespace), found.run_id, found.seq, number, activity=True)


def _route(path: str, operation_id: str, summary: str, reaction: Any, body: Any, answer: Any, **more: Any) -> Route:
    return Route(
        method="POST",
        path=path,
        operation_id=operation_id,
        summary=summary,
        tag="worker protocol",
        reaction=reaction,
        body=body,
        answers={200: answer},
        access=WORK_REGISTERED,
        **more,
    )


ROUTES: Final = (
    _route(
        "/workflow-tasks/poll",
        "pollWorkflowTask",
        "Poll for a workflow task",
        poll_workflow_task,
        PollBody,
        responses.WorkflowTask | None,
        query=(WAIT,),
    ),
    _route(
        "/workflow-tasks/{workflow_id}/commands",
        "submitCommands",
        "Complete a workflow task with commands",
        submit_commands,
        CommandsBody,
        None,
        idempotent=True,
    ),
    _route(
        "/workflow-tasks/{workflow_id}/heartbeat",
        "extendWorkflowTask",
        "Extend the lease of a workflow task",
        extend_task,
        TaskBody,
        responses.LeaseAnswer,
        idempotent=True,
    ),
    _route(
        "/tasks/poll",
        "pollActivityTask",
        "Poll for an activity",
        poll_activity_task,
        PollBody,
        (responses.ActivityTask, responses.NoTask),
        query=(WAIT,),
    ),
    _route(
        "/tasks/{task_id}/complete",
        "completeTask",
        "Report the success of an attempt",
        complete,
        CompleteBody,
        None,
        body_optional=True,
        idempotent=True,
    ),
    _route(
        "/tasks/{task_id}/fail", "failTask", "Report the failure of an attempt", fail, FailBody, None, idempotent=True
    ),
    _route(
        "/tasks/{task_id}/heartbeat",
        "heartbeatTask",
        'Send a heartbeat of an attempt; the response is empty, or {"cancel_requested": true}',
        heartbeat,
        HeartbeatBody,
        None,
        body_optional=True,
        idempotent=True,
    ),
)
