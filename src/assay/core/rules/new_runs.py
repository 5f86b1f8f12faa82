"""Rules of new runs: by a start request, as a child, or as the next run of a chain."""

from collections.abc import Mapping
from operator import attrgetter
from typing import Any, Final

from msgspec.structs import replace

from assay._version import __version__
from assay.core.model.context import merged_context
from assay.core.model.effects import Decision
from assay.core.model.errors import AlreadyExists, Invalid
from assay.core.model.events import ParentLink, Recorded, StartData, UpdateReceived, WorkflowStarted
from assay.core.model.failure import FailureInfo
from assay.core.model.ids import Namespace, RunId, Time, WorkflowId
from assay.core.model.message_bodies import received
from assay.core.model.payload import NULL, Payload
from assay.core.model.peers import Peer, PeerKey
from assay.core.model.policies import IdReuse
from assay.core.model.requests import StartWorkflow
from assay.core.model.run import COMPLETED, Run, Task
from assay.core.model.start_options import OPTION_KINDS
from assay.core.rules import updates, watches
from assay.core.rules.moment import Moment
from assay.core.schedules.timetable import parse_timetable


def check_free(existing: Run | None) -> None:
    """Raise `AlreadyExists` for an id whose newest run is open (I15)."""
    if existing is not None and not existing.closed:
        raise _taken(existing, f"workflow '{existing.workflow_id}' is already running")


def check_reuse(existing: Run | None, policy: IdReuse) -> None:
    """Raise `AlreadyExists` if the policy does not allow another run after the closed one."""
    if existing is None or policy is IdReuse.ALLOW_DUPLICATE:
        return
    if policy is IdReuse.REJECT_DUPLICATE:
        raise _taken(existing, f"workflow id '{existing.workflow_id}' was used before and may not be used again")
    if existing.status == COMPLETED:
        raise _taken(existing, f"workflow '{existing.workflow_id}' has completed; only a failed one may be repeated")


def check_type(existing: Run, workflow_type: str) -> None:
    """Raise `AlreadyExists` if the existing run has another workflow type."""
    if workflow_type not in existing.start.chain_types:
        found = existing.start.workflow_type
        message = f"workflow id '{existing.workflow_id}' has a run of type '{found}', not '{workflow_type}'"
        raise _taken(existing, f"{message}; choose another id", "other_workflow_type")


def _taken(existing: Run, message: str, code: str | None = None) -> AlreadyExists:
    facts = {"workflow_id": existing.workflow_id, "run_id": existing.run_id, "status": existing.status}
    return AlreadyExists(message, existing=facts, code=code)


def new_run(request: StartWorkflow, previous: Run | None, at: Moment, parent: ParentLink | None = None) -> Decision:
    """Return the first decision of a new run by request; `previous` is the last run of the same id."""
    run_id = at.ids.run_id()
    first_task_at = _first_task_at(request, at.now)
    # a time-out of zero means no time-out
    deadline = at.now + request.execution_timeout if request.execution_timeout else None
    start = StartData(
        workflow_type=request.workflow_type,
        task_queue=request.task_queue,
        first_run_id=run_id,
        parent=parent,
        execution_deadline=deadline,
        first_task_at=first_task_at,
        scheduled_for=request.scheduled_for,
        schedule=request.schedule,
        request_id=request.request_id,
        engine_version=__version__,
    )
    options = recorded_options(request)
    if request.run_timeout is not None or request.execution_timeout is not None:
        options["run_timeout"] = _run_timeout(request)
    if options:  # most starts have no options, and the copy is expensive
        start = replace(start, **options)
    number = 1 if previous is None else previous.number + 1
    run = empty_run(request.namespace, request.workflow_id, run_id, number, start, request.input, at)
    decision = first_decision(run, request.input, at)
    for message in request.signals:
        decision.record(received(message.name, message.args, message.sender, message.payload))
    return decision


def with_inherited(request: StartWorkflow, parent: StartData) -> StartWorkflow:
    """Return the request of a child with the context, actor, scope and priority of its parent, unless given.

    The context is merged by key: the command has only the values of the call.
    """
    if parent.context is NULL and parent.actor is None and parent.scope is None and parent.priority is NULL:
        return request
    return replace(
        request,
        context=merged_context(parent.context, request.context),
        actor=parent.actor if request.actor is None else request.actor,
        scope=parent.scope if request.scope is None else request.scope,
        priority=parent.priority if request.priority is NULL else request.priority,
    )


def recorded_options(options: StartWorkflow | StartData) -> dict[str, Any]:
    """Return the options with a value, of a request or of a run, that `StartData` records under the same name."""
    found: dict[str, Any] = {}
    values = _recorded(options)
    if values == _NONE_GIVEN:  # the fast path of most starts
        return found
    for name, value in zip(_RECORDED, values, strict=True):
        if value is not None and value is not NULL:
            found[name] = value
    return found


_RECORDED: Final = tuple(name for name in StartData.__struct_fields__ if name in OPTION_KINDS)
_recorded: Final = attrgetter(*_RECORDED)
_NONE_GIVEN: Final = _recorded(StartData("", "", RunId("")))


def _run_timeout(request: StartWorkflow) -> Time | None:
    """Return the time-out of one run: at most the time-out of its chain, which is also the default."""
    run, chain = request.run_timeout, request.execution_timeout
    return min(run, chain) if run and chain else run or chain or None


def _first_task_at(request: StartWorkflow, now: Time) -> Time | None:
    if request.cron_schedule is None:
        return now + request.start_delay if request.start_delay else None
    slot = next_cron_time(request.cron_schedule, now)
    if slot is None:
        raise Invalid("cron_schedule never fires again", code="never_fires", field="cron_schedule")
    return slot


def empty_run(
    namespace: Namespace,
    workflow_id: WorkflowId,
    run_id: RunId,
    number: int,
    start: StartData,
    input: Payload,
    at: Moment,
) -> Run:
    """Return a run before its first event."""
    timeout = start.run_timeout
    return Run(
        namespace,
        workflow_id,
        run_id,
        number,
        start,
        at.now,
        updated_at=at.now,
        # The time-out counts from the first task: a start delay or the wait for a cron time is not part of the run.
        run_deadline=None if timeout is None else max(at.now, start.first_task_at or 0) + timeout,
        # Only a run that may be repeated keeps its input in memory: see `Run.input`.
        input=NULL if start.retry_policy is None and start.cron_schedule is None else input,
        memo=start.memo,
        search=start.search_attributes,
        open_steps=set(),
    )


def first_decision(run: Run, input: Payload, at: Moment) -> Decision:
    """Return the decision with the first event of a new run, and its first task: due now or at `first_task_at`."""
    start, first = run.start, run.start.first_task_at
    decision = Decision.of(run, at.now)
    decision.record(WorkflowStarted(input, start))
    decision.task = Task(since=at.now, not_before=first if first is not None and first > at.now else None)
    return decision


def next_run(
    run: Run,
    at: Moment,
    initiator: str,
    *,
    input: Payload,
    first_task_at: Time | None = None,
    workflow_type: str | None = None,
    task_queue: str | None = None,
    memo: Payload,
    search: Payload,
    last_result: Payload = NULL,
    last_failure: FailureInfo | None = None,
    signals: tuple[Recorded, ...] = (),
    peers: Mapping[PeerKey, Peer] | None = None,
) -> Decision:
    """Return the first decision of the next run of a chain: same id, new history, the options of the start.

    The watchers of the ended run, among its `peers`, go along; its own watches only if the code has continued as new.
    """
    old = run.start
    kind, first_kind = workflow_type or old.workflow_type, old.chain_types[1]
    start = replace(
        old,
        workflow_type=kind,
        task_queue=task_queue or old.task_queue,
        previous_run_id=run.run_id,
        initiator=initiator,
        attempt=old.attempt + 1 if initiator == "retry" else 1,
        memo=memo,
        search_attributes=search,
        first_task_at=first_task_at,
        last_completion_result=last_result,
        last_failure=last_failure,
        reopening=None,
        first_workflow_type=None if kind == first_kind else first_kind,
        engine_version=__version__,
        watches=watches.carried(peers) if initiator == "continue" else (),
    )
    following = empty_run(run.namespace, run.workflow_id, at.ids.run_id(), run.number + 1, start, input, at)
    decision = first_decision(following, input, at)
    for recorded in signals:
        decision.record(recorded.event)
        if isinstance(recorded.event, UpdateReceived):
            updates.carry(decision, recorded.event)
    if peers:
        watches.move(peers, decision, own=initiator == "continue")
    return decision


def next_cron_time(cron_schedule: str, after: Time) -> Time | None:
    """Return the next time at which a cron schedule starts a run; None if never."""
    return parse_timetable(cron_schedule).next(after, after)
