"""Which store an embedded engine runs on; a driver is imported only when its database is used."""

from collections.abc import Callable

from assay.core.ids import Time
from assay.storage.store import Store
from assay.storage.urls import PostgresUrl, SqliteUrl, parse_url


def store_for(url: str, now: Callable[[], Time]) -> Store:
    """The store that `url` names; it is not connected yet."""
    match parse_url(url):
        case SqliteUrl(path):
            from assay.storage.sqlite import SqliteStore

            return SqliteStore(path, clock=now)
        case PostgresUrl(dsn):
            from assay.storage.postgres import PostgresStore

            return PostgresStore(dsn)
