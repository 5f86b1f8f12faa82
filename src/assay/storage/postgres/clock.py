"""The time that engines on one Postgres share: the server's clock plus a correction that takes its steps out.

An engine asks on a connection of its own, so that a busy pool does not lengthen the round trip, and holds a shared
advisory lock there for its life. Engine time is read by functions in the database, for all engines alike.
"""

from typing import Any

from assay.core.engine_time import ClockReading, Jump
from assay.storage.postgres.connections import DRIVER_ERRORS, connect, translated
from assay.storage.sql import queries

ALIVE_LOCK = 7_016_996_765_293_437_283
"""The advisory lock that each engine holds, shared."""


class PostgresClock:
    """Reads and corrects the shared time."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._connection: Any = None
        self._began = self._alone = False

    async def read(self, jump: Jump | None = None) -> ClockReading:
        """Read the clock; a jump is first taken out of the correction, unless that was changed since."""
        try:
            if self._connection is None:
                self._connection = await self._connect()
            corrected = False
            if jump is not None:
                corrected = bool(await self._connection.fetch(queries.CORRECT_CLOCK, jump.by, *jump.version))
            wall, time, *version = await self._connection.fetchrow(queries.READ_CLOCK)
        except DRIVER_ERRORS as error:
            self.forget()
            raise translated(error) from error
        return ClockReading(wall, time, (version[0], version[1]), corrected, self._alone)

    async def _connect(self) -> Any:
        """Connect and take the lock; the first engine of all drops the correction."""
        connection = await connect(self._dsn)
        try:
            if not self._began and await connection.fetchval("SELECT pg_try_advisory_lock($1)", ALIVE_LOCK):
                await connection.execute(queries.DROP_CORRECTION)
                # Shared before the other is given up: no engine that starts now may find nobody alive.
                await connection.execute("SELECT pg_advisory_lock_shared($1)", ALIVE_LOCK)
                await connection.execute("SELECT pg_advisory_unlock($1)", ALIVE_LOCK)
                self._alone = True
            else:
                await connection.execute("SELECT pg_advisory_lock_shared($1)", ALIVE_LOCK)
        except BaseException:
            connection.terminate()
            raise
        self._began = True
        return connection

    def forget(self) -> None:
        """Let go of the connection; the next reading makes another."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.terminate()
