"""Read a SQLite file beside the engine that uses the file, or read a copy, without any write.

The connections are read-only: they take no lock that an engine needs and cannot checkpoint. Closing the last of them
keeps the WAL of a killed engine for the next engine.
"""

import asyncio
import threading
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar, Final

import apsw

from assay.core.engine_time import ClockReading, Jump
from assay.core.model.errors import AssayError, Invalid, ReadOnly, Unavailable
from assay.core.model.ids import RunId, Time
from assay.storage.ports import READ_SECONDS, Broken, Changes
from assay.storage.sql import queries, schema_versions
from assay.storage.sql.dialect import SqliteDialect
from assay.storage.sql.reads import SqlReads
from assay.storage.sqlite import connections
from assay.storage.sqlite.lock import Identity, identity_of
from assay.storage.sqlite.writer import DIALECT

READER_THREADS: Final = 2


class SqliteReader(SqlReads):
    """A file that an engine may be using: reads only, no lock, no migration. See `Store`."""

    dialect: ClassVar[SqliteDialect] = DIALECT
    shared = True
    inline = False

    def __init__(self, path: str | Path, *, clock: Callable[[], Time], seconds: float | None = READ_SECONDS) -> None:
        """Prepare to read; `seconds` is the longest time of a statement, None allows any."""
        self.path = Path(path).absolute()
        self._clock = clock
        self._seconds = seconds
        self._threads: ThreadPoolExecutor | None = None
        self._of_thread = threading.local()
        self._opened: list[apsw.Connection] = []

    async def open(self) -> None:
        """Connect, and refuse a schema that this program cannot read."""
        if not self.path.is_file():
            raise Invalid(f"there is no file {self.path}", field="path")
        self._threads = ThreadPoolExecutor(READER_THREADS, "assay-sqlite-reader")
        try:
            recorded = await self.query(queries.SCHEMA_VERSIONS)
        except AssayError as error:
            await self.close()
            raise Unavailable(f"{self.path} cannot be read: {error}", code="foreign_database") from error
        try:
            _refuse_schema(self.path, recorded)
        except Unavailable:
            await self.close()
            raise

    async def close(self) -> None:
        """Close all connections."""
        if self._threads is not None:
            for connection in self._opened:
                connection.interrupt()
            self._threads.shutdown()
            self._threads = None
        for connection in self._opened:
            connection.close()
        self._opened = []

    async def query(self, text: str, *arguments: object) -> Sequence[Sequence[Any]]:
        """Return the rows of a statement; each statement is a read transaction."""
        if self._threads is None:
            raise Broken(f"{self.path} is not open")
        read = self._threads.submit(self._read, DIALECT.query(text), arguments)
        return await asyncio.wrap_future(read)

    async def _fetch(self, text: str, *arguments: object) -> Sequence[Sequence[Any]]:
        return await self.query(text, *arguments)

    def _read(self, text: str, arguments: tuple[object, ...]) -> Sequence[Sequence[Any]]:
        return connections.rows_within(self._connection(), text, arguments, self._seconds)

    def _connection(self) -> apsw.Connection:
        """Return the connection of this thread; open another if the file was replaced since."""
        try:
            found = identity_of(self.path)
        except OSError as error:
            raise Unavailable(f"{self.path} cannot be read: {error.strerror}") from None
        known: tuple[Identity, apsw.Connection] | None = getattr(self._of_thread, "connection", None)
        if known is not None and known[0] == found:
            return known[1]
        if known is not None:
            self._opened.remove(known[1])
            known[1].close()
            del self._of_thread.connection
        try:
            connection = connections.open_read_only(self.path)
        except apsw.Error as error:
            raise connections.translated(error) from error
        self._opened.append(connection)
        self._of_thread.connection = found, connection
        return connection

    async def clock(self, jump: Jump | None = None) -> ClockReading:
        """See `Store`."""
        return ClockReading(self._clock(), self._clock())

    def subscribe(
        self, wake: Callable[[], None], closed: Callable[[Collection[RunId] | None], None] | None = None
    ) -> None:
        """See `Store`: nothing is called, because SQLite does not report writes of other processes."""

    async def write(self, changes: Changes) -> frozenset[RunId]:
        """See `Store`."""
        raise ReadOnly

    async def numbers(self, count: int) -> int:
        """See `Store`."""
        raise ReadOnly

    async def change(self, statements: Sequence[tuple[str, tuple[object, ...]]]) -> Sequence[Sequence[Sequence[Any]]]:
        """Raise `ReadOnly`."""
        raise ReadOnly


def _refuse_schema(path: Path, recorded: Sequence[Sequence[Any]]) -> None:
    """Raise `Unavailable` for a schema that is older or newer than this program's."""
    missing = schema_versions.missing(recorded, schema_versions.known())
    found, known = max((row[0] for row in recorded), default=0), schema_versions.known()[-1].version
    if missing or found != known:
        text = f"{path} has schema {found}, and this version of assay reads schema {known}: "
        if found > known:
            raise Unavailable(text + "read it with the version of its engine", code="schema_too_new")
        raise Unavailable(text + "run `assay migrate` while no engine uses it", code="schema_too_old")
