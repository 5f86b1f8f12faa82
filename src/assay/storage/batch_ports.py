"""The port of bulk actions."""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from assay.core.model.attached_rows import AuditRow
from assay.core.model.ids import Time


class BatchRow(msgspec.Struct, frozen=True, kw_only=True):
    """A bulk action with its numbers; `state` is preview, running, stopped or done."""

    batch_id: str
    namespace: str
    token: str
    action: str
    arguments: bytes
    reason: str | None
    filter: bytes
    as_of: Time
    state: str
    total: int
    started_by: str | None
    started_at: Time
    ended_at: Time | None = None
    expires_at: Time = 0
    """The time until which a previewed batch can be started."""
    succeeded: int = 0
    refused: int = 0
    skipped: int = 0


class BatchItem(msgspec.Struct, frozen=True, kw_only=True):
    """A run of a bulk action; `outcome` is None until the engine has acted on it."""

    place: int
    workflow_id: str
    run_id: str
    outcome: str | None = None
    code: str | None = None
    message: str | None = None
    new_run_id: str | None = None


class Batches(Protocol):
    """Bulk actions in the store: written once, then worked off by the engine that holds their lease."""

    async def add(self, row: BatchRow) -> None:
        """Write a previewed batch, without items."""
        ...

    async def start(
        self, batch_id: str, items: Sequence[BatchItem], by: str | None, now: Time, audit: AuditRow | None
    ) -> None:
        """Start a previewed batch with its items, once: a second start changes nothing."""
        ...

    async def batch(self, batch_id: str) -> BatchRow | None:
        """Return a batch, or None."""
        ...

    async def by_token(self, token: str) -> BatchRow | None:
        """Return the batch that was started with a token, or None."""
        ...

    async def batches(self, namespace: str, limit: int) -> Sequence[BatchRow]:
        """Return the batches of a namespace, newest first."""
        ...

    async def items(
        self, batch_id: str, outcome: str | None, after: int, limit: int, *, undone: bool = False
    ) -> Sequence[BatchItem]:
        """Return items of a batch in order, with an outcome if given, or those without one."""
        ...

    async def take(self, holder: str, now: Time, until: Time) -> BatchRow | None:
        """Take the lease of a running batch that this engine or no engine holds; None if none is left."""
        ...

    async def settle(self, batch_id: str, items: Sequence[BatchItem], holder: str, until: Time) -> bool:
        """Write the outcomes of items and extend the lease; return False if the batch was stopped or taken over."""
        ...

    async def end(self, batch_id: str, state: str, now: Time) -> None:
        """End a running batch."""
        ...
