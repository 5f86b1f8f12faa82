"""Tables in memory with the real keys and uniqueness rules; a transaction is all of its rows or none."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from assay.core.model.ids import RunId
from assay.storage.ports import Changes, Conflict, ScheduleChange
from assay.storage.sql import rows
from assay.storage.sql import tables as t
from assay.storage.sql.dialect import Verb
from assay.storage.sql.schedule_rows import changed_schedules, schedule_update_row
from assay.storage.sql.tables import Table
from assay.storage.sql.writes import lost_by_fences, lost_with, steps, without

Cells = tuple[Any, ...]
"""A row; what is in which place is said by `PLACE`."""
Key = tuple[Any, ...]
WHOLE = (
    t.RUNS,
    t.EVENTS,
    t.ACTIVITIES,
    t.ATTEMPTS,
    t.DEADLINES,
    t.SNAPSHOTS,
    t.DOCUMENTS,
    t.ATTRIBUTES,
    t.VERSIONS,
    t.OUTBOX,
    t.PEERS,
    t.UPDATES,
    t.SCHEDULES,
    t.FIRES,
    t.FAILURE_GROUPS,
    t.FAILED_RUNS,
)
"""Each table with all of its columns; the others are views of these."""

PLACE = {table.name: {name: place for place, name in enumerate(table.names)} for table in (*WHOLE, t.OUTCOMES)}
"""Where to find a column."""


class Tables:
    """The durable contents of a database."""

    def __init__(self) -> None:
        self.rows: dict[str, dict[Key, Cells]] = {table.name: {} for table in (*WHOLE, t.OUTCOMES)}
        self.numbers = 1
        self._undo: list[tuple[dict[Key, Cells], Key, Cells | None]] = []

    def column(self, table: str, name: str) -> Callable[[Cells], Any]:
        """Reads one column of a row."""
        place = PLACE[table][name]
        return lambda row: row[place]

    def write(self, changes: Changes) -> tuple[Changes, frozenset[RunId]]:
        """One transaction: what was written, and the runs that lost their compare-and-set."""
        schedules = changed_schedules(changes)
        losers = [run.run_id for run in changes.runs if not self.unchanged(run)]
        losers += [change.key for change in schedules if not self._same_schedule(change)]
        held = {key for (key,) in self.rows["outbox_messages"]}
        lost = lost_with(changes, frozenset(losers))
        lost = lost_with(changes, lost | lost_by_fences(without(changes, lost), held))
        kept = without(changes, lost) if lost else changes
        self._undo = []
        try:
            for run in kept.runs:
                self._update(t.RUN_CLOSINGS, rows.run_closing_row(run))
            for change in schedules:
                if change.key not in lost:
                    self._update(t.SCHEDULE_UPDATES, schedule_update_row(change))
            self._apply(Verb.DELETE, t.ACKNOWLEDGED, [(key,) for _, key in kept.acknowledged])
            for verb, table, cells in steps(kept):
                self._apply(verb, table, cells)
            self._check_unique(kept)
        except BaseException:
            for target, key, before in reversed(self._undo):
                if before is None:
                    del target[key]
                else:
                    target[key] = before
            raise
        return kept, lost

    def unchanged(self, run: Any) -> bool:
        """Does the row still have the version that the run was read with?"""
        row = self.rows["runs"].get((run.run_id,))
        return row is not None and row[PLACE["runs"]["version"]] == run.version - 1

    def _same_schedule(self, change: ScheduleChange) -> bool:
        row = self.rows["schedules"].get((change.key,))
        return row is not None and row[PLACE["schedules"]["version"]] == change.version - 1

    def _update(self, table: Table, cells: Cells) -> None:
        """Change some columns of a row, if it is there."""
        key = tuple(cells[: table.key])
        before = self.rows[table.name].get(key)
        if before is None:
            return
        place, row = PLACE[table.name], list(before)
        for name, value in zip(table.names, cells, strict=True):
            row[place[name]] = value
        self._set(self.rows[table.name], key, tuple(row))

    def _apply(self, verb: Verb, table: Table, cells: Sequence[Cells]) -> None:
        target = self.rows[table.name]
        for row in cells:
            key = tuple(row[: table.key])
            if verb is Verb.DELETE and table is t.MISSED_FIRES:
                self._retake(row)
                continue
            if verb is Verb.DELETE:
                self._delete(target, key)
                continue
            if verb is Verb.SET:
                self._update(table, row)
                continue
            before = target.get(key)
            if before is not None and verb is Verb.INSERT:
                raise Conflict(f"{table.name} has {key} already")
            if before is None:
                self._set(target, key, tuple(row))
            elif verb is Verb.UPSERT:
                self._set(target, key, (*before[: table.fixed], *row[table.fixed :]))

    def _set(self, target: dict[Key, Cells], key: Key, row: Cells) -> None:
        self._undo.append((target, key, target.get(key)))
        target[key] = row

    def _delete(self, target: dict[Key, Cells], key: Key) -> None:
        found = [key] if key in target else []
        if not found and target and len(next(iter(target))) > len(key):
            found = [other for other in target if other[: len(key)] == key]
        for one in found:
            self._undo.append((target, one, target[one]))
            del target[one]

    def _retake(self, wanted: Cells) -> None:
        """MISSED_FIRES: more columns decide than those of the key."""
        place = PLACE["schedule_fires"]
        row = self.rows["schedule_fires"].get(tuple(wanted[:3]))
        if row is not None and (row[place["outcome"]], row[place["cause"]]) == tuple(wanted[3:]):
            self._delete(self.rows["schedule_fires"], tuple(wanted[:3]))

    def _check_unique(self, changes: Changes) -> None:
        """The indexes that are not primary keys: chains, open runs, activities of a run."""
        if changes.new_runs:
            started = {(run.namespace, run.workflow_id) for run in changes.new_runs}
            chain = [run for run in self.runs() if (run["namespace"], run["workflow_id"]) in started]
            _refuse_twins("runs_chain", ((run["namespace"], run["workflow_id"], run["number"]) for run in chain))
            still_open = (run for run in chain if run["closed_at"] is None)
            _refuse_twins("runs_open", ((run["namespace"], run["workflow_id"]) for run in still_open))
        if changes.activities:
            of_run, seq = self.column("activities", "run_id"), self.column("activities", "seq")
            _refuse_twins("activities", ((of_run(row), seq(row)) for row in self.rows["activities"].values()))

    def runs(self) -> Iterator[dict[str, Any]]:
        """Every run's row by column names."""
        for row in self.rows["runs"].values():
            yield dict(zip(t.RUNS.names, row, strict=True))


def _refuse_twins(index: str, keys: Iterator[Key]) -> None:
    seen: set[Key] = set()
    for key in keys:
        if key in seen:
            raise Conflict(f"{index} has {key} already")
        seen.add(key)
