"""The port for reading all histories as one stream, in the order in which they became durable (4.6)."""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from assay.core.ids import RunId, Time

Position = tuple[int, int]
"""A place in the stream: the transaction that wrote an event, and the event's id. Later commits have greater ones."""

BEGINNING: Position = (0, 0)


class Entry(msgspec.Struct, frozen=True, gc=False):
    """An event in the stream, with what its run is called."""

    transaction: int
    id: int
    namespace: str
    workflow_id: str
    run_id: RunId
    workflow_type: str
    task_queue: str
    seq: int
    time: Time
    kind: str
    payload: bytes
    data: bytes | None
    begins_work: int
    """1 if it is the first sign in the history that a worker has taken up the run."""

    @property
    def position(self) -> Position:
        """Where it stands."""
        return self.transaction, self.id


class Journal(Protocol):
    """The events of all runs, in one order that never changes once read."""

    async def head(self) -> Position:
        """The position of the newest event that may be read."""
        ...

    async def position(self, event_id: int) -> Position:
        """Where the stream goes on after the event with this id, or after the last one before it."""
        ...

    async def since(self, time: Time) -> int | None:
        """The id of the first event of this time or later; none if all are older."""
        ...

    async def after(self, position: Position, limit: int) -> Sequence[Entry]:
        """The events after a position, oldest first."""
        ...
