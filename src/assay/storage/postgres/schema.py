"""Migrations on Postgres: one engine at a time, each step recorded in the transaction that takes it (U1-U3)."""

from collections.abc import Sequence
from typing import Any

from assay.storage.ports import Broken
from assay.storage.sql import queries, schema_versions
from assay.storage.sql.dialect import PostgresDialect

DIALECT = PostgresDialect()

SCHEMA_LOCK_ID = 0x6173736179
"""The advisory lock of whoever changes the schema."""

_LONG_TIMEOUTS = "SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = '60s'"
_SHORT_LOCK_TIMEOUT = "SET LOCAL lock_timeout = '2s'"
"""A change that waits for a long reader makes everybody else wait behind it: better to give up and try again."""

_HAS_VERSIONS = """
SELECT 1 FROM pg_tables WHERE tablename = 'schema_versions' AND schemaname = ANY(current_schemas(false))"""
"""Not to_regclass: it answers from a cache that does not hear of what others did while this one waited for the lock."""


async def migrate(
    connection: Any, known: Sequence[schema_versions.Migration], *, allowed: bool
) -> Sequence[schema_versions.Migration]:
    """Bring the schema up to date (R46); the steps that it took."""
    if not schema_versions.missing(await _recorded(connection), known):
        return ()
    async with connection.transaction():
        await connection.execute(_LONG_TIMEOUTS)
        await connection.execute("SELECT pg_advisory_xact_lock($1)", SCHEMA_LOCK_ID)
        todo = schema_versions.missing(await _recorded(connection), known)
        if not allowed:
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
    """Return the error for all writes of an engine that is too old for the schema; None if it may write (I26)."""
    return Broken(schema_versions.too_new(min_writer)) if min_writer > schema_versions.newest_known() else None
