"""Pools of connections to Postgres by purpose: an exhausted pool delays only its own purpose.

writes     transactions, and their reads by key
timing     deadlines, leases, ready work and the outbox: the engine's own loops (I10)
reads      callers' reads by key, histories, the journal
searches   callers' lists and counts, which may scan a whole namespace
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

import asyncpg
from asyncpg import exceptions as pg

from assay.storage.ports import READ_SECONDS, Broken, ReadTooLong, TooManyReads
from assay.storage.postgres.connections import CONNECT_OPTIONS, SESSION_SETTINGS

ACQUIRE_SECONDS: Final = 5.0
TIMING_CONNECTIONS: Final = 2
READ_CONNECTIONS: Final = 4
SEARCH_CONNECTIONS: Final = 4

_FOR_CALLERS: Final = {"statement_timeout": f"{READ_SECONDS:g}s", "default_transaction_read_only": "on"}
# Parallel plans of searches would take processors away from commits.
_FOR_SEARCHES: Final = {**_FOR_CALLERS, "max_parallel_workers_per_gather": "0"}


class ConnectionPool:
    """Connections for a purpose, opened on demand."""

    def __init__(self, dsn: str, size: int, settings: dict[str, str] | None = None) -> None:
        self._dsn = dsn
        self.size = size
        self._settings = settings
        self._pool: Any = None

    async def open(self) -> None:
        """Create the pool; no connection is opened yet."""
        options = {**CONNECT_OPTIONS, "server_settings": {**SESSION_SETTINGS, **(self._settings or {})}}
        self._pool = await asyncpg.create_pool(
            self._dsn, min_size=0, max_size=self.size, reset=_reset_nothing, **options
        )

    async def close(self) -> None:
        """Close all connections."""
        pool, self._pool = self._pool, None
        if pool is not None:
            await pool.close()

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Any]:
        """Hold a connection during the block; close the connection if the block raises."""
        if self._pool is None:
            raise Broken("the store is not open")
        connection = await self._acquire()
        try:
            yield connection
        except BaseException:
            with suppress(pg.InterfaceError):  # raised if the pool has already reclaimed a lost connection
                connection.terminate()
            raise
        finally:
            await self._pool.release(connection)

    async def _acquire(self) -> Any:
        return await self._pool.acquire(timeout=ACQUIRE_SECONDS)

    async def fetch(self, text: str, arguments: Sequence[object]) -> Sequence[Sequence[Any]]:
        """Return the rows of a statement."""
        async with self.connection() as connection:
            found: Sequence[Sequence[Any]] = await connection.fetch(text, *arguments)
            return found


class CallerPool(ConnectionPool):
    """Connections for callers' reads; a read is refused if the read takes too long or the pool is exhausted."""

    async def _acquire(self) -> Any:
        try:
            return await super()._acquire()
        except TimeoutError:
            if self._pool.get_idle_size() or self._pool.get_size() < self.size:
                raise  # the server did not accept a connection in time
            text = f"no read could begin within {ACQUIRE_SECONDS:g} s: too many run already"
            raise TooManyReads(text) from None

    async def fetch(self, text: str, arguments: Sequence[object]) -> Sequence[Sequence[Any]]:
        """Return the rows of a statement; raise `ReadTooLong` if the statement exceeds its time."""
        try:
            return await super().fetch(text, arguments)
        except pg.QueryCanceledError:
            raise ReadTooLong from None


async def _reset_nothing(_connection: Any) -> None:
    """Skip the reset of a returned connection: sessions have no state, and connections with errors are closed."""


class ConnectionPools:
    """The pools of a store."""

    def __init__(self, dsn: str, writes: int) -> None:
        self.writes = ConnectionPool(dsn, writes)
        self.timing = ConnectionPool(dsn, TIMING_CONNECTIONS)
        self.reads = CallerPool(dsn, READ_CONNECTIONS, _FOR_CALLERS)
        self.searches = CallerPool(dsn, SEARCH_CONNECTIONS, _FOR_SEARCHES)

    async def open(self) -> None:
        """Create the pools."""
        for pool in (self.writes, self.timing, self.reads, self.searches):
            await pool.open()

    async def close(self) -> None:
        """Close all connections of all pools."""
        for pool in (self.writes, self.timing, self.reads, self.searches):
            await pool.close()
