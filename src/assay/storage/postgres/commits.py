"""Transactions of Postgres whose COMMIT was not answered: their status, asked for by transaction id (I3)."""

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
        """The transaction's id as its statements returned it; None while it has written nothing."""
        self.event: tuple[RunId, int] | None = None
        """The run and seq of an event that the transaction has written, if it has written any."""

    async def status(self) -> CommitStatus:
        """See `UnansweredCommit`."""
        if self.xid is None:
            return CommitStatus.COMMITTED  # nothing was written, so committed and aborted are the same
        try:
            ((status,),) = await self._fetch(queries.TRANSACTION_STATUS, self.xid)
        except Invalid:
            # The id was not assigned yet: this is not the server that assigned it, but one that took over from it.
            return CommitStatus.UNKNOWN
        if status == "committed" and not await self._is_ours():
            return CommitStatus.UNKNOWN
        return STATUSES.get(status, CommitStatus.UNKNOWN)

    async def _is_ours(self) -> bool:
        """Return False if the committed transaction is another one: a server that took over assigns ids again."""
        return self.event is None or bool(await self._fetch(queries.EVENT_OF_TRANSACTION, *self.event, self.xid))

    async def abort_if_idle(self) -> None:
        """See `UnansweredCommit`."""
        await self._fetch(queries.END_IDLE_TRANSACTION, self.xid)
