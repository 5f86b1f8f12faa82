"""The only connection that writes to a SQLite file and checkpoints its WAL: transactions, fencing, migrations.

All calls block; the store chooses the thread.
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
from assay.storage.sql.mail import FIND_MAILBOX, put_statements
from assay.storage.sql.schedule_rows import changed_schedules, schedule_update_row
from assay.storage.sql.writes import lost_by_fences, lost_with, steps, without
from assay.storage.sqlite import connections
from assay.storage.sqlite.pace import CommitPace
from assay.storage.sqlite.wal import Wal

logger = logging.getLogger(__name__)

CHECKPOINT_PAGES = 1_000
LARGE_WAL_PAGES = 64 * 1024 * 1024 // 4096
MAX_BACKUP_BYTES = 4 * 1024 * 1024 * 1024
"""A larger file is not copied before a migration; a warning is logged instead."""

DIALECT = SqliteDialect()
_UPDATE = DIALECT.write(Verb.UPDATE, t.RUN_UPDATES)
_CLOSE = DIALECT.write(Verb.UPDATE, t.RUN_CLOSINGS)
_GENERATION = DIALECT.query(queries.GENERATION)
_VERSIONS = "SELECT run_id, version FROM runs WHERE run_id $one_of(1)"
_TAKE = DIALECT.write(Verb.DELETE, t.ACKNOWLEDGED)
_RESCHEDULE = DIALECT.write(Verb.UPDATE, t.SCHEDULE_UPDATES)
_SCHEDULE_VERSIONS = "SELECT key, version FROM schedules WHERE key $one_of(1)"


class SqliteWriter:
    """A writer of whole transactions; after an I/O error all further writes fail, because the disk state is unknown."""

    def __init__(self, path: Path, pace: CommitPace | None = None) -> None:
        self._path = path
        self.pace = pace or CommitPace(float("inf"), in_thread=False)
        self._wal_pages = 0
        self._checkpointed_pages = 0
        self._generation = 0
        self._left_at = -1
        """SQLite's data version after the last commit: unchanged while no other connection has written."""
        self._broken: Broken | None = None
        self._connection = connections.open_writer(path, self._on_commit)
        self._wal = Wal(path, self._connection.pragma("page_size"))
        self._cursor = self._connection.cursor()  # reused: a new cursor costs as much as a small statement

    def close(self) -> None:
        """Close the file; the last connection to close moves the WAL into the file."""
        try:
            self._wal.check()
        except Replaced:
            # Another process may have written the file since: frames of an unlinked WAL must not overwrite its pages.
            self._connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        self._connection.close()
        self._wal.close()

    @property
    def wal_bytes(self) -> int:
        """Return the size of the WAL on disk."""
        return self._wal.size()

    @property
    def wal_is_large(self) -> bool:
        """Return whether the WAL should be truncated soon."""
        return self._wal_pages > LARGE_WAL_PAGES

    def take_over(self) -> None:
        """Raise the generation, to fence an engine whose lock file was removed (I9).

        Afterwards a lock of another process raises at once, because the event loop must not wait for the lock.
        """
        (self._generation,) = self.fetch(queries.GENERATION)[0]
        ((self._generation,),) = self.change([(queries.TAKE_GENERATION, ())])[0]
        self._connection.set_busy_timeout(0)

    def fetch(self, text: str, *arguments: Any) -> list[tuple[Any, ...]]:
        """Return all rows of a statement."""
        try:
            return connections.rows(self._connection, DIALECT.query(text), arguments)
        except Broken as broken:
            self._broken = broken
            raise

    def change(self, statements: Sequence[tuple[str, tuple[object, ...]]]) -> list[list[tuple[Any, ...]]]:
        """Execute statements that are no decision in one transaction; return the rows of each."""
        self._begin()
        try:
            self._check_generation()
            found = [self.fetch(text, *arguments) for text, arguments in statements]
        except BaseException as error:  # noqa: BLE001  # raised again after the rollback
            self._roll_back(error)
        self._commit()
        return found

    def write(self, changes: Changes) -> frozenset[RunId]:
        """Write in one transaction; see `Store.write`."""
        lost = frozenset[RunId]()
        # Optimistic: losers are only searched for after an UPDATE has found an unexpected version.
        if not self._try(changes):
            lost = lost_with(changes, self._losers(changes))
            if not self._try(without(changes, lost)):
                raise Broken("a run changed although no other engine can write")
        return lost

    def _try(self, changes: Changes) -> bool:
        """Write the changes; return False, with nothing written, if a run or schedule has another version."""
        self._begin()
        try:
            self._check_generation()
            if not (
                self._update_runs(changes.runs)
                and self._update_schedules(changed_schedules(changes))
                and self._take_messages(changes)
                and self._put_mail(changes)
            ):
                self._cursor.execute("ROLLBACK")
                return False
            for verb, table, cells in steps(changes):
                self._cursor.executemany(DIALECT.write(verb, table), cells)
        except BaseException as error:  # noqa: BLE001  # raised again after the rollback
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

    def _take_messages(self, changes: Changes) -> bool:
        before = self._connection.total_changes()
        if changes.acknowledged:
            self._cursor.executemany(_TAKE, [(key,) for _, key in changes.acknowledged])
        return self._connection.total_changes() - before == len(changes.acknowledged)

    def _put_mail(self, changes: Changes) -> bool:
        for letter in changes.mail:
            taken, _ = (self.fetch(text, *arguments) for text, arguments in put_statements(letter, letter.at))
            if not taken:
                return False
        return True

    def _losers(self, changes: Changes) -> frozenset[RunId]:
        wanted = {run.run_id: run.version - 1 for run in changes.runs}
        found = dict(self.fetch(_VERSIONS, DIALECT.texts(list(wanted))))
        schedules = {change.key: change.version - 1 for change in changed_schedules(changes)}
        found |= self.fetch(_SCHEDULE_VERSIONS, DIALECT.texts(list(schedules)))
        lost = frozenset(key for key, version in (wanted | schedules).items() if found.get(key) != version)
        keys = DIALECT.texts([key for _, key in changes.acknowledged])
        lost |= lost_by_fences(changes, {key for (key,) in self.fetch(queries.MESSAGE_KEYS, keys)})
        return lost | {one.owner for one in changes.mail if not self.fetch(FIND_MAILBOX, one.mailbox, one.at)}

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
        # Fast path: without a write of another connection the generation cannot have changed.
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
        """Roll the transaction back, unless SQLite has already done so, and raise the translated error."""
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
        self._check_files()  # before the checkpoint, which must not overwrite a replaced file
        self._left_at = self._connection.data_version()
        if self._wal_pages - self._checkpointed_pages >= CHECKPOINT_PAGES:
            self._checkpoint()
        self._wal.keep(self._wal_pages)

    def _check_files(self) -> None:
        """Raise `Replaced`, also from all later transactions, if a crash would lose the last commit."""
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
            self._checkpointed_pages = 0  # the WAL restarted at its beginning
        self._wal_pages = pages

    def _checkpoint(self) -> None:
        """Copy the pages that no reader needs from the WAL to the file; a failure cannot undo a commit."""
        try:
            self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        except apsw.Error as error:
            self._translated(error)
            logger.error("checkpoint of %s failed: %s", self._path, error)
        self._checkpointed_pages = self._wal_pages

    def truncate(self) -> bool:
        """Move the whole WAL into the file and truncate it; return False if a reader or a foreign lock prevents it."""
        try:
            self._check_files()
        except Replaced:
            return False  # the next transaction raises the error
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
        """Apply the missing migrations in one transaction; return them.

        Raises:
            Unavailable: The schema is too new, or migrations are missing and not `allowed`.
        """
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
        except BaseException as error:  # noqa: BLE001  # raised again after the rollback
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
        """Copy the file before a migration."""
        if self._path.stat().st_size > MAX_BACKUP_BYTES:
            logger.warning("%s is too large to be copied before its migration", self._path)
            return
        copy = self._path.with_name(f"{self._path.name}.bak-{version}")
        copy.unlink(missing_ok=True)
        connections.create(copy)  # created before it has content, which only its owner may read
        self.fetch("VACUUM INTO $1", str(copy))
