"""Responses about the activities of a run with all their attempts."""

from typing import Annotated, Any

import msgspec

from assay.wire.responses import ActivityRecord, Failure

ATTEMPT_OUTCOMES = ("running", "completed", "failed", "timed_out", "lost", "cancelled")


class AttemptRecord(msgspec.Struct, kw_only=True):
    """An attempt of an activity; `ended_at` is null while it runs."""

    attempt: int
    attempt_id: int
    outcome: Annotated[str, msgspec.Meta(extra_json_schema={"enum": list(ATTEMPT_OUTCOMES)})]
    worker: str | None
    identity: str | None
    started_at: float | None
    ended_at: float | None
    failure: Failure | None


class ActivityAttempts(ActivityRecord, kw_only=True):
    """An activity with its attempts, the first one first."""

    queued_at: float
    next_try_at: float | None
    last_failure: Failure | None
    heartbeat_details: Any
    identity: str | None
    attempts: list[AttemptRecord]


def outcome_of(word: str) -> str:
    """Return the outcome of an attempt that was recorded under this word."""
    if word == "lease":
        return "lost"
    return word if word in ATTEMPT_OUTCOMES else "timed_out"
