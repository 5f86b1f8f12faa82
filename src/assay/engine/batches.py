"""Bulk actions: an engine takes a running batch, acts on its runs at a bounded rate, and records each outcome.

Each action has an idempotency key, kept in the transaction of the action: a run is acted on exactly once, also if the
engine dies before the outcome is recorded, because the next engine gets the first answer again.
"""

import asyncio
import hashlib
import secrets
from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from assay.core.model.attached_rows import AuditRow
from assay.core.model.duration import parse_duration
from assay.core.model.errors import AssayError
from assay.core.model.ids import SECOND, RunId, Time, seconds
from assay.core.model.payload import NULL
from assay.core.model.replies import Reopened
from assay.core.model.requests import Request, RequestCancel, RetryFailed, Signal, Terminate
from assay.core.rules.retry_cut import refusal_of
from assay.engine.clock import Clock
from assay.engine.commit.audit_note import AuditNote
from assay.engine.commit.idempotency import IdempotencyKey, Rendered
from assay.engine.engine import Engine
from assay.storage.batch_ports import Batches, BatchItem, BatchRow
from assay.storage.ports import StoredRun

ACTIONS: Final = ("cancel", "terminate", "signal", "retry")
PREVIEW, RUNNING, STOPPED, DONE = "preview", "running", "stopped", "done"
SUCCEEDED, REFUSED, SKIPPED = "succeeded", "refused", "skipped"
BATCH_LEASE: Final[Time] = 10 * SECOND
BATCH_RATE: Final = 200
"""Runs that a batch acts on per second."""
CHUNK_RUNS: Final = 50
IDLE_PAUSE: Final[Time] = 5 * SECOND
"""Time until an idle engine looks for batches of others."""

__all__ = [
    "ACTIONS", "BATCH_RATE", "DONE", "PREVIEW", "RUNNING", "STOPPED", "BatchItem", "BatchRow", "BatchRunner", "Batches",
    "skip_reason",
]  # fmt: skip


class BatchArguments(msgspec.Struct, kw_only=True, frozen=True):
    """Arguments of the action: the signal and its payload, or the time after which a cancelled run is terminated."""

    name: str | None = None
    payload: msgspec.Raw = NULL
    terminate_after: float | str | None = None


_arguments = msgspec.json.Decoder(BatchArguments).decode


def skip_reason(action: str, run: StoredRun) -> str | None:
    """Return why a run does not fit an action, or None."""
    if action == "retry":
        refusal = refusal_of(run)
        return None if refusal is None else refusal.code
    return "workflow_closed" if run.closed else None


def request_of(action: str, run: StoredRun, arguments: BatchArguments, reason: str | None, by: str) -> Request:
    """Return the request of an action on a run."""
    target = (run.namespace, run.workflow_id, run.run_id)
    if action == "cancel":
        after = arguments.terminate_after
        limit = None if after is None else parse_duration(after, "terminate_after")
        return RequestCancel(*target, reason=reason, sender=by, deadline=limit)
    if action == "terminate":
        return Terminate(*target, reason=reason, by=by)
    if action == "signal":
        return Signal(*target, name=arguments.name or "", payload=arguments.payload, sender=by)
    return RetryFailed(*target, requested_by=by, reason=reason or "bulk retry")


class BatchRunner:
    """Works off batches; a service of every engine."""

    def __init__(self, engine: Engine, batches: Batches, clock: Clock, *, audited: bool = False) -> None:
        self._engine = engine
        self._batches = batches
        self._clock = clock
        self._audited = audited
        self._holder = secrets.token_hex(8)

    async def run_once(self) -> Time | None:
        """Work off one batch to its end; return the time of the next look."""
        now = self._clock.now()
        batch = await self._batches.take(self._holder, now, now + BATCH_LEASE)
        if batch is None:
            return now + IDLE_PAUSE
        after = -1
        while True:
            began = self._clock.now()
            items = await self._batches.items(batch.batch_id, None, after, CHUNK_RUNS, undone=True)
            if not items:
                await self._batches.end(batch.batch_id, DONE, self._clock.now())
                return self._clock.now()
            settled = await self._act(batch, items)
            after = items[-1].place
            until = self._clock.now() + BATCH_LEASE
            if not await self._batches.settle(batch.batch_id, settled, self._holder, until):
                return self._clock.now()  # stopped, or another engine has taken the batch over
            spent = seconds(self._clock.now() - began)
            await asyncio.sleep(max(0.0, len(items) / BATCH_RATE - spent))

    async def _act(self, batch: BatchRow, items: Sequence[BatchItem]) -> list[BatchItem]:
        runs = {run.run_id: run for run in await self._engine.reads.live_all([RunId(item.run_id) for item in items])}
        acts = (self._act_on(batch, item, runs.get(RunId(item.run_id))) for item in items)
        return list(await asyncio.gather(*acts))

    async def _act_on(self, batch: BatchRow, item: BatchItem, run: StoredRun | None) -> BatchItem:
        if run is None:
            return replace(item, outcome=SKIPPED, code="not_found", message="the run does not exist any more")
        known = f"batch/{batch.batch_id}/{item.place}"
        key = IdempotencyKey(batch.namespace, known, hashlib.sha256(known.encode()).digest(), _rendered)
        request = request_of(batch.action, run, _arguments(batch.arguments), batch.reason, batch.started_by or "batch")
        try:
            reply = await self._engine.submit(request, key, audit=self._note(batch, item))
        except AssayError as error:
            skipped = skip_reason(batch.action, run) is not None
            return replace(item, outcome=SKIPPED if skipped else REFUSED, code=error.code, message=str(error))
        return _settled(item, reply if isinstance(reply, Rendered) else Rendered(*_rendered(reply)))

    def _note(self, batch: BatchRow, item: BatchItem) -> AuditNote | None:
        if not self._audited:
            return None
        row = AuditRow(
            at=self._clock.now(),
            actor=batch.started_by,
            credential=None,
            address=None,
            action=f"batch:{batch.action}",
            namespace=batch.namespace,
            target=item.workflow_id,
            request_id=batch.batch_id,
        )
        return AuditNote(row, None)


def _rendered(reply: object) -> tuple[int, bytes]:
    if isinstance(reply, AssayError):
        return 400, msgspec.json.encode({"code": reply.code, "message": str(reply)})
    new_run_id = reply.key.run_id if isinstance(reply, Reopened) else None
    return 200, msgspec.json.encode({"new_run_id": new_run_id})


_CLOSED_CODES: Final = frozenset({"workflow_closed", "not_retryable", "already_continued", "is_child"})


def _settled(item: BatchItem, answer: Rendered) -> BatchItem:
    body: dict[str, Any] = msgspec.json.decode(answer.body)
    if answer.status == 200:
        return replace(item, outcome=SUCCEEDED, new_run_id=body["new_run_id"])
    outcome = SKIPPED if body["code"] in _CLOSED_CODES else REFUSED
    return replace(item, outcome=outcome, code=body["code"], message=body["message"])
