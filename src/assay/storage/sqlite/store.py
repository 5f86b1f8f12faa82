"""The store on a SQLite file: a single engine, a single connection that writes, every commit durable.

On a fast disk a write runs on the event loop and never suspends; on a slow disk the write runs in the writer's thread.
Each commit is measured, and writes move when the disk becomes slow or fast. Reads by key run on the loop, on the
writer's connection if writes run there as well, because its cache is warm. Longer reads run in threads, on connections
of their own and for a limited time: their snapshots keep the WAL from restarting at its beginning.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar, ParamSpec, TypeVar

import apsw

from assay.core.engine_time import ClockReading, Jump
from assay.core.model.errors import AssayError, Invalid, Unavailable
from assay.core.model.ids import RunId, Time
from assay.storage.forks import call_after_fork
from assay.storage.ports import READ_SECONDS, Broken, Changes, Rejected, Replaced
from assay.storage.search_slots import SearchSlots
from assay.storage.sql import queries, schema_versions
from assay.storage.sql.dialect import SqliteDialect
from assay.storage.sql.reads import SqlReads
from assay.storage.sqlite import connections
from assay.storage.sqlite.lock import OwnedFile
from assay.storage.sqlite.ownership import FileLock, refuse_network
from assay.storage.sqlite.pace import CommitPace
from assay.storage.sqlite.writer import DIALECT, SqliteWriter

SLOW_SYNC_SECONDS = 0.001
"""A disk with slower syncs gets a writer thread, because the event loop must not wait for the disk."""

IDLE_SECONDS = 1.0
"""The time without a write after which a large WAL is truncated."""
TRUNCATE_RETRY_SECONDS = 5.0
"""The time between two attempts to truncate a WAL during writes."""
WAL_WARNING_BYTES = 256 * 1024 * 1024

SCAN_THREADS = 2
SEARCH_THREADS = 2
SCAN_SECONDS = 30.0
"""The longest time for a read of the engine itself; callers' reads have `READ_SECONDS`."""

LOCK_WAIT_SECONDS = 5.0
"""The longest wait for another process to release the write lock of the file."""
LOCK_PAUSE_SECONDS = (0.005, 0.01, 0.02, 0.05)

P = ParamSpec("P")
P1 = TypeVar("P1")
R = TypeVar("R")


logger = logging.getLogger(__name__)


def _in(pool: Executor | None, act: Callable[P, R], *arguments: P.args, **named: P.kwargs) -> "asyncio.Future[R]":
    """Call a function in a thread; the call continues if its caller is cancelled, because a commit cannot be undone."""
    if pool is None:
        raise Broken("the store is not open")
    return asyncio.wrap_future(pool.submit(act, *arguments, **named))


class SqliteStore(SqlReads):
    """See `Store`."""

    dialect: ClassVar[SqliteDialect] = DIALECT
    shared = False

    def __init__(
        self, path: str | Path, *, in_thread: bool | None = None, clock: Callable[[], Time], migrate: bool = True
    ) -> None:
        self.path = Path(path).resolve()  # two names of a file must have the same lock file
        self.inline = not in_thread
        self._in_thread = in_thread
        self._clock = clock
        self._migrate = migrate
        self.migrated: Sequence[schema_versions.Migration] = ()
        """The migrations that `open` applied."""
        self._lock = FileLock(self.path)
        self._owned: OwnedFile | None = None
        self._replaced: Replaced | None = None
        self._writer: SqliteWriter | None = None
        self._reader: apsw.Connection | None = None
        self._writing: ThreadPoolExecutor | None = None
        self._running: set[asyncio.Future[Any]] = set()
        """Calls of the writer in its thread."""
        self._scanning: ThreadPoolExecutor | None = None
        self._scans = SearchSlots(SCAN_THREADS)
        self._searching: ThreadPoolExecutor | None = None
        self._searches = SearchSlots(SEARCH_THREADS)
        self._of_thread = threading.local()
        self._scanners: list[apsw.Connection] = []
        self._idle: asyncio.TimerHandle | None = None
        self._truncating: asyncio.Task[None] | None = None
        self._truncate_not_before = 0.0
        self._warned_of_wal = False
        self._abandoned: list[object] = []

    async def open(self) -> None:
        """See `Store`."""
        folder = self.path.parent
        if not folder.is_dir():
            raise Invalid(f"the folder {folder} does not exist", field="path")
        refuse_network(folder)
        if not self._migrate and not self.path.exists():
            schema_versions.refuse_unmigrated(schema_versions.known())  # before a file and a lock file are created
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
            self.inline = connections.sync_time(folder) <= SLOW_SYNC_SECONDS
        connections.create(self.path)
        try:
            pace = CommitPace(SLOW_SYNC_SECONDS, in_thread=not self.inline) if self._in_thread is None else None
            self._writer = SqliteWriter(self.path, pace)
            self.migrated = self._writer.migrate(schema_versions.known(), self._clock(), allowed=self._migrate)
            self._writer.take_over()
            self._owned = OwnedFile(self.path)
            self._scanning = ThreadPoolExecutor(SCAN_THREADS, "assay-sqlite-reader")
            self._searching = ThreadPoolExecutor(SEARCH_THREADS, "assay-sqlite-search")
            if not self.inline:
                self._open_thread()
        except apsw.Error as error:
            raise connections.translated(error) from error

    def _open_thread(self) -> None:
        """Create the thread for writes and the connection for reads on the loop; both stay if writes move back."""
        if self._writing is None:
            self._writing = ThreadPoolExecutor(1, "assay-sqlite-writer")
            self._reader = connections.open_reader(self.path)
            self._reader.set_busy_timeout(0)

    async def close(self) -> None:
        """See `Store`."""
        if self._idle is not None:
            self._idle.cancel()
        if self._truncating is not None:
            self._truncating.cancel()
        for scanner in self._scanners:
            scanner.interrupt()
        for pool in (self._writing, self._scanning, self._searching):
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
        self._idle = self._writing = self._scanning = self._searching = self._reader = None
        self._writer = self._owned = self._truncating = None
        self._scanners = []
        self._lock.release()

    def forked(self) -> None:
        """Drop the connections in a forked child without closing them: closing would change the parent's files."""
        threads = (self._writing, self._scanning, self._searching)
        self._abandoned = [self._writer, self._reader, threads, self._scanners, self._truncating]
        self._writer = self._reader = self._writing = self._scanning = self._searching = self._idle = None
        self._truncating = None
        self._scanners = []
        if self._owned is not None:
            self._owned.release()
            self._owned = None
        self._lock.release()

    async def clock(self, jump: Jump | None = None) -> ClockReading:
        """See `Store`: without other engines the clock needs no correction."""
        return ClockReading(self._clock(), self._clock())

    async def write(self, changes: Changes) -> frozenset[RunId]:
        """See `Store`."""
        writer = self._opened()
        lost = await self._commit(writer, writer.write, changes)
        if writer.wal_is_large:
            self._keep_wal_short(writer)
        return lost

    async def _commit(self, writer: SqliteWriter, act: Callable[[P1], R], argument: P1) -> R:
        """Run a transaction; retry for a limited time while another process holds the write lock."""
        try:
            try:
                done = act(argument) if self.inline else await self._in_thread_of_writer(act, argument)
            except connections.WriteLocked:
                done = await self._when_unlocked(act, argument)
        except Replaced as replaced:
            await self._give_up(replaced)
            raise
        if self._in_thread is None and writer.pace.in_thread is self.inline:
            self._move()
        return done

    async def _when_unlocked(self, act: Callable[[P1], R], argument: P1) -> R:
        """Retry a transaction. The event loop serves other requests between two attempts and never blocks."""
        loop = asyncio.get_running_loop()
        end, attempt = loop.time() + LOCK_WAIT_SECONDS, 0
        while True:
            await asyncio.sleep(LOCK_PAUSE_SECONDS[min(attempt, len(LOCK_PAUSE_SECONDS) - 1)])
            attempt += 1
            self._opened()
            try:
                return act(argument) if self.inline else await self._in_thread_of_writer(act, argument)
            except connections.WriteLocked as locked:
                if loop.time() > end:
                    raise Rejected(str(locked)) from None

    async def _in_thread_of_writer(self, act: Callable[P, R], *arguments: P.args, **named: P.kwargs) -> R:
        call = _in(self._writing, act, *arguments, **named)
        self._running.add(call)
        call.add_done_callback(self._running.discard)
        return await asyncio.shield(call)

    def _move(self) -> None:
        """Move writes to the thread, or back to the loop if the thread is idle."""
        if self.inline:
            logger.warning("commits to %s are slow: they run in a thread until the disk is fast again", self.path)
            self._open_thread()
            self.inline = False
        elif not self._running:
            logger.info("commits to %s are fast again: they run on the event loop", self.path)
            self.inline = True

    async def numbers(self, count: int) -> int:
        """See `Store`."""
        ((first,),) = (await self._change([(queries.RESERVE_NUMBERS, (count,))]))[0]
        return int(first)

    async def change(self, statements: Sequence[tuple[str, tuple[object, ...]]]) -> Sequence[Sequence[Sequence[Any]]]:
        """Execute statements that are no decision in one transaction; return the rows of each."""
        return await self._change(statements)

    async def _change(self, statements: Sequence[tuple[str, tuple[object, ...]]]) -> Sequence[Sequence[Sequence[Any]]]:
        writer = self._opened()
        return await self._commit(writer, writer.change, statements)

    def subscribe(
        self, wake: Callable[[], None], closed: Callable[[Collection[RunId] | None], None] | None = None
    ) -> None:
        """See `Store`: nothing is called, because no other engine writes to the file."""

    async def _give_up(self, replaced: Replaced) -> None:
        """Close all connections and refuse all further calls, to let this process open the file again.

        With an old connection still open, a new connection would share the index of the lost WAL.
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

    @property
    def wal_bytes(self) -> int | None:
        """See `Store`."""
        return None if self._writer is None else self._writer.wal_bytes

    def _keep_wal_short(self, writer: SqliteWriter) -> None:
        """Truncate a large WAL now, unless the last attempt was recent, and again when writes pause."""
        loop = asyncio.get_running_loop()
        if self._idle is not None:
            self._idle.cancel()
        self._idle = loop.call_later(IDLE_SECONDS, self._begin_truncate, writer)
        if loop.time() >= self._truncate_not_before:
            self._begin_truncate(writer)
        if not self._warned_of_wal and writer.wal_bytes > WAL_WARNING_BYTES:
            self._warned_of_wal = True
            logger.warning(
                "the WAL of %s has %d MiB and cannot be truncated: a process holds a long read of the file",
                self.path,
                writer.wal_bytes >> 20,
            )

    def _begin_truncate(self, writer: SqliteWriter) -> None:
        if self._truncating is None and writer is self._writer:
            self._truncating = asyncio.get_running_loop().create_task(self._truncate_wal(writer))

    async def _truncate_wal(self, writer: SqliteWriter) -> None:
        """Truncate the WAL after all reads in threads have ended; new reads wait meanwhile.

        The slots of searches are reserved first: searches take longest, and the engine's own reads continue until then.
        A process that reads the file beside the engine can prevent the truncation, which is then retried.
        """
        loop, done = asyncio.get_running_loop(), False
        try:
            async with self._searches.all_reserved(), self._scans.all_reserved():
                if self._in_thread is False:
                    done = writer.truncate()
                else:  # copying a long WAL takes long: writes move to the thread, and back when the thread is idle
                    self._open_thread()
                    self.inline = False
                    done = await self._in_thread_of_writer(writer.truncate)
        except AssayError as error:
            logger.warning("the WAL of %s could not be truncated: %s", self.path, error)
        finally:
            self._truncating = None
            self._truncate_not_before = loop.time() + TRUNCATE_RETRY_SECONDS
        if self._in_thread is None and not self.inline and not writer.pace.in_thread and not self._running:
            self.inline = True
        if done:
            self._warned_of_wal = False
        elif writer is self._writer:
            self._idle = loop.call_later(TRUNCATE_RETRY_SECONDS, self._begin_truncate, writer)

    async def _fetch(self, text: str, *arguments: object) -> Sequence[Sequence[Any]]:
        if not self.inline and self._reader is not None:  # None after `close`
            return connections.rows(self._reader, DIALECT.query(text), arguments)
        return self._opened().fetch(text, *arguments)

    async def query(self, text: str, *arguments: object) -> Sequence[Sequence[Any]]:
        self._opened()
        async with self._scans.reserved(patient=True):
            return await self._scan(self._scanning, text, arguments, SCAN_SECONDS)

    async def search(self, text: str, *arguments: object) -> Sequence[Sequence[Any]]:
        self._opened()
        async with self._searches.reserved():
            return await self._scan(self._searching, text, arguments, READ_SECONDS)

    async def _scan(
        self, threads: Executor | None, text: str, arguments: tuple[object, ...], seconds: float
    ) -> Sequence[Sequence[Any]]:
        return await asyncio.shield(_in(threads, self._scan_here, DIALECT.query(text), arguments, seconds))

    def _scan_here(self, text: str, arguments: tuple[object, ...], seconds: float) -> Sequence[Sequence[Any]]:
        reader: apsw.Connection | None = getattr(self._of_thread, "reader", None)
        if reader is None:
            reader = self._of_thread.reader = connections.open_reader(self.path)
            self._scanners.append(reader)
        return connections.rows_within(reader, text, arguments, seconds)
