"""The one connection that writes to a SQLite file and checkpoints it: transactions, fencing, migrations (4.5, 4.8).

Everything here blocks; the store decides in which thread.
"""

import logging
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import apsw

from assay.core.model.errors import Unavailable
from assay.core.model.ids import RunId, Time
from assay.storage.ports import Broken, Changes, Replaced, ScheduleChange, StoredRun
from assay.storage.sql import queries, rows, schema_versions
from assay.storage.sql import tables as t
from assay.storage.sql.dialect import SqliteDialect, Verb
from assay.storage.sql.schedule_rows import changed_schedules, schedule_update_row
from assay.storage.sql.writes import lost_with, steps, without
from assay.storage.sqlite import connections
from assay.storage.sqlite.pace import CommitPace
from assay.storage.sqlite.wal import Wal

logger = logging.getLogger(__name__)

CHECKPOINT_PAGES = 1_000
LARGE_WAL_PAGES = 64 * 1024 * 1024 // 4096
MAX_BACKUP_BYTES = 4 * 1024 * 1024 * 1024
"""Bytes; a larger file is not copied before a migration, its owner is told instead (U4)."""

DIALECT = SqliteDialect()
_UPDATE = DIALECT.write(Verb.UPDATE, t.RUN_UPDATES)
_CLOSE = DIALECT.write(Verb.UPDATE, t.RUN_CLOSINGS)
_GENERATION = DIALECT.query(queries.GENERATION)
_VERSIONS = "SELECT run_id, version FROM runs WHERE run_id $one_of(1)"
_RESCHEDULE = DIALECT.write(Verb.UPDATE, t.SCHEDULE_UPDATES)
_SCHEDULE_VERSIONS = "SELECT key, version FROM schedules WHERE key $one_of(1)"


class SqliteWriter:
    """Writes whole transactions; after an I/O error it writes nothing more, because nobody knows what is on disk."""

    def __init__(self, path: Path, pace: CommitPace | None = None) -> None:
        self._path = path
        self.pace = pace or CommitPace(float("inf"), in_thread=False)
        self._wal_pages = 0
        self._checkpointed_pages = 0
        self._generation = 0
        self._left_at = -1
        """The version of the data after the last commit here: if it is still that, nobody else has written."""
        self._broken: Broken | None = None
        self._connection = connections.open_writer(path, self._on_commit)
        self._wal = Wal(path, self._connection.pragma("page_size"))
        self._cursor = self._connection.cursor()  # one for all: a new one would cost as much as a small statement

    def close(self) -> None:
        """Let go of the file; the last to do so moves the WAL into it."""
        try:
            self._wal.check()
        except Replaced:
            # The file may have been written by others since: frames of a WAL without a name must not overwrite it.
            self._connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        self._connection.close()
        self._wal.close()

    @property
    def wal_bytes(self) -> int:
        """Return the size of the WAL on disk."""
        return self._wal.size()

    @property
    def wal_is_large(self) -> bool:
        """Should the WAL be cut as soon as there is time?"""
        return self._wal_pages > LARGE_WAL_PAGES

    def take_over(self) -> None:
        """Raise the generation, so that an engine that lost its lock file cannot write any more (I9).

        From now on a lock of another process is an error at once: the event loop must not wait for it.
        """
        (self._generation,) = self.fetch(queries.GENERATION)[0]
        ((self._generation,),) = self.change([(queries.TAKE_GENERATION, ())])[0]
        self._connection.set_busy_timeout(0)

    def fetch(self, text: str, *arguments: Any) -> list[tuple[Any, ...]]:
        """All rows of a statement."""
        try:
            return connections.rows(self._connection, DIALECT.query(text), arguments)
        except Broken as broken:
            self._broken = broken
            raise

    def change(self, statements: Sequence[tuple[str, tuple[object, ...]]]) -> list[list[tuple[Any, ...]]]:
        """Execute statements in one transaction, for what is no decision; the rows of each."""
        self._begin()
        try:
            self._check_generation()
            found = [self.fetch(text, *arguments) for text, arguments in statements]
        except BaseException as error:  # noqa: BLE001  # raised again once it is undone
            self._roll_back(error)
        self._commit()
        return found

    def write(self, changes: Changes) -> frozenset[RunId]:
        """One transaction; see `Store.write`."""
        lost = frozenset[RunId]()
        if not self._try(changes):
            lost = lost_with(changes, self._losers(changes))
            if not self._try(without(changes, lost)):
                raise Broken("a run changed although no other engine can write")
        return lost

    def _try(self, changes: Changes) -> bool:
        """Write all of it, or nothing if a run has changed since it was read."""
        self._begin()
        try:
            self._check_generation()
            if not (self._update_runs(changes.runs) and self._update_schedules(changed_schedules(changes))):
                self._cursor.execute("ROLLBACK")
                return False
            for verb, table, cells in steps(changes):
                self._cursor.executemany(DIALECT.write(verb, table), cells)
        except BaseException as error:  # noqa: BLE001  # raised again once it is undone
            self._roll_back(error)
        self._commit()
        return True

    def _update_runs(self, runs: Sequence[StoredRun]) -> bool:
        if not runs:
            return True
        before = self._connection.total_changes()
        still_open = [rows.run_update_row(run) for run in runs if run.closed_at is None]
        closing = [rows.run_closing_row(run) for run in runs if run.closed_at is not None]
        if still_open:
            self._cursor.executemany(_UPDATE, still_open)
        if closing:
            self._cursor.executemany(_CLOSE, closing)
        return self._connection.total_changes() - before == len(runs)

    def _update_schedules(self, schedules: Sequence[ScheduleChange]) -> bool:
        before = self._connection.total_changes()
        if schedules:
            self._cursor.executemany(_RESCHEDULE, [schedule_update_row(change) for change in schedules])
        return self._connection.total_changes() - before == len(schedules)

    def _losers(self, changes: Changes) -> frozenset[RunId]:
        wanted = {run.run_id: run.version - 1 for run in changes.runs}
        found = dict(self.fetch(_VERSIONS, DIALECT.texts(list(wanted))))
        schedules = {change.key: change.version - 1 for change in changed_schedules(changes)}
        found |= self.fetch(_SCHEDULE_VERSIONS, DIALECT.texts(list(schedules)))
        return frozenset(key for key, version in (wanted | schedules).items() if found.get(key) != version)

    def _begin(self) -> None:
        if self._broken is not None:
            raise self._broken
        try:
            self._cursor.execute("BEGIN IMMEDIATE")
        except apsw.BusyError as error:
            raise connections.WriteLocked("another process holds the write lock of the database file") from error
        except apsw.Error as error:
            raise self._translated(error) from error

    def _check_generation(self) -> None:
        if self._connection.data_version() == self._left_at:
            return
        (generation,) = self._cursor.execute(_GENERATION).fetchall()[0]
        if generation != self._generation:
            self._broken = Broken(f"another engine has taken over {self._path}; this one must stop")
            raise self._broken
        min_writer: Any = self._cursor.execute(queries.MIN_WRITER).fetchall()[0][0]
        if min_writer > schema_versions.newest_known():  # another program has migrated the file meanwhile (I26)
            self._broken = Broken(schema_versions.too_new(min_writer))
            raise self._broken

    def _roll_back(self, error: BaseException) -> NoReturn:
        """Undo, and say what happened; SQLite has already undone it after some errors."""
        if self._connection.in_transaction:
            self._cursor.execute("ROLLBACK")
        if isinstance(error, apsw.Error):
            raise self._translated(error) from error
        raise error

    def _commit(self) -> None:
        begun = time.perf_counter()
        try:
            self._cursor.execute("COMMIT")
        except apsw.Error as error:
            translated = self._translated(error, committing=True)
            if self._connection.in_transaction:
                self._cursor.execute("ROLLBACK")
            raise translated from error
        self.pace.add(time.perf_counter() - begun)
        self._check_files()  # before the checkpoint, which must not write to a file that others have changed
        self._left_at = self._connection.data_version()
        if self._wal_pages - self._checkpointed_pages >= CHECKPOINT_PAGES:
            self._checkpoint()
        self._wal.keep(self._wal_pages)

    def _check_files(self) -> None:
        """Raise `Replaced`, now and from now on, if a crash would lose the last commit."""
        try:
            self._wal.check()
        except Replaced as replaced:
            self._broken = replaced
            raise

    def _translated(self, error: apsw.Error, *, committing: bool = False) -> Exception:
        translated = connections.translated(error, committing=committing)
        if isinstance(translated, Broken):
            self._broken = translated
        return translated

    def _on_commit(self, pages: int) -> None:
        if pages < self._wal_pages:
            self._checkpointed_pages = 0  # the WAL began anew
        self._wal_pages = pages

    def _checkpoint(self) -> None:
        """Move what no reader needs from the WAL to the file. What was committed stays so, whatever happens here."""
        try:
            self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        except apsw.Error as error:
            self._translated(error)
            logger.error("checkpoint of %s failed: %s", self._path, error)
        self._checkpointed_pages = self._wal_pages

    def truncate(self) -> bool:
        """Move the whole WAL into the file and cut it; return False if a reader or a foreign lock prevents that."""
        try:
            self._check_files()
        except Replaced:
            return False  # the next transaction raises it
        try:
            self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        except apsw.Error as error:
            if isinstance(self._translated(error), Broken):
                logger.error("checkpoint of %s failed: %s", self._path, error)
            return False
        self._wal_pages = self._checkpointed_pages = 0
        self._wal.forget()
        return True

    def migrate(
        self, known: Sequence[schema_versions.Migration], now: Time, *, allowed: bool
    ) -> Sequence[schema_versions.Migration]:
        """Bring the schema up to date (R46); the steps that it took."""
        recorded = self._recorded()
        todo = schema_versions.missing(recorded, known)
        if not todo:
            return todo
        if not allowed:
            schema_versions.refuse_unmigrated(todo)
        if recorded:
            self._back_up(recorded[-1][0])
        self._begin()
        try:
            self._connection.execute(DIALECT.script(schema_versions.VERSIONS_TABLE))
            for step in todo:
                self._connection.execute(DIALECT.script(step.script))
                self.fetch(
                    queries.RECORD_SCHEMA_VERSION, step.version, step.min_reader, step.min_writer, now, step.checksum
                )
        except BaseException as error:  # noqa: BLE001  # raised again once it is undone
            self._roll_back(error)
        self._commit()
        return todo

    def _recorded(self) -> list[tuple[Any, ...]]:
        tables = {name for (name,) in self.fetch("SELECT name FROM sqlite_schema WHERE type = 'table'")}
        if "schema_versions" in tables:
            return self.fetch(queries.SCHEMA_VERSIONS)
        if tables:
            raise Unavailable(f"{self._path} is a database of another program", code="foreign_database")
        return []

    def _back_up(self, version: int) -> None:
        """Keep the file as it was before the migration (U4)."""
        if self._path.stat().st_size > MAX_BACKUP_BYTES:
            logger.warning("%s is too large to be copied before its migration", self._path)
            return
        copy = self._path.with_name(f"{self._path.name}.bak-{version}")
        copy.unlink(missing_ok=True)
        connections.create(copy)  # before it has content, which only its owner may read
        self.fetch("VACUUM INTO $1", str(copy))
