"""Migrates the schema of a database by hand, as an engine does at its start, and under the same lock."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from assay.core.model.errors import Unavailable
from assay.engine.clock import SystemClock
from assay.server.logs import redacted
from assay.storage.sql import schema_versions
from assay.storage.urls import PostgresUrl, SqliteUrl, parse_url

if TYPE_CHECKING:
    from assay.storage.postgres.store import PostgresStore
    from assay.storage.sqlite.store import SqliteStore


@dataclass(frozen=True)
class Migrated:
    """The result of a migration: the steps that were applied, and the present version of the schema."""

    place: str
    steps: tuple[int, ...]
    version: int


async def migrate(url: str) -> Migrated:
    """Apply the missing steps to the database of `url`; raise `Unavailable` for a SQLite file in use."""
    store, place = _store(url)
    try:
        await store.open()
    except Unavailable as error:
        if error.code != "store_in_use":
            raise
        raise Unavailable(f"stop the engine first: {error}", code=error.code) from None
    await store.close()
    return Migrated(place, tuple(step.version for step in store.migrated), schema_versions.known()[-1].version)


def _store(url: str) -> "tuple[SqliteStore | PostgresStore, str]":
    match parse_url(url):
        case SqliteUrl(path):
            from assay.storage.sqlite.store import SqliteStore

            file = SqliteStore(path, clock=SystemClock().now)
            return file, str(file.path)
        case PostgresUrl(dsn):
            from assay.storage.postgres.store import PostgresStore

            return PostgresStore(dsn), redacted(dsn)
