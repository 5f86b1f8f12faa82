"""Changes of a SQLite file beside the engine that owns the file: only for rows on which no decision depends."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import apsw

from assay.core.model.errors import Unavailable
from assay.storage.sql import schema_versions
from assay.storage.sql.dialect import Dialect
from assay.storage.sqlite.writer import DIALECT

BUSY_MILLISECONDS: Final = 10_000
"""The longest wait for the engine's own transaction."""

Statement = tuple[str, tuple[object, ...]]
Rows = Sequence[Sequence[Any]]


class SharedFile:
    """A connection to a file with this program's schema, without the engine's lock."""

    def __init__(self, path: Path) -> None:
        self._connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
        self._connection.set_busy_timeout(BUSY_MILLISECONDS)

    @property
    def dialect(self) -> Dialect:
        """Return the SQL dialect of SQLite."""
        return DIALECT

    def check_schema(self) -> None:
        """Raise `Unavailable` if the schema of the file is not this program's."""
        found = self._connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'schema_versions'").fetchone()
        if found is None:
            raise Unavailable("the file is a database of another program", code="not_a_database")
        recorded = list(
            self._connection.execute("SELECT version, min_reader, min_writer, checksum FROM schema_versions")
        )
        if schema_versions.missing(recorded, schema_versions.known()):
            raise Unavailable("the database has an older schema: run `assay migrate` first", code="schema_too_old")

    async def query(self, text: str, *arguments: object) -> Rows:
        """Return the rows of a query."""
        return await asyncio.to_thread(self._execute, text, arguments)

    async def change(self, statements: Sequence[Statement]) -> Sequence[Rows]:
        """Execute statements in one transaction; return the rows of each."""
        return await asyncio.to_thread(self._change, statements)

    def _change(self, statements: Sequence[Statement]) -> Sequence[Rows]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            rows = [self._execute(text, arguments) for text, arguments in statements]
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")
        return rows

    def _execute(self, text: str, arguments: tuple[object, ...]) -> Rows:
        return list(self._connection.execute(DIALECT.query(text), arguments))

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()
