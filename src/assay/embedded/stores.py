"""Chooses the store of an embedded engine; a driver is imported only when its database is used."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from assay.core.model.ids import Time
from assay.storage.urls import PostgresUrl, SqliteUrl, parse_url

if TYPE_CHECKING:
    from assay.storage.postgres.store import PostgresStore
    from assay.storage.sqlite.store import SqliteStore


def store_for(url: str, now: Callable[[], Time]) -> "SqliteStore | PostgresStore":
    """Return the store of `url`, not opened yet."""
    match parse_url(url):
        case SqliteUrl(path):
            from assay.storage.sqlite.store import SqliteStore

            return SqliteStore(path, clock=now)
        case PostgresUrl(dsn):
            from assay.storage.postgres.store import PostgresStore

            return PostgresStore(dsn)
