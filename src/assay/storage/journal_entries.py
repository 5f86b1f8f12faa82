"""Rows of the journal: every event of every history, and notes on changes that no history records."""

from collections.abc import Iterable

import msgspec

from assay.core.model.ids import RunId, Time
from assay.core.schedules.model import Fire

Position = tuple[int, int]
"""A position in the journal: the transaction that wrote a row, and the row's id. Later commits have greater ones."""

BEGINNING: Position = (0, 0)


class JournalEntry(msgspec.Struct, frozen=True, gc=False):
    """An event in the journal, with the names of its run."""

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
    claimed: int
    """1 if a worker claimed the run for the first time in the same transaction and after this event."""

    @property
    def position(self) -> Position:
        """Return the position in the journal."""
        return self.transaction, self.id


class Claim(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A run that a worker has claimed for the first time; no event records the claim."""

    namespace: str
    workflow_id: str
    run_id: RunId
    workflow_type: str
    task_queue: str


class Note(msgspec.Struct, frozen=True):
    """The changes of a transaction that no history records."""

    transaction: int
    id: int
    time: Time
    claims: tuple[Claim, ...] = ()
    fires: tuple[Fire, ...] = ()
    """Due times of schedules that started no run. A fire with a run is in the first event of the run."""

    @property
    def position(self) -> Position:
        """Return the position in the journal."""
        return self.transaction, self.id


JournalRow = JournalEntry | Note


class JournalPage(list[JournalRow]):
    """A page of the journal; `more` is True if further rows may follow the last row."""

    __slots__ = ("more",)

    def __init__(self, rows: Iterable[JournalRow] = (), *, more: bool = False) -> None:
        super().__init__(rows)
        self.more = more
