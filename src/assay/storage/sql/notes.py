"""Notes in the journal: what happened and no history tells, as rows among the events (I24).

They are rows of the same table because that gives everything one order, also on a database with several writers. Their
seq is 0, which no event has, and their run is none: `run_id` is the namespace, a slash and a name of their own.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final, TypeVar

import msgspec

from assay.core.model.ids import Time
from assay.core.schedules.model import Fire, escaped
from assay.storage.ports import Changes, Claim, Note
from assay.storage.sql.rows import Cells

NOTE_SEQ: Final = 0
CLAIMS: Final = "Claims"
FIRES: Final = "Fires"
ITEMS_PER_NOTE: Final = 500
"""What one note tells at most: each has a number of the stream, and so many fit below the next row's."""

T = TypeVar("T")

_encode: Final = msgspec.json.Encoder().encode
_claims: Final = msgspec.json.Decoder(tuple[Claim, ...]).decode
_fires: Final = msgspec.json.Decoder(tuple[Fire, ...]).decode


def note_rows(changes: Changes) -> list[Cells]:
    """Rows of EVENTS, which come before the events of their transaction.

    So a claim is told before what followed it there; one that came after an event is noted in that event's own row.
    """
    return [*_claim_rows(changes), *_fire_rows(changes)]


def _claim_rows(changes: Changes) -> Iterator[Cells]:
    """One row for many claims: a worker that takes up a hundred runs at once costs little more than one that takes one.

    A run is taken up for the first time once, so its id makes a name that nobody else has.
    """
    by_namespace: defaultdict[str, list[tuple[Claim, Time]]] = defaultdict(list)
    for run, time in changes.claims:
        start = run.start
        claim = Claim(run.namespace, run.workflow_id, run.run_id, start.workflow_type, start.task_queue)
        by_namespace[run.namespace].append((claim, time))
    for namespace, claims in by_namespace.items():
        for page in _pages(claims):
            first, time = page[0]
            yield _row(namespace, first.run_id, time, CLAIMS, [claim for claim, _ in page])


def _fire_rows(changes: Changes) -> Iterator[Cells]:
    for unfired in changes.unfired:
        for place, page in enumerate(_pages(unfired.fires)):
            first = page[0]
            yield _row(first.namespace, f"{unfired.name}.{place}", first.fired_at, FIRES, page)


def _pages(items: Sequence[T]) -> Iterator[Sequence[T]]:
    return (items[begin : begin + ITEMS_PER_NOTE] for begin in range(0, len(items), ITEMS_PER_NOTE))


def _row(namespace: str, name: str, time: Time, kind: str, content: Sequence[object]) -> Cells:
    return (f"{escaped(namespace)}/{name}", NOTE_SEQ, time, kind, _encode(content), None, 0)


def note_of(transaction: int, row_id: int, time: Time, kind: str, content: bytes) -> Note:
    """The note of a row; one of a kind that only a later version knows says nothing."""
    match kind:
        case "Claims":
            return Note(transaction, row_id, time, claims=_claims(content))
        case "Fires":
            return Note(transaction, row_id, time, fires=_fires(content))
        case _:
            return Note(transaction, row_id, time)
