"""Notes in the journal: changes that no history records, as rows among the events (I24).

Notes are rows of the events table, because a single table gives events and notes one order, also with several writers.
A note has seq 0, unlike any event, and no run: `run_id` is the namespace, a slash and a unique name.
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
"""The maximum number of items in a note: each item has an id in the stream, and this many fit below the next row's."""

T = TypeVar("T")

_encode: Final = msgspec.json.Encoder().encode
_claims: Final = msgspec.json.Decoder(tuple[Claim, ...]).decode
_fires: Final = msgspec.json.Decoder(tuple[Fire, ...]).decode


def note_rows(changes: Changes) -> list[Cells]:
    """Return rows of EVENTS, to be inserted before the events of their transaction.

    A claim is therefore streamed before the events that followed. A claim after an event is marked in the event's row.
    """
    return [*_claim_rows(changes), *_fire_rows(changes)]


def _claim_rows(changes: Changes) -> Iterator[Cells]:
    """Yield rows with many claims each: a worker that claims a hundred runs at once costs one row.

    A run has a single first claim, therefore its id makes the name of the row unique.
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
    """Return the note of a row; a kind that only a later version has gives an empty note."""
    match kind:
        case "Claims":
            return Note(transaction, row_id, time, claims=_claims(content))
        case "Fires":
            return Note(transaction, row_id, time, fires=_fires(content))
        case _:
            return Note(transaction, row_id, time)
