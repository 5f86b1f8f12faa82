"""Routes of workers and queues: register, heartbeat and list."""

from typing import Final

from assay.api import answers
from assay.api.access import READ, WORK_REGISTERED, require, require_queue
from assay.api.answers import HttpResponse
from assay.api.backend import Backend
from assay.api.call import ApiCall
from assay.api.mutations import answer_of, key_of
from assay.api.router import Route
from assay.api.routes.workflows import NAMESPACE, TOTAL
from assay.auth.permissions import Permission
from assay.core.model.errors import Invalid
from assay.core.model.options import check_concurrency, check_text
from assay.core.registrations import WorkerHealth
from assay.engine.commit.idempotency import Rendered
from assay.engine.worker_registry import WorkerRow
from assay.wire import responses
from assay.wire.registrations import queue_record, worker_record
from assay.wire.request_bodies import RegisterBody, WorkerBody

DEFAULT_CONCURRENCY: Final = 10
"""Concurrent tasks of each kind, for a worker that gives no number."""

HIGHEST_ABANDONED_THREADS: Final = 1_000_000
"""The highest number that the database and clients can represent; no process has as many threads."""


async def register(backend: Backend, call: ApiCall) -> HttpResponse:
    """Register a worker, and return its id."""
    body = await call.read(RegisterBody)
    namespace = body.namespace or call.namespace
    require(call.principal, Permission.WORK, namespace)
    require_queue(call.principal, body.queue, namespace)
    row = WorkerRow(
        id="",
        namespace=namespace,
        identity=check_text(body.identity, "identity") or "",
        task_queue=body.queue,
        workflows=None if body.workflows is None else tuple(body.workflows),
        activities=None if body.activities is None else tuple(body.activities),
        max_concurrent_workflows=_concurrency(body.max_concurrent_workflows, "max_concurrent_workflows"),
        max_concurrent_activities=_concurrency(body.max_concurrent_activities, "max_concurrent_activities"),
        registered_at=0,
        last_heartbeat=0,
    )
    registered = await backend.worker_registry.register(row, await key_of(call, namespace, _registered))
    return answer_of(registered if isinstance(registered, Rendered) else Rendered(*_registered(registered)))


def _registered(reply: object) -> tuple[int, bytes]:
    if not isinstance(reply, WorkerRow):
        raise TypeError(reply)
    return 200, answers.encoded(responses.RegisterAnswer(worker_id=reply.id))


def _concurrency(number: int | None, name: str) -> int:
    return DEFAULT_CONCURRENCY if number is None else check_concurrency(number, name)


async def heartbeat(backend: Backend, call: ApiCall) -> HttpResponse:
    """Record a heartbeat of a worker, and its health if the body has it."""
    body = await call.read(WorkerBody)
    abandoned = body.abandoned_threads or 0
    if not 0 <= abandoned <= HIGHEST_ABANDONED_THREADS:
        raise Invalid(f"abandoned_threads is from 0 to {HIGHEST_ABANDONED_THREADS}", field="abandoned_threads")
    worker = await backend.worker_registry.worker(body.worker_id, call.principal.has_role_in)
    require(call.principal, Permission.WORK, worker.namespace)
    if body.healthy is not None or body.abandoned_threads is not None:
        backend.worker_registry.note_health(body.worker_id, WorkerHealth(body.healthy is not False, abandoned))
    return answers.empty()


async def list_workers(backend: Backend, call: ApiCall) -> HttpResponse:
    """List the workers that sent a message in the last 90 seconds."""
    found = await backend.worker_registry.workers(call.namespace)
    return answers.listed([worker_record(row, active) for row, active in found])


async def list_queues(backend: Backend, call: ApiCall) -> HttpResponse:
    """List the task queues with open work or with workers."""
    return answers.listed([queue_record(row) for row in await backend.worker_registry.queues(call.namespace)])


ROUTES: Final = (
    Route(
        method="POST",
        path="/workers/register",
        operation_id="registerWorker",
        summary="Register a worker",
        tag="workers",
        reaction=register,
        body=RegisterBody,
        idempotent=True,
        answers={200: responses.RegisterAnswer},
        access=WORK_REGISTERED,
    ),
    Route(
        method="POST",
        path="/workers/heartbeat",
        operation_id="heartbeatWorker",
        summary="Send a heartbeat of a worker",
        tag="workers",
        reaction=heartbeat,
        body=WorkerBody,
        answers={200: None},
        access=WORK_REGISTERED,
    ),
    Route(
        method="GET",
        path="/workers",
        operation_id="listWorkers",
        summary="List workers",
        tag="workers",
        reaction=list_workers,
        query=(NAMESPACE,),
        headers=(TOTAL,),
        answers={200: list[responses.WorkerRecord]},
        access=READ,
    ),
    Route(
        method="GET",
        path="/queues",
        operation_id="listQueues",
        summary="List queues",
        tag="queues",
        reaction=list_queues,
        query=(NAMESPACE,),
        headers=(TOTAL,),
        answers={200: list[responses.QueueStats]},
        access=READ,
    ),
)
