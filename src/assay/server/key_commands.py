"""API keys without a running engine: create an admin key, list the keys."""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from assay.auth.api_keys import BOOTSTRAP_LABEL, ApiKey, NewKey
from assay.auth.key_registry import KeyRegistry
from assay.auth.permissions import UNRESTRICTED, Role
from assay.core.model.errors import Unavailable
from assay.engine.clock import SystemClock
from assay.server.credentials import StoredCredentials
from assay.storage.sql.credentials import SqlCredentials
from assay.storage.urls import PostgresUrl, SqliteUrl, parse_url


async def generate_key(url: str, label: str | None = None) -> str:
    """Create an admin key of all namespaces; return its text."""
    async with _keys(url) as keys:
        _, plaintext = await keys.create(NewKey(label=label or BOOTSTRAP_LABEL, role=Role.ADMIN))
    if plaintext is None:
        raise Unavailable("the key could not be made")
    return plaintext


async def list_keys(url: str) -> Sequence[ApiKey]:
    """Return the keys of a database that are not revoked, newest first."""
    async with _keys(url) as keys:
        return await keys.list(UNRESTRICTED)


@asynccontextmanager
async def _keys(url: str) -> AsyncIterator[KeyRegistry]:
    match parse_url(url):
        case SqliteUrl(path):
            async with _keys_of_file(path) as keys:
                yield keys
        case PostgresUrl(dsn):
            from assay.storage.postgres.store import PostgresStore

            server = PostgresStore(dsn, migrate=False, create=True)
            with _naming_migrate():
                await server.open()
            try:
                yield _registry(SqlCredentials(server))
            finally:
                await server.close()


@asynccontextmanager
async def _keys_of_file(path: Path) -> AsyncIterator[KeyRegistry]:
    from assay.storage.sqlite.shared_file import SharedFile

    if not _has_content(path):
        await _create(path)
    file = SharedFile(path)
    try:
        with _naming_migrate():
            file.check_schema()
        yield _registry(SqlCredentials(file))
    finally:
        file.close()


@contextmanager
def _naming_migrate() -> Iterator[None]:
    """Name the command that changes schemas in the error for a database of another version."""
    try:
        yield
    except Unavailable as error:
        if "assay migrate" in str(error) or not error.code.startswith("schema_"):
            raise
        text = f"{error}; `assay migrate` of that version changes schemas, keys are made by the version of the database"
        raise Unavailable(text, code=error.code) from None


async def _create(path: Path) -> None:
    """Create the schema of a file that is missing or empty."""
    from assay.storage.sqlite.store import SqliteStore

    store = SqliteStore(path, clock=SystemClock().now)
    await store.open()
    await store.close()


def _has_content(path: Path) -> bool:
    return path.exists() and path.stat().st_size > 0


def _registry(rows: SqlCredentials) -> KeyRegistry:
    return KeyRegistry(StoredCredentials(rows), SystemClock().now)
