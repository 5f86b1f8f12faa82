"""Transactions of Postgres with an unanswered COMMIT: their status, read by transaction id (I3)."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from assay.core.model.errors import Invalid
from assay.core.model.ids import RunId
from assay.storage.ports import CommitStatus
from assay.storage.sql import queries

STATUSES = {
    "committed": CommitStatus.COMMITTED,
    "aborted": CommitStatus.ABORTED,
    "in progress": CommitStatus.IN_PROGRESS,
}


class PostgresCommit:
    """See `UnansweredCommit`."""

    def __init__(self, fetch: Callable[..., Awaitable[Sequence[Sequence[Any]]]], lost: frozenset[RunId]) -> None:
        self._fetch = fetch
        self.lost = lost
        self.xid: int | None = None
        """The transaction's id, returned by its first write; None before."""
        self.event: tuple[RunId, int] | None = None
        """The run and seq of an event of the transaction; None if the transaction writes no event."""

    async def status(self) -> CommitStatus:
        """See `UnansweredCommit`."""
        if self.xid is None:
            return CommitStatus.COMMITTED  # without a write, committed and aborted are the same
        try:
            ((status,),) = await self._fetch(queries.TRANSACTION_STATUS, self.xid)
        except Invalid:
            # The server has not assigned this id yet: after a failover, another server is the primary.
            return CommitStatus.UNKNOWN
        if status == "committed" and not await self._is_ours():
            return CommitStatus.UNKNOWN
        return STATUSES.get(status, CommitStatus.UNKNOWN)

    async def _is_ours(self) -> bool:
        """Return False if a different transaction has this id: after a failover the new primary assigns ids again."""
        return self.event is None or bool(await self._fetch(queries.EVENT_OF_TRANSACTION, *self.event, self.xid))

    async def abort_if_idle(self) -> None:
        """See `UnansweredCommit`."""
        await self._fetch(queries.END_IDLE_TRANSACTION, self.xid)
