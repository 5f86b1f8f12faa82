"""What runs and schedules wait for, in responses; times are seconds since the epoch."""

from typing import Annotated, Final

import msgspec
from msgspec import UNSET, UnsetType

from assay.core.model import explanation as model
from assay.core.model.ids import Time, seconds

WaitKind = Annotated[str, msgspec.Meta(extra_json_schema={"enum": [*model.KINDS, *model.SCHEDULE_KINDS]})]
Attention = Annotated[str, msgspec.Meta(extra_json_schema={"enum": list(model.ATTENTIONS)})]


class WaitEntry(msgspec.Struct, kw_only=True):
    """A thing that a run or a schedule waits for; the fields after `seq` are only there for kinds that have them."""

    kind: WaitKind
    sentence: str
    attention: Attention
    since: float | None
    until: float | None
    seq: int | None
    subject: str | UnsetType = UNSET
    name: str | UnsetType = UNSET
    queue: str | UnsetType = UNSET
    served: list[str] | UnsetType = UNSET
    served_more: int | UnsetType = UNSET
    last_identity: str | UnsetType | None = UNSET
    last_seen: float | UnsetType | None = UNSET
    message: str | UnsetType = UNSET
    expected: str | UnsetType | None = UNSET
    actual: str | UnsetType | None = UNSET
    source: str | UnsetType | None = UNSET
    reason: str | UnsetType | None = UNSET
    by: str | UnsetType | None = UNSET
    activity: str | UnsetType = UNSET
    activity_id: int | UnsetType = UNSET
    step: str | UnsetType = UNSET
    attempt: int | UnsetType = UNSET
    max_attempts: int | UnsetType | None = UNSET
    error: str | UnsetType | None = UNSET
    worker: str | UnsetType = UNSET
    identity: str | UnsetType = UNSET
    heartbeat_at: float | UnsetType | None = UNSET
    workers: int | UnsetType = UNSET
    queued: int | UnsetType = UNSET
    running: int | UnsetType = UNSET
    retrying: int | UnsetType = UNSET
    open: int | UnsetType = UNSET
    total: int | UnsetType = UNSET
    signal: str | UnsetType | None = UNSET
    topics: list[str] | UnsetType = UNSET
    to: str | UnsetType | None = UNSET
    child_workflow_id: str | UnsetType = UNSET
    child_run_id: str | UnsetType = UNSET
    child_summary: str | UnsetType | None = UNSET
    workflow_type: str | UnsetType = UNSET
    status: str | UnsetType = UNSET
    timer_seq: int | UnsetType = UNSET
    cron: str | UnsetType | None = UNSET
    fires: int | UnsetType = UNSET
    workflow_id: str | UnsetType | None = UNSET
    timezone: str | UnsetType = UNSET


class WaitingOn(msgspec.Struct, kw_only=True):
    """What a run or a schedule waits for, the most telling wait first; `waits` is left out in short lists."""

    kind: WaitKind
    summary: str
    attention: Attention
    since: float | None
    until: float | None
    signal: str | None
    waits: list[WaitEntry] | UnsetType = UNSET
    more: int
    as_of: float


def waiting_record(waiting: model.Explanation) -> WaitingOn:
    """Return what a run or a schedule waits for; times are seconds since the epoch."""
    headline = waiting.headline
    return WaitingOn(
        kind=headline.kind,
        summary=headline.sentence,
        attention=waiting.attention,
        since=_seconds(headline.since),
        until=_seconds(headline.until),
        signal=headline.fields.get("signal"),
        waits=[_wait(wait) for wait in waiting.waits],
        more=waiting.more,
        as_of=seconds(waiting.as_of),
    )


def _wait(wait: model.Wait) -> WaitEntry:
    times = {name: _seconds(wait.fields[name]) for name in _TIME_FIELDS if name in wait.fields}
    return WaitEntry(
        kind=wait.kind,
        sentence=wait.sentence,
        attention=wait.attention,
        since=_seconds(wait.since),
        until=_seconds(wait.until),
        **{"seq": wait.seq, **wait.fields, **times},
    )


_TIME_FIELDS: Final = ("heartbeat_at", "last_seen")
"""Fields of waits that hold a time."""


def _seconds(time: Time | None) -> float | None:
    return None if time is None else seconds(time)
