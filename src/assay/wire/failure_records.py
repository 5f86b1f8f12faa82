"""Responses and bodies of failure groups."""

from typing import Annotated

import msgspec
from msgspec import UNSET, UnsetType

from assay.core.rules.failure_groups import GROUP_STATES, SOURCES
from assay.wire.responses import WorkflowRecord

GroupState = Annotated[str, msgspec.Meta(extra_json_schema={"enum": list(GROUP_STATES)})]


class FailureGroupRecord(msgspec.Struct, kw_only=True):
    """Runs that failed alike; `count` is of all, `open` of those that were not retried, continued or healed."""

    fingerprint: str
    source: Annotated[str, msgspec.Meta(extra_json_schema={"enum": list(SOURCES)})]
    workflow_type: str
    where: str
    kind: str
    type: str | None
    message: str
    count: int
    open: int
    first_seen: float
    last_seen: float
    per_hour: list[int]
    """The failures of the last 24 hours, the oldest hour first."""
    builds: list[str]
    sample: WorkflowRecord | None
    state: GroupState
    regressed: bool
    """True for a resolved group that has recurred."""
    assignee: str | None
    note: str | None


class FailureGroupBody(msgspec.Struct, kw_only=True):
    """What a person says about a failure group; fields that are left out stay as they are."""

    state: str | UnsetType = UNSET
    until: float | UnsetType | None = UNSET
    until_count: int | UnsetType | None = UNSET
    until_build: str | UnsetType | None = UNSET
    assignee: str | UnsetType | None = UNSET
    note: str | UnsetType | None = UNSET
