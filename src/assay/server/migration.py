"""The schema of a database brought up to date by hand: as by an engine that starts, under the same lock (R46, U1)."""

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
    """What was done to a database: the steps that were missing, and the schema it has now."""

    place: str
    steps: tuple[int, ...]
    version: int


async def migrate(url: str) -> Migrated:
    """Take the steps that are missing; a SQLite file must not be in use."""
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
