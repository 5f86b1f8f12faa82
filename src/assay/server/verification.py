"""Verifies a database, beside a running engine or without one; changes nothing."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from assay.core.model.ids import Time
from assay.engine.clock import SystemClock
from assay.storage.sql.reads import SqlReads
from assay.storage.urls import PostgresUrl, SqliteUrl, parse_url
from assay.storage.verify import Violation, verify


async def violations(url: str) -> AsyncIterator[Violation]:
    """Yield every violation of the contract in the database of `url`."""
    async with _opened(url) as (store, now):
        async for violation in verify(store, now):
            yield violation


@asynccontextmanager
async def _opened(url: str) -> AsyncIterator[tuple[SqlReads, Time]]:
    match parse_url(url):
        case SqliteUrl(path):
            from assay.storage.sqlite.reader import SqliteReader

            clock = SystemClock()
            reader = SqliteReader(path, clock=clock.now, seconds=None)
            await reader.open()
            try:
                yield reader, clock.now()
            finally:
                await reader.close()
        case PostgresUrl(dsn):
            from assay.storage.postgres.store import PostgresStore

            store = PostgresStore(dsn, migrate=False)
            await store.open()
            try:
                yield store, (await store.clock()).time
            finally:
                await store.close()
