"""From what a worker reports to what the engine is asked, and from the engine's reply to the worker's answer."""

from collections.abc import Callable
from operator import attrgetter
from typing import Any, Final, get_args

import msgspec

from assay.core import requests as rq
from assay.core.commands import AnyCommand, FailWorkflow
from assay.core.errors import AssayError, Invalid, Kind
from assay.core.failure import FailureInfo
from assay.core.ids import RunId, WorkerId
from assay.core.limits import WORKER_LEASE
from assay.core.payload import HARMLESS, NULL, Payload, check_limits
from assay.core.replies import Advanced
from assay.core.run import Activity
from assay.engine.tokens import Lease, unknown
from assay.wire import exchange as wire


def _documents_of(command: type[Any]) -> Callable[[Any], tuple[Payload, ...]]:
    names = [field.name for field in msgspec.structs.fields(command) if field.type is msgspec.Raw]
    if len(names) > 1:
        return attrgetter(*names)
    return lambda given: tuple([getattr(given, name) for name in names])


DOCUMENTS: Final = {command: _documents_of(command) for command in get_args(AnyCommand)}
"""The documents in each kind of command."""

LeaseOf = Callable[[str], Lease]


def request_of(report: wire.Report, lease: Lease, lease_of: LeaseOf) -> rq.Request:
    """The request that a report stands for; all that is said of the lease comes from its token."""
    return _REQUESTS[type(report)](report, lease, lease_of)


def _advance(report: wire.Advance, lease: Lease, lease_of: LeaseOf) -> rq.Request:
    _task(lease)
    for command in report.commands:
        for document in DOCUMENTS[type(command)](command):
            if document is not NULL and memoryview(document).nbytes > HARMLESS:
                check_limits(bytes(document))
        if type(command) is FailWorkflow:
            _failure(command.failure)
    return rq.Advance(
        RunId(lease.run_id),
        WorkerId(lease.worker),
        lease.fence,
        report.seen_seq,
        report.commands,
        tuple([_outcome(outcome, lease, lease_of) for outcome in report.outcomes]) if report.outcomes else (),
        report.pending,
        report.early,
        WORKER_LEASE,
    )


def _outcome(
    outcome: wire.StepDone | wire.ActivityDone, lease: Lease, lease_of: LeaseOf
) -> rq.StepOutcome | rq.ActivityOutcome:
    if isinstance(outcome, wire.ActivityDone):
        attempt = _attempt(lease_of(outcome.token))
        if attempt.run_id != lease.run_id:
            raise unknown()
        return rq.ActivityOutcome(attempt.seq, attempt.fence, outcome.time, _payload(outcome.result))
    return rq.StepOutcome(
        outcome.seq,
        outcome.name,
        outcome.time,
        _payload(outcome.result),
        _failure(outcome.failure),
        outcome.attempt,
        outcome.retry_in,
        outcome.input_hash,
    )


def _payload(raw: Payload) -> Payload:
    """A document within its limits; that it is JSON was found out with its message."""
    if raw is not NULL and memoryview(raw).nbytes > HARMLESS:
        check_limits(bytes(raw))
    return raw


def _failure(info: FailureInfo | None) -> FailureInfo | None:
    """A failure whose details, and those of its causes, are within their limits."""
    part = info
    while part is not None:
        _payload(part.details)
        part = part.cause
    return info


def _task(lease: Lease) -> Lease:
    if lease.activity:
        raise unknown()
    return lease


def _attempt(lease: Lease) -> Lease:
    if not lease.activity:
        raise unknown()
    return lease


def _fail_task(report: wire.FailTask, lease: Lease, _: LeaseOf) -> rq.Request:
    _task(lease)
    return rq.FailTask(RunId(lease.run_id), WorkerId(lease.worker), lease.fence, report.reason, report.message)


def _extend_task(_report: wire.ExtendTask, lease: Lease, _: LeaseOf) -> rq.Request:
    _task(lease)
    return rq.ExtendTask(RunId(lease.run_id), WorkerId(lease.worker), lease.fence, WORKER_LEASE)


def _release_task(_report: wire.ReleaseTask, lease: Lease, _: LeaseOf) -> rq.Request:
    _task(lease)
    return rq.ReleaseTask(RunId(lease.run_id), WorkerId(lease.worker), lease.fence)


def _complete(report: wire.CompleteActivity, lease: Lease, _: LeaseOf) -> rq.Request:
    _attempt(lease)
    return rq.CompleteActivity(RunId(lease.run_id), lease.seq, lease.fence, _payload(report.result))


def _fail(report: wire.FailActivity, lease: Lease, _: LeaseOf) -> rq.Request:
    _attempt(lease)
    _failure(report.failure)
    return rq.FailActivity(RunId(lease.run_id), lease.seq, lease.fence, report.failure)


def _cancelled(report: wire.CancelledActivity, lease: Lease, _: LeaseOf) -> rq.Request:
    _attempt(lease)
    return rq.CancelledActivity(RunId(lease.run_id), lease.seq, lease.fence, _payload(report.details))


def _heartbeat(report: wire.HeartbeatActivity, lease: Lease, _: LeaseOf) -> rq.Request:
    _attempt(lease)
    return rq.HeartbeatActivity(RunId(lease.run_id), lease.seq, lease.fence, _payload(report.details), WORKER_LEASE)


def _extend(_report: wire.ExtendActivity, lease: Lease, _: LeaseOf) -> rq.Request:
    _attempt(lease)
    return rq.ExtendActivity(RunId(lease.run_id), lease.seq, lease.fence, WORKER_LEASE)


def _release(_report: wire.ReleaseActivity, lease: Lease, _: LeaseOf) -> rq.Request:
    _attempt(lease)
    return rq.ReleaseActivity(RunId(lease.run_id), lease.seq, lease.fence)


def _unreadable(report: wire.Unreadable, _lease: Lease, _: LeaseOf) -> rq.Request:
    raise Invalid(report.reason, code="wrong_shape")


_REQUESTS: Final[dict[type, Callable[[Any, Lease, LeaseOf], rq.Request]]] = {
    wire.Advance: _advance,
    wire.FailTask: _fail_task,
    wire.ExtendTask: _extend_task,
    wire.ReleaseTask: _release_task,
    wire.CompleteActivity: _complete,
    wire.FailActivity: _fail,
    wire.CancelledActivity: _cancelled,
    wire.HeartbeatActivity: _heartbeat,
    wire.ExtendActivity: _extend,
    wire.ReleaseActivity: _release,
    wire.Unreadable: _unreadable,
}


def answer_of(n: int, reply: object) -> wire.Answer:
    """What the worker hears of a reply."""
    if isinstance(reply, Advanced):
        return wire.Answer(n, advanced=reply)
    if isinstance(reply, Activity):
        return wire.Answer(n, cancel_requested=reply.cancel_requested)
    return wire.Answer(n)


def problem_of(error: BaseException) -> wire.Problem:
    """What the worker hears of an error; one that is not ours is said to be the engine's own fault."""
    if not isinstance(error, AssayError):
        return wire.Problem(f"the engine could not answer: {error!r}", "unanswered", Kind.UNAVAILABLE.value)
    field = error.field if isinstance(error, Invalid) else None
    return wire.Problem(str(error), error.code, error.kind.value, field)
