"""The store on a SQLite file: one engine, one connection that writes, durable at each commit (4.8).

On a fast disk a write runs on the event loop and never gives it up; on a slow one it runs in a thread of its own.
Questions by key are answered on the loop, by the writer's connection if that lives there: its cache is warm. Questions
that may take long go to threads with connections of their own.
"""

import asyncio
import threading
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, ParamSpec, TypeVar

import apsw

from assay.core.engine_time import ClockReading, Jump
from assay.core.errors import Invalid, Unavailable
from assay.core.ids import RunId, Time
from assay.storage.forks import call_after_fork
from assay.storage.ports import Broken, Changes, Replaced
from assay.storage.sql import queries, schema
from assay.storage.sql.dialect import SqliteDialect
from assay.storage.sql.reads import SqlReads
from assay.storage.sqlite import connections
from assay.storage.sqlite.lock import OwnedFile
from assay.storage.sqlite.ownership import FileLock, refuse_network
from assay.storage.sqlite.writer import DIALECT, SqliteWriter

SLOW_SYNC = 0.001
"""Seconds. A disk that needs longer gets a writer thread, so that the event loop does not wait for it."""

IDLE_SECONDS = 1.0
"""After so long without a write there is time to cut a large WAL."""

SCANNERS = 2

P = ParamSpec("P")
R = TypeVar("R")


async def _in(pool: Executor | None, act: Callable[P, R], *arguments: P.args, **named: P.kwargs) -> R:
    """Do it in a thread. It goes on when the caller is cancelled: a commit cannot be called back."""
    if pool is None:
        raise Broken("the store is not open")
    return await asyncio.shield(asyncio.wrap_future(pool.submit(act, *arguments, **named)))


class SqliteStore(SqlReads):
    """See `Store`."""

    dialect: ClassVar[SqliteDialect] = DIALECT
    shared = False

    def __init__(
        self, path: str | Path, *, in_thread: bool | None = None, clock: Callable[[], Time], migrate: bool = True
    ) -> None:
        self.path = Path(path).resolve()  # two names of one file must share one lock
        self.inline = not in_thread
        self._in_thread = in_thread
        self._clock = clock
        self._migrate = migrate
        self.migrated: Sequence[schema.Migration] = ()
        """The steps of the schema that opening it took."""
        self._lock = FileLock(self.path)
        self._owned: OwnedFile | None = None
        self._replaced: Replaced | None = None
        self._writer: SqliteWriter | None = None
        self._reader: apsw.Connection | None = None
        self._writing: ThreadPoolExecutor | None = None
        self._scanning: ThreadPoolExecutor | None = None
        self._of_thread = threading.local()
        self._scanners: list[apsw.Connection] = []
        self._idle: asyncio.TimerHandle | None = None
        self._abandoned: list[object] = []

    async def open(self) -> None:
        """See `Store`."""
        folder = self.path.parent
        if not folder.is_dir():
            raise Invalid(f"the folder {folder} does not exist", field="path")
        refuse_network(folder)
        if not self._migrate and not self.path.exists():
            schema.refuse_unmigrated(schema.known())  # before there is a file and a lock that nobody wants
        try:
            self._lock.take(self._clock())
            call_after_fork(self)
            self._open(folder)
        except OSError as error:
            await self.close()
            raise Unavailable(f"{self.path} cannot be opened: {error}", code="store_unreachable") from error
        except BaseException:
            await self.close()
            raise

    def _open(self, folder: Path) -> None:
        if self._in_thread is None:
            self.inline = connections.sync_time(folder) <= SLOW_SYNC
        connections.create(self.path)
        try:
            self._writer = SqliteWriter(self.path)
            self.migrated = self._writer.migrate(schema.known(), self._clock(), allowed=self._migrate)
            self._writer.take_over()
            self._owned = OwnedFile(self.path)
            self._scanning = ThreadPoolExecutor(SCANNERS, "assay-sqlite-reader")
            if not self.inline:
                self._writing = ThreadPoolExecutor(1, "assay-sqlite-writer")
                self._reader = connections.open_reader(self.path)
        except apsw.Error as error:
            raise connections.translated(error) from error

    async def close(self) -> None:
        """See `Store`."""
        if self._idle is not None:
            self._idle.cancel()
        for pool in (self._writing, self._scanning):
            if pool is not None:
                pool.shutdown()
        for reader in (self._reader, *self._scanners):
            if reader is not None:
                reader.close()
        if self._owned is not None:
            self._owned.unlock()
        if self._writer is not None:
            self._writer.close()
        if self._owned is not None:
            self._owned.release()
        self._idle = self._writing = self._scanning = self._reader = self._writer = self._owned = None
        self._scanners = []
        self._lock.release()

    def forked(self) -> None:
        """In a forked child: forget the connections without closing them, which would touch the parent's files."""
        self._abandoned = [self._writer, self._reader, self._writing, self._scanning, self._scanners]
        self._writer = self._reader = self._writing = self._scanning = self._idle = None
        self._scanners = []
        if self._owned is not None:
            self._owned.release()
            self._owned = None
        self._lock.release()

    async def clock(self, jump: Jump | None = None) -> ClockReading:
        """See `Store`: no other engine needs a correction."""
        return ClockReading(self._clock(), self._clock())

    async def write(self, changes: Changes) -> frozenset[RunId]:
        """See `Store`."""
        writer = self._opened()
        try:
            lost = writer.write(changes) if self.inline else await _in(self._writing, writer.write, changes)
        except Replaced as replaced:
            await self._give_up(replaced)
            raise
        if writer.wal_is_large:
            self._cut_wal_when_idle(writer)
        return lost

    async def numbers(self, count: int) -> int:
        """See `Store`."""
        ((first,),) = (await self._change([(queries.RESERVE_NUMBERS, (count,))]))[0]
        return int(first)

    async def change(self, statements: Sequence[tuple[str, tuple[object, ...]]]) -> Sequence[Sequence[Sequence[Any]]]:
        """Execute statements in one transaction, for what is no decision; the rows of each."""
        return await self._change(statements)

    async def _change(self, statements: Sequence[tuple[str, tuple[object, ...]]]) -> Sequence[Sequence[Sequence[Any]]]:
        writer = self._opened()
        try:
            return writer.change(statements) if self.inline else await _in(self._writing, writer.change, statements)
        except Replaced as replaced:
            await self._give_up(replaced)
            raise

    def subscribe(
        self, wake: Callable[[], None], closed: Callable[[Collection[RunId] | None], None] | None = None
    ) -> None:
        """See `Store`: nobody else writes to the file."""

    async def _give_up(self, replaced: Replaced) -> None:
        """Close everything, so that the file can be opened anew in this process, and refuse all calls from now on.

        A new connection would share the index of the lost WAL with connections that are still open.
        """
        self._replaced = replaced
        for reader in self._scanners:
            reader.interrupt()
        await self.close()

    def _opened(self) -> SqliteWriter:
        if self._replaced is not None:
            raise self._replaced
        if self._writer is None:
            raise Broken(f"{self.path} is not open in this process")
        return self._writer

    def _cut_wal_when_idle(self, writer: SqliteWriter) -> None:
        if self._idle is not None:
            self._idle.cancel()
        cut = writer.truncate if self._writing is None else partial(self._writing.submit, writer.truncate)
        self._idle = asyncio.get_running_loop().call_later(IDLE_SECONDS, cut)

    async def _fetch(self, text: str, *arguments: object) -> Sequence[Sequence[Any]]:
        if self._reader is not None:  # there is none once the store is closed
            return connections.rows(self._reader, DIALECT.query(text), arguments)
        return self._opened().fetch(text, *arguments)

    async def ask(self, text: str, *arguments: object) -> Sequence[Sequence[Any]]:
        self._opened()
        return await _in(self._scanning, self._scan_here, DIALECT.query(text), arguments)

    def _scan_here(self, text: str, arguments: tuple[object, ...]) -> Sequence[Sequence[Any]]:
        reader: apsw.Connection | None = getattr(self._of_thread, "reader", None)
        if reader is None:
            reader = self._of_thread.reader = connections.open_reader(self.path)
            self._scanners.append(reader)
        return connections.rows(reader, text, arguments)
