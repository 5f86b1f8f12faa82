"""The writing half of a store, written once: which rows go where, in which order, and what goes when a run is lost."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from assay.core.ids import RunId
from assay.storage.sql import activity_rows, rows, schedule_rows
from assay.storage.sql import tables as t
from assay.storage.sql.dialect import Verb
from assay.storage.sql.rows import Cells
from assay.storage.sql.tables import Table
from assay.storage.store import Changes, Extent


class Step(NamedTuple):
    """Rows of one table and what to do with them."""

    verb: Verb
    table: Table
    cells: list[Cells]


def steps(changes: Changes) -> Iterator[Step]:
    """What follows the compare-and-set of changed runs, in the order in which constraints hold at each step."""
    for verb, table, gather in _PLAN:
        cells = gather(changes)
        if cells:
            yield Step(verb, table, cells)


def _activities(changes: Changes, extent: Extent) -> list[Cells]:
    return [activity_rows.activity_row(change) for change in changes.activities.values() if change.extent is extent]


def _outcomes(changes: Changes) -> list[Cells]:
    found = [change for change in changes.activities.values() if change.extent is Extent.OUTCOME]
    return [activity_rows.closing_row(change) for change in found]


def _attribute_rows(changes: Changes) -> list[Cells]:
    runs = {run.run_id: run for run in changes.attributed}
    return [row for run in runs.values() for row in rows.attribute_rows(run)]


def _unattributed_rows(changes: Changes) -> list[Cells]:
    fresh = {run.run_id for run in changes.new_runs} if changes.attributed else ()
    return [(run_id,) for run_id in {run.run_id: None for run in changes.attributed} if run_id not in fresh]


def _document_rows(changes: Changes) -> list[Cells]:
    fresh = {run.run_id for run in changes.new_runs} if changes.attributed else ()
    runs = {run.run_id: run for run in changes.attributed}
    return [
        rows.document_row(run) for run_id, run in runs.items() if run_id not in fresh or rows.has_new_documents(run)
    ]


_PLAN: tuple[tuple[Verb, Table, Callable[[Changes], list[Cells]]], ...] = (
    (Verb.INSERT, t.RUNS, lambda changes: [rows.run_row(run) for run in changes.new_runs]),
    (
        Verb.INSERT,
        t.EVENTS,
        lambda changes: [(e.run_id, e.seq, e.time, e.kind, e.payload, e.data) for e in changes.events],
    ),
    (Verb.INSERT, t.ACTIVITIES, lambda changes: _activities(changes, Extent.ALL)),
    (Verb.UPSERT, t.ACTIVITIES, lambda changes: _activities(changes, Extent.STATE)),
    (Verb.SET, t.ACTIVITY_CLOSINGS, lambda changes: _outcomes(changes)),
    (Verb.INSERT, t.ATTEMPTS, lambda changes: [activity_rows.attempt_row(end) for end in changes.attempts]),
    (
        Verb.UPSERT,
        t.DEADLINES,
        lambda changes: [(*key, due) for key, due in changes.deadlines.items() if due is not None],
    ),
    (Verb.DELETE, t.CLEARED, lambda changes: [key for key, due in changes.deadlines.items() if due is None]),
    (Verb.DELETE, t.CLOSED, lambda changes: [(run_id,) for run_id in changes.closed]),
    (
        Verb.UPSERT,
        t.SNAPSHOTS,
        lambda changes: [rows.snapshot_row(shot) for shot in changes.snapshots.values()],
    ),
    (Verb.DELETE, t.UNATTRIBUTED, _unattributed_rows),
    (Verb.INSERT, t.ATTRIBUTES, _attribute_rows),
    (Verb.UPSERT, t.DOCUMENTS, _document_rows),
    (Verb.KEEP, t.OUTBOX, lambda changes: [rows.message_row(message, time) for _, message, time in changes.messages]),
    (Verb.DELETE, t.ACKNOWLEDGED, lambda changes: [(key,) for _, key in changes.acknowledged]),
    (Verb.INSERT, t.OUTCOMES, lambda changes: [rows.outcome_row(outcome) for _, outcome in changes.outcomes]),
    (Verb.INSERT, t.SCHEDULES, schedule_rows.new_schedule_rows),
    (Verb.INSERT, t.FIRES, lambda changes: [schedule_rows.fire_row(fire) for fire in changes.fires]),
    (Verb.DELETE, t.GONE_SCHEDULES, schedule_rows.gone_schedule_rows),
    (Verb.DELETE, t.GONE_FIRES, schedule_rows.gone_fire_rows),
)


def lost_with(changes: Changes, losers: frozenset[RunId]) -> frozenset[RunId]:
    """The losers and all runs that were decided together with one of them, over any number of steps (I2)."""
    lost = set(losers)
    grown = -1
    while grown != len(lost):
        grown = len(lost)
        for one, other in changes.ties:
            if one in lost or other in lost:
                lost.update((one, other))
    return frozenset(lost)


def without(changes: Changes, lost: frozenset[RunId]) -> Changes:
    """The changes that are left when nothing may be written about the lost runs."""
    return Changes(
        new_runs=[run for run in changes.new_runs if run.run_id not in lost],
        runs=[run for run in changes.runs if run.run_id not in lost],
        events=[event for event in changes.events if event.run_id not in lost],
        activities={id_: change for id_, change in changes.activities.items() if change.run.run_id not in lost},
        attempts=[end for end in changes.attempts if end.run.run_id not in lost],
        deadlines={key: due for key, due in changes.deadlines.items() if key[0] not in lost},
        closed=[run_id for run_id in changes.closed if run_id not in lost],
        snapshots={run_id: snapshot for run_id, snapshot in changes.snapshots.items() if run_id not in lost},
        attributed=[run for run in changes.attributed if run.run_id not in lost],
        schedules={key: change for key, change in changes.schedules.items() if change.key not in lost},
        fires=[fire for fire in changes.fires if fire.key not in lost],
        messages=[message for message in changes.messages if message[0] not in lost],
        acknowledged=[taken for taken in changes.acknowledged if taken[0] not in lost],
        outcomes=[outcome for outcome in changes.outcomes if outcome[0] not in lost],
        ties=changes.ties,
    )
