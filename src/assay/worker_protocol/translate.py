"""Translate a worker's requests into reports, and reports into the engine's requests.

A request begins with the run and the lease, a report with its number and the token of the lease; all other fields are
the same.
"""

from collections.abc import Callable
from operator import attrgetter
from typing import Any, Final, get_args

import msgspec

from assay.core.model import requests as rq
from assay.core.model.commands import AnyCommand, FailWorkflow
from assay.core.model.errors import Invalid
from assay.core.model.failure import FailureInfo
from assay.core.model.ids import RunId, WorkerId
from assay.core.model.limits import WORKER_LEASE
from assay.core.model.payload import NULL, SAFE_PAYLOAD_BYTES, Payload, check_limits
from assay.worker_protocol import messages as wire
from assay.worker_protocol.tokens import Lease, Token, unknown_task

OpenToken = Callable[[Token], Lease]
AttemptToken = Callable[[int], Token]
Values = Callable[[Any], tuple[Any, ...]]


def _values_of(names: list[str]) -> Values:
    """Return a function that returns the values of these fields."""
    if len(names) > 1:
        return attrgetter(*names)
    if names:
        only = attrgetter(names[0])
        return lambda struct: (only(struct),)
    return lambda _: ()


def _documents_of(struct: type[Any]) -> Values:
    """Return a function that returns the documents in a struct."""
    return _values_of([field.name for field in msgspec.structs.fields(struct) if field.type is msgspec.Raw])


COMMAND_DOCUMENTS: Final = {command: _documents_of(command) for command in get_args(AnyCommand)}


class Translation:
    """The correspondence of a type of requests and its type of reports."""

    __slots__ = ("_documents", "_extends", "_report", "_request", "_values", "about_attempt")

    def __init__(self, request: type[rq.ToRun], report: type[wire.WorkerReport]) -> None:
        self._request: Any = request
        self._report: Any = report
        self._values = _values_of([name for name in report.__struct_fields__ if name not in ("n", "token")])
        self._documents = _documents_of(report)
        self._extends = (WORKER_LEASE,) if "lease" in request.__struct_fields__ else ()
        self.about_attempt = "attempt_id" in request.__struct_fields__

    def report(self, request: rq.ToRun, n: int, token: Token) -> wire.Report:
        """Return the report for a request."""
        found: wire.Report = self._report(n, token, *self._values(request))
        return found

    def request(self, report: wire.Report, lease: Lease) -> rq.Request:
        """Return the request of a report; run, worker and lease are taken from the token."""
        if lease.activity is not self.about_attempt:
            raise unknown_task()
        for document in self._documents(report):
            _check(document)
        if type(report) is wire.FailActivityReport:
            _check_failure(report.failure)
        holder = (lease.seq, lease.fence) if lease.activity else (WorkerId(lease.worker), lease.fence)
        found: rq.Request = self._request(RunId(lease.run_id), *holder, *self._values(report), *self._extends)
        return found


_PAIRS: Final[tuple[tuple[type[rq.ToRun], type[wire.WorkerReport]], ...]] = (
    (rq.FailTask, wire.FailTaskReport),
    (rq.ExtendTask, wire.ExtendTaskReport),
    (rq.ReleaseTask, wire.ReleaseTaskReport),
    (rq.CompleteActivity, wire.CompleteActivityReport),
    (rq.FailActivity, wire.FailActivityReport),
    (rq.CancelledActivity, wire.CancelledActivityReport),
    (rq.HeartbeatActivity, wire.HeartbeatActivityReport),
    (rq.ExtendActivity, wire.ExtendActivityReport),
    (rq.ReleaseActivity, wire.ReleaseActivityReport),
)
BY_REQUEST: Final = {request: Translation(request, report) for request, report in _PAIRS}
_BY_REPORT: Final = {report: BY_REQUEST[request] for request, report in _PAIRS}


def request_of(report: wire.Report | wire.Unreadable, lease: Lease, open_token: OpenToken) -> rq.Request:
    """Return the request of a report.

    Args:
        report: The report of a worker.
        lease: The lease of its token.
        open_token: Opens the tokens of attempts in the report; raises `NotFound` for a token of another worker.

    Raises:
        NotFound: The report does not belong to a lease of this worker.
        Invalid: A document in the report is above its limits, or the report could not be decoded.
    """
    if type(report) is wire.AdvanceReport:
        return _advance_request(report, lease, open_token)
    if isinstance(report, wire.Unreadable):
        raise Invalid(report.reason, code="wrong_shape")
    return _BY_REPORT[type(report)].request(report, lease)


def advance_report(request: rq.Advance, n: int, token: Token, attempt_token: AttemptToken) -> wire.AdvanceReport:
    """Return the report of a turn; `attempt_token` returns the token of an attempt by its id."""
    outcomes = tuple([_reported(outcome, attempt_token) for outcome in request.outcomes]) if request.outcomes else ()
    pending, early, more = request.pending, request.early, request.more
    commands, deadlock = request.commands, request.deadlock
    return wire.AdvanceReport(n, token, request.seen_seq, commands, outcomes, pending, early, more, deadlock)


def _reported(
    outcome: rq.StepOutcome | rq.ActivityOutcome, attempt_token: AttemptToken
) -> wire.StepDone | wire.ActivityDone:
    if isinstance(outcome, rq.ActivityOutcome):
        return wire.ActivityDone(attempt_token(outcome.attempt_id), outcome.time, outcome.result)
    return wire.StepDone(
        outcome.seq,
        outcome.name,
        outcome.time,
        outcome.result,
        outcome.failure,
        outcome.attempt,
        outcome.retry_in,
        outcome.input_hash,
    )


def _advance_request(report: wire.AdvanceReport, lease: Lease, open_token: OpenToken) -> rq.Advance:
    if lease.activity:
        raise unknown_task()
    for command in report.commands:
        for document in COMMAND_DOCUMENTS[type(command)](command):
            if document is not NULL and memoryview(document).nbytes > SAFE_PAYLOAD_BYTES:
                check_limits(bytes(document))
        if type(command) is FailWorkflow:
            _check_failure(command.failure)
    return rq.Advance(
        RunId(lease.run_id),
        WorkerId(lease.worker),
        lease.fence,
        report.seen_seq,
        report.commands,
        tuple([_outcome(outcome, lease, open_token) for outcome in report.outcomes]) if report.outcomes else (),
        report.pending,
        report.early,
        WORKER_LEASE,
        more=report.more,
        deadlock=report.deadlock,
    )


def _outcome(
    outcome: wire.StepDone | wire.ActivityDone, lease: Lease, open_token: OpenToken
) -> rq.StepOutcome | rq.ActivityOutcome:
    _check(outcome.result)
    if isinstance(outcome, wire.ActivityDone):
        attempt = open_token(outcome.token)
        if not attempt.activity or attempt.run_id != lease.run_id:
            raise unknown_task()
        return rq.ActivityOutcome(attempt.seq, attempt.fence, outcome.time, outcome.result)
    _check_failure(outcome.failure)
    return rq.StepOutcome(
        outcome.seq,
        outcome.name,
        outcome.time,
        outcome.result,
        outcome.failure,
        outcome.attempt,
        outcome.retry_in,
        outcome.input_hash,
    )


def _check(document: Payload) -> None:
    """Raise `Invalid` for a document above its limits; the document was parsed with its message."""
    if document is not NULL and memoryview(document).nbytes > SAFE_PAYLOAD_BYTES:
        check_limits(bytes(document))


def _check_failure(info: FailureInfo | None) -> None:
    """Raise `Invalid` for a failure with details above their limits, also in a cause."""
    part = info
    while part is not None:
        _check(part.details)
        part = part.cause
