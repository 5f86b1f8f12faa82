"""Route of the activities of a run, with all their attempts."""

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec.structs import asdict

from assay.api import answers
from assay.api.answers import Header, HttpResponse
from assay.api.backend import Backend
from assay.api.call import ApiCall
from assay.api.records import activity_record
from assay.api.router import Parameter
from assay.api.routes.workflows import CURSOR, read_route
from assay.core.model.errors import Invalid
from assay.core.model.ids import Time, seconds
from assay.core.model.payload import Payload
from assay.core.model.run import CANCELLED, COMPLETED, FAILED, PENDING, RUNNING
from assay.engine.insight import EndedAttempt
from assay.engine.reads import StoredActivity
from assay.wire.attempt_records import ActivityAttempts, AttemptRecord, outcome_of
from assay.wire.render import failure_record

ACTIVITIES_PAGE: Final = 100
LARGEST_ACTIVITIES_PAGE: Final = 500
STATES: Final = (PENDING, RUNNING, COMPLETED, FAILED, CANCELLED)
BEFORE_FIRST: Final = -1
"""Polling workers count activities from 0."""


async def list_activities(backend: Backend, call: ApiCall) -> HttpResponse:
    """List the activities of a run by seq, each with its attempts."""
    run = await backend.engine.reads.state(call.namespace, call.parameters["workflow_id"], call.text("run_id"))
    limit, cursor, state = call.whole("limit"), call.whole("cursor"), call.text("state")
    if limit is not None and limit < 1:
        raise Invalid(f"limit must be from 1 to {LARGEST_ACTIVITIES_PAGE}", field="limit")
    if state is not None and state.upper() not in STATES:
        raise Invalid(f"state is {state!r}; it can be {', '.join(STATES)}", field="state")
    size = min(limit or ACTIVITIES_PAGE, LARGEST_ACTIVITIES_PAGE)
    after = BEFORE_FIRST if cursor is None else cursor
    found = await backend.insight.activities(run, None if state is None else state.upper(), after, size + 1)
    headers: list[Header] = []
    if len(found.activities) > size:
        headers.append((b"x-next-cursor", str(found.activities[size - 1][0].seq).encode()))
    page = found.activities[:size]
    records = [_record(*one, found.attempts.get(one[0].id, ()), found.identities) for one in page]
    return answers.json(records, 200, headers)


def _record(
    found: StoredActivity, details: Payload, ended: Sequence[EndedAttempt], identities: Mapping[str, str]
) -> ActivityAttempts:
    attempts = [_attempt(attempt, identities) for attempt in ended]
    if found.attempt and found.status in (RUNNING, COMPLETED, CANCELLED) and found.claimed_by is not None:
        # The last attempt is in the row of its activity, unless it failed: failed ones have rows of their own.
        attempts.append(
            AttemptRecord(
                attempt=found.attempt,
                attempt_id=found.attempt_id,
                outcome=found.status.lower(),
                worker=found.claimed_by,
                identity=identities.get(found.claimed_by),
                started_at=_seconds(found.started_at),
                ended_at=_seconds(found.completed_at),
                failure=None,
            )
        )
    holder = found.claimed_by or (attempts[-1].worker if attempts else None)
    return ActivityAttempts(
        **asdict(activity_record(found)),
        queued_at=seconds(found.queued_at or found.scheduled_at),
        next_try_at=_seconds(found.not_before) if found.completed_at is None else None,
        last_failure=None if found.last_failure is None else failure_record(found.last_failure),
        heartbeat_details=details,
        identity=None if holder is None else identities.get(holder),
        attempts=attempts,
    )


def _attempt(ended: EndedAttempt, identities: Mapping[str, str]) -> AttemptRecord:
    return AttemptRecord(
        attempt=ended.attempt,
        attempt_id=ended.id,
        outcome=outcome_of(ended.outcome),
        worker=ended.worker,
        identity=None if ended.worker is None else identities.get(ended.worker),
        started_at=_seconds(ended.started_at),
        ended_at=seconds(ended.ended_at),
        failure=None if ended.failure is None else failure_record(ended.failure),
    )


def _seconds(time: Time | None) -> float | None:
    return None if time is None else seconds(time)


ROUTES: Final = (
    read_route(
        "/workflows/{workflow_id}/activities",
        "listActivities",
        "List the activities of a run with their attempts",
        list_activities,
        list[ActivityAttempts],
        query=(
            Parameter("state", "Only activities of this status."),
            Parameter("cursor", "The X-Next-Cursor of the previous page.", int),
            Parameter("limit", f"The maximum number; default 100, at most {LARGEST_ACTIVITIES_PAGE}.", int),
        ),
        headers=(CURSOR,),
    ),
)
