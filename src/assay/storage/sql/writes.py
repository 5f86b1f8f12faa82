"""The writes of a store for both databases: rows by table, in order, without the runs that lost a compare-and-set."""

from collections.abc import Collection, Iterator, Sequence

from msgspec.structs import astuple

from assay.core.model.ids import RunId
from assay.storage.ports import Changes, Extent, fence_of
from assay.storage.sql import activity_rows, failure_rows, notes, rows, schedule_rows
from assay.storage.sql import tables as t
from assay.storage.sql.attached import audit_cells
from assay.storage.sql.dialect import Verb
from assay.storage.sql.rows import Cells
from assay.storage.sql.tables import Table

Step = tuple[Verb, Table, Sequence[Cells]]
"""An operation, a table and the rows to write."""


def steps(changes: Changes) -> Iterator[Step]:
    """Yield the writes after the compare-and-set of changed runs; the order satisfies all constraints at each step."""
    if changes.new_runs:
        yield Verb.INSERT, t.RUNS, [rows.run_row(run) for run in changes.new_runs]
    if changes.claims or changes.unfired:
        yield Verb.INSERT, t.EVENTS, notes.note_rows(changes)
    if changes.events:
        yield Verb.INSERT, t.EVENTS, list(map(astuple, changes.events))
    if changes.activities:
        yield from _activity_steps(changes)
    if changes.attempts:
        yield Verb.INSERT, t.ATTEMPTS, [activity_rows.attempt_row(end) for end in changes.attempts]
    if changes.deadlines:
        yield from _deadline_steps(changes)
    if changes.closed:
        yield Verb.DELETE, t.CLOSED, [(run_id,) for run_id in changes.closed]
    if changes.snapshots:
        yield Verb.UPSERT, t.SNAPSHOTS, [rows.snapshot_row(shot) for shot in changes.snapshots.values()]
    if changes.attributed:
        yield from _attribute_steps(changes)
    if changes.peers:
        yield from _peer_steps(changes)
    if changes.versions:
        versions = [(run.run_id, change_id, version, run.namespace) for run, change_id, version in changes.versions]
        yield Verb.INSERT, t.VERSIONS, versions
    if changes.messages:
        messages = [rows.message_row(message, time) for _, message, time in changes.messages]
        yield Verb.KEEP, t.OUTBOX, messages
    if changes.updates:
        yield from _update_steps(changes)
    if changes.outcomes:
        yield Verb.INSERT, t.OUTCOMES, [rows.outcome_row(outcome) for _, outcome in changes.outcomes]
    if changes.audits:
        yield Verb.INSERT, t.AUDIT, [audit_cells(row) for _, row in changes.audits]
    if changes.failures:
        yield from failure_rows.steps(changes.failures)
    if changes.schedules or changes.fires:
        yield from _schedule_steps(changes)


def _activity_steps(changes: Changes) -> Iterator[Step]:
    fresh: list[Cells] = []
    changed: list[Cells] = []
    ended: list[Cells] = []
    for change in changes.activities.values():
        if change.extent is Extent.OUTCOME:
            ended.append(activity_rows.closing_row(change))
        elif change.extent is Extent.ALL:
            fresh.append(activity_rows.activity_row(change))
        else:
            changed.append(activity_rows.activity_row(change))
    yield from _filled(
        (Verb.INSERT, t.ACTIVITIES, fresh),
        (Verb.UPSERT, t.ACTIVITIES, changed),
        (Verb.SET, t.ACTIVITY_CLOSINGS, ended),
    )


def _deadline_steps(changes: Changes) -> Iterator[Step]:
    due: list[Cells] = []
    gone: list[Cells] = []
    for key, time in changes.deadlines.items():
        if time is None:
            gone.append(key)
        else:
            due.append((*key, time))
    yield from _filled((Verb.UPSERT, t.DEADLINES, due), (Verb.DELETE, t.CLEARED, gone))


def _peer_steps(changes: Changes) -> Iterator[Step]:
    gone = [key for key, peer in changes.peers.items() if peer is None]
    if gone:
        yield Verb.DELETE, t.GONE_PEERS, gone
    kept = [(key[0], peer.kind, peer.name, peer.number, peer.pid) for key, peer in changes.peers.items() if peer]
    if kept:
        yield Verb.UPSERT, t.PEERS, kept


def _update_steps(changes: Changes) -> Iterator[Step]:
    found = [(new, rows.update_row(run, state)) for run, state, new in changes.updates.values()]
    yield from _filled(
        (Verb.INSERT, t.UPDATES, [row for new, row in found if new]),
        (Verb.UPSERT, t.UPDATES, [row for new, row in found if not new]),
    )


def _attribute_steps(changes: Changes) -> Iterator[Step]:
    fresh = {run.run_id for run in changes.new_runs}
    runs = {run.run_id: run for run in changes.attributed}
    documents = [run for run_id, run in runs.items() if run_id not in fresh or rows.has_new_documents(run)]
    yield from _filled(
        (Verb.DELETE, t.UNATTRIBUTED, [(run_id,) for run_id in runs if run_id not in fresh]),
        (Verb.INSERT, t.ATTRIBUTES, [row for run in runs.values() for row in rows.attribute_rows(run)]),
        (Verb.UPSERT, t.DOCUMENTS, [rows.document_row(run) for run in documents]),
    )


def _schedule_steps(changes: Changes) -> Iterator[Step]:
    yield from _filled(
        (Verb.INSERT, t.SCHEDULES, schedule_rows.new_schedule_rows(changes)),
        (Verb.DELETE, t.MISSED_FIRES, [schedule_rows.missed_fire_row(fire) for fire in changes.retaken]),
        (Verb.INSERT, t.FIRES, [schedule_rows.fire_row(fire) for fire in changes.fires]),
        (Verb.DELETE, t.GONE_SCHEDULES, schedule_rows.gone_schedule_rows(changes)),
        (Verb.DELETE, t.GONE_FIRES, schedule_rows.gone_fire_rows(changes)),
    )


def _filled(*candidates: Step) -> Iterator[Step]:
    return (step for step in candidates if step[2])


def lost_with(changes: Changes, losers: frozenset[RunId]) -> frozenset[RunId]:
    """Return the losers and all runs tied to them, directly or through further runs (I2)."""
    lost = set(losers)
    grown = -1
    while grown != len(lost):
        grown = len(lost)
        for first, second in changes.ties:
            if first in lost or second in lost:
                lost.update((first, second))
    return frozenset(lost)


def lost_by_fences(changes: Changes, deleted: Collection[str]) -> frozenset[RunId]:
    """Return the runs that received a message whose row was gone, and the fences of these messages (I17)."""
    gone = [(owner, key) for owner, key in changes.acknowledged if key not in deleted]
    return frozenset(name for owner, key in gone for name in (owner, fence_of(key)))


def without(changes: Changes, lost: frozenset[RunId]) -> Changes:
    """Return the changes without all rows of the lost runs."""
    return Changes(
        new_runs=[run for run in changes.new_runs if run.run_id not in lost],
        runs=[run for run in changes.runs if run.run_id not in lost],
        events=[event for event in changes.events if event.run_id not in lost],
        claims=[claim for claim in changes.claims if claim[0].run_id not in lost],
        activities={id_: change for id_, change in changes.activities.items() if change.run.run_id not in lost},
        attempts=[end for end in changes.attempts if end.run.run_id not in lost],
        deadlines={key: due for key, due in changes.deadlines.items() if key[0] not in lost},
        closed=[run_id for run_id in changes.closed if run_id not in lost],
        snapshots={run_id: snapshot for run_id, snapshot in changes.snapshots.items() if run_id not in lost},
        attributed=[run for run in changes.attributed if run.run_id not in lost],
        peers={key: peer for key, peer in changes.peers.items() if key[0] not in lost},
        versions=[recorded for recorded in changes.versions if recorded[0].run_id not in lost],
        schedules={key: change for key, change in changes.schedules.items() if change.key not in lost},
        fires=[fire for fire in changes.fires if fire.key not in lost],
        retaken=[fire for fire in changes.retaken if fire.key not in lost],
        unfired=[unfired for unfired in changes.unfired if unfired.key not in lost],
        messages=[message for message in changes.messages if message[0] not in lost],
        acknowledged=[taken for taken in changes.acknowledged if taken[0] not in lost],
        updates={key: update for key, update in changes.updates.items() if key[0] not in lost},
        mail=[letter for letter in changes.mail if letter.owner not in lost],
        outcomes=[outcome for outcome in changes.outcomes if outcome[0] not in lost],
        audits=[audited for audited in changes.audits if audited[0] not in lost],
        failures=[failed for failed in changes.failures if failed[0].run_id not in lost],
        ties=changes.ties,
        not_before=changes.not_before,
    )
