"""Responses and bodies of bulk actions."""

from typing import Any

import msgspec

from assay.wire.responses import WorkflowRecord


class BatchBody(msgspec.Struct, kw_only=True):
    """A bulk action to be previewed (`dry_run`), or the token of a preview to be started."""

    action: str = ""
    arguments: dict[str, Any] | None = None
    filter: dict[str, Any] | None = None
    run_ids: list[str] | None = None
    reason: str | None = None
    dry_run: bool = False
    token: str | None = None


class BatchPreview(msgspec.Struct, kw_only=True):
    """What a bulk action would do, with samples and the token that starts it."""

    matched: int
    capped: bool
    will_act: int
    will_skip: dict[str, int]
    sample: list[WorkflowRecord]
    token: str
    as_of: float


class BatchStarted(msgspec.Struct, kw_only=True):
    """The id of a started bulk action."""

    batch_id: str


class BatchRecord(msgspec.Struct, kw_only=True):
    """A bulk action with its progress; `state` is running, stopped or done."""

    batch_id: str
    action: str
    arguments: Any
    reason: str | None
    filter: Any
    as_of: float
    state: str
    total: int
    done: int
    succeeded: int
    refused: int
    skipped: int
    rate: int
    started_by: str | None
    started_at: float
    ended_at: float | None


class BatchItemRecord(msgspec.Struct, kw_only=True):
    """A run of a bulk action; `outcome` is null until the engine has acted on it."""

    workflow_id: str
    run_id: str
    outcome: str | None
    code: str | None
    message: str | None
    new_run_id: str | None
