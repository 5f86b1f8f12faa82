"""Migrations on Postgres: a single engine migrates at a time, and records each migration in the same transaction."""

from collections.abc import Sequence
from typing import Any

from assay.storage.ports import Broken
from assay.storage.sql import queries, schema_versions
from assay.storage.sql.dialect import PostgresDialect

DIALECT = PostgresDialect()

SCHEMA_LOCK_ID = 0x6173736179
"""The advisory lock that an engine holds while it changes the schema."""

_LONG_TIMEOUTS = "SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = '60s'"
_SHORT_LOCK_TIMEOUT = "SET LOCAL lock_timeout = '2s'"
"""A schema change that waits for a long reader blocks all later readers: better to fail soon and retry."""

_HAS_VERSIONS = """
SELECT 1 FROM pg_tables WHERE tablename = 'schema_versions' AND schemaname = ANY(current_schemas(false))"""
"""Instead of to_regclass, whose cache may miss a table that another engine created during the wait for the lock."""


async def migrate(
    connection: Any, known: Sequence[schema_versions.Migration], *, allowed: bool, create: bool = False
) -> Sequence[schema_versions.Migration]:
    """Apply the missing migrations; return them. With `create`, an empty database may be migrated in any case.

    Raises:
        Unavailable: The schema is too new, or migrations are missing and not `allowed`.
    """
    if not schema_versions.missing(await _recorded(connection), known):
        return ()
    async with connection.transaction():
        await connection.execute(_LONG_TIMEOUTS)
        await connection.execute("SELECT pg_advisory_xact_lock($1)", SCHEMA_LOCK_ID)
        # Read again under the lock: another engine may have migrated during the wait.
        recorded = await _recorded(connection)
        todo = schema_versions.missing(recorded, known)
        if not (allowed or (create and not recorded)):
            schema_versions.refuse_unmigrated(todo)
        await connection.execute(_SHORT_LOCK_TIMEOUT)
        await connection.execute(DIALECT.script(schema_versions.VERSIONS_TABLE))
        now = await connection.fetchval(queries.DATABASE_TIME)
        for step in todo:
            await connection.execute(DIALECT.script(step.script))
            facts = (step.version, step.min_reader, step.min_writer, now, step.checksum)
            await connection.execute(queries.RECORD_SCHEMA_VERSION, *facts)
    return todo


async def _recorded(connection: Any) -> Sequence[Sequence[Any]]:
    if await connection.fetchval(_HAS_VERSIONS) is None:
        return []
    found: Sequence[Sequence[Any]] = await connection.fetch(queries.SCHEMA_VERSIONS)
    return found


def outdated(min_writer: int) -> Broken | None:
    """Return the error for all writes of an engine too old for the schema; None for an engine that may write (I26)."""
    return Broken(schema_versions.too_new(min_writer)) if min_writer > schema_versions.newest_known() else None
