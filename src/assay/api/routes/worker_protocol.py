"""How workers get tasks and report on them, one at a time, as the original does (wire 1.5).

A workflow task is fenced by the worker that holds it, an attempt by its id, and both by a token if the worker sends the
one it was given (D9). A stale report is a 409 and changes nothing, an unknown task a 404 (R34).
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from assay.api import answers
from assay.api.access import WORK_REGISTERED, require, require_queue
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
from assay.worker_protocol.tokens import Lease

WAIT: Final = Parameter(
    "wait_secs", "How long to wait for a task: seconds, or a text; 25 at most. Also in the body.", Seconds
)


async def _registered(backend: Backend, call: ApiCall, worker_id: str) -> Registration:
    """Return the registration of a worker, in whose namespace the caller may work."""
    worker = await backend.worker_registry.worker(worker_id)
    require(call.principal, Permission.WORK, worker.namespace)
    return worker


# workflow tasks


async def poll_workflow_task(backend: Backend, call: ApiCall) -> HttpResponse:
    """A workflow task with its whole history, or null."""
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
    return responses.WorkflowTask(
        workflow_id=key.workflow_id,
        run_id=key.run_id,
        namespace=key.namespace,
        workflow_type=grant.start.workflow_type,
        task_queue=grant.start.task_queue,
        input=shown[0].payload,
        history=shown,
        attempt=grant.start.attempt,
        replay_until=grant.seen_seq,
        task_token=backend.tokens.seal(Lease(key.namespace, key.run_id, 0, grant.epoch)),
    )


async def submit_commands(backend: Backend, call: ApiCall) -> HttpResponse:
    """What workflow code asks for: the whole list in one transaction, or nothing of it (D10)."""
    body = await call.read(CommandsBody)
    commands = commands_of(body.commands)
    worker = await _registered(backend, call, body.worker_id)
    run_id, epoch = await _held(backend, call, worker, body.task_token)
    render = partial(_advanced, call.parameters["workflow_id"], run_id)
    return await report(backend, call, worker.namespace, _turn(run_id, worker, epoch, commands), render)


def _turn(run_id: RunId, worker: Registration, epoch: int, commands: Sequence[Sent]) -> Advance | FailTask:
    """The request that a list of commands stands for; one that gives the task up stands for nothing else (R21)."""
    obeyed: list[AnyCommand] = []
    for command in commands:
        if isinstance(command, FailTaskCommand):
            return FailTask(run_id, worker.worker, epoch, *command.stuck())
        obeyed.append(command)
    return Advance(run_id, worker.worker, epoch, -1, tuple(obeyed))


def _advanced(workflow_id: str, run_id: RunId, reply: object) -> tuple[int, bytes]:
    if isinstance(reply, Advanced) and not reply.accepted:
        refusal = Refused("the run has events that this worker has not seen", code=reply.code)
        refusal.workflow_id, refusal.run_id = workflow_id, run_id
        answer = answers.error(refusal)
        return answer.status, answer.body
    return 200, b""


async def extend_task(backend: Backend, call: ApiCall) -> HttpResponse:
    """Keep a workflow task for another lease (R37)."""
    body = await call.read(TaskBody)
    worker = await _registered(backend, call, body.worker_id)
    run_id, epoch = await _held(backend, call, worker, body.task_token)
    request = ExtendTask(run_id, worker.worker, epoch, backend.settings.task_lease)
    return await report(backend, call, worker.namespace, request, _extended)


def _extended(reply: object) -> tuple[int, bytes]:
    until = reply.until if isinstance(reply, Task) else None
    return 200, answers.encoded(responses.LeaseAnswer(lease_until=None if until is None else seconds(until)))


async def _held(backend: Backend, call: ApiCall, worker: Registration, token: str | None) -> tuple[RunId, int]:
    """The run whose task a worker speaks of, and the epoch of its lease if it can prove one."""
    name = call.parameters["workflow_id"]
    if token is not None:
        lease = backend.tokens.open(token)
        if lease.namespace != worker.namespace or _of_activity(lease) or not await _named(backend, lease, name):
            raise NotFound("task", code="unknown_task")
        return lease.run_id, lease.fence
    key = await backend.engine.reads.current(Namespace(worker.namespace), WorkflowId(name))
    return key.run_id, HELD_EPOCH


def _of_activity(lease: Lease) -> bool:
    """Is it one of an activity? Only tokens of a version that knew no better do not say so."""
    return lease.activity or lease.seq != 0


async def _named(backend: Backend, lease: Lease, workflow_id: str) -> bool:
    """Is the run of a lease one of this workflow?"""
    run = backend.engine.reads.live(lease.run_id)
    if run is not None:
        return run.workflow_id == workflow_id
    return await backend.engine.reads.find(lease.namespace, workflow_id, lease.run_id) is not None


# activities


async def poll_activity_task(backend: Backend, call: ApiCall) -> HttpResponse:
    """An attempt of an activity, or `{"task": null}`."""
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
    """An attempt succeeded."""
    body = await call.read(CompleteBody)
    result = payload(body.result, "result")
    lease = await _attempt(backend, call, body.task_token)
    request = CompleteActivity(lease.run_id, lease.seq, lease.fence, result)
    try:
        return await report(backend, call, lease.namespace, request)
    except Refused as refusal:
        known = await backend.engine.reads.activity(lease.fence)
        if known is not None and _same(known, lease) and known.status == COMPLETED and known.result == result:
            return answers.empty()  # the same report again: its answer was lost (4.3)
        raise refusal


async def fail(backend: Backend, call: ApiCall) -> HttpResponse:
    """An attempt failed; the policy says what follows."""
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
    """Is the attempt that reports the last one that there was?"""
    return known.attempt_id == lease.fence


def _failed(known: StoredActivity) -> str | None:
    """What the last attempt failed with, if it did."""
    if known.status == FAILED:
        return known.error
    return None if known.last_failure is None or known.claimed_by is not None else known.last_failure.message


async def heartbeat(backend: Backend, call: ApiCall) -> HttpResponse:
    """An attempt is alive; it hears here that it is no longer wanted."""
    body = await call.read(HeartbeatBody)
    lease = await _attempt(backend, call, body.task_token)
    request = HeartbeatActivity(lease.run_id, lease.seq, lease.fence, payload(body.details, "details"))
    return await report(backend, call, lease.namespace, request, _beaten)


def _beaten(reply: object) -> tuple[int, bytes]:
    """Nothing, as the original says it, unless there is something to say."""
    if isinstance(reply, Activity) and reply.cancel_requested:
        return 200, answers.encoded({"cancel_requested": True})
    return 200, b""


async def _attempt(backend: Backend, call: ApiCall, token: str | None) -> Lease:
    """The attempt that a report is about; its id says enough, a token says it again."""
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
        "Ask for a workflow task",
        poll_workflow_task,
        PollBody,
        responses.WorkflowTask | None,
        query=(WAIT,),
    ),
    _route(
        "/workflow-tasks/{workflow_id}/commands",
        "submitCommands",
        "Send what workflow code asks for",
        submit_commands,
        CommandsBody,
        None,
        idempotent=True,
    ),
    _route(
        "/workflow-tasks/{workflow_id}/heartbeat",
        "extendWorkflowTask",
        "Keep a workflow task",
        extend_task,
        TaskBody,
        responses.LeaseAnswer,
        idempotent=True,
    ),
    _route(
        "/tasks/poll",
        "pollActivityTask",
        "Ask for an activity",
        poll_activity_task,
        PollBody,
        (responses.ActivityTask, responses.NoTask),
        query=(WAIT,),
    ),
    _route(
        "/tasks/{task_id}/complete",
        "completeTask",
        "Report a success",
        complete,
        CompleteBody,
        None,
        body_optional=True,
        idempotent=True,
    ),
    _route("/tasks/{task_id}/fail", "failTask", "Report a failure", fail, FailBody, None, idempotent=True),
    _route(
        "/tasks/{task_id}/heartbeat",
        "heartbeatTask",
        'Report that an attempt is alive; the answer is empty, or {"cancel_requested": true}',
        heartbeat,
        HeartbeatBody,
        None,
        body_optional=True,
        idempotent=True,
    ),
)
