"""Parts of the port `Store`: values for metrics, and updates."""

from collections.abc import Sequence
from typing import Protocol

from assay.core.model.ids import RunId, Time
from assay.core.model.mailboxes import Letter, OpenMailbox, StoredLetter
from assay.core.model.update_states import UpdateState


class MeasuredStore(Protocol):
    """The values of a store that metrics show."""

    @property
    def wal_bytes(self) -> int | None:
        """Return the size of the write-ahead log; None for a store without its own log."""
        ...


class MailStore(Protocol):
    """The reads of updates, and mailboxes."""

    async def open_mailbox(self, mailbox: OpenMailbox, now: Time) -> bool:
        """Create a mailbox, or extend the life of an existing one; return whether it is new."""
        ...

    async def has_mailbox(self, address: str, now: Time) -> bool:
        """Return whether a mailbox exists."""
        ...

    async def put_letter(self, letter: Letter, now: Time) -> bool:
        """Put a message into a mailbox; return False if the mailbox does not exist."""
        ...

    async def letters(self, address: str, after: int, now: Time) -> Sequence[StoredLetter] | None:
        """Return the messages after a seq, and forget those up to it; None if the mailbox does not exist."""
        ...

    async def delete_mailbox(self, address: str) -> bool:
        """Delete a mailbox with its messages; return False if it does not exist."""
        ...

    async def updates(self, run_id: RunId, update_ids: Sequence[str]) -> Sequence[UpdateState]:
        """Return updates of a run; unknown ids are left out."""
        ...

    async def find_update(self, namespace: str, workflow_id: str, update_id: str) -> tuple[UpdateState, bool] | None:
        """Return the update of the newest run with this update id, and whether that run is closed; None if unknown."""
        ...
