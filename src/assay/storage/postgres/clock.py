"""The time that engines on a Postgres server share: the server's clock plus a correction that removes its steps.

An engine reads the clock on a dedicated connection, because a busy pool would lengthen the round trip, and holds a
shared advisory lock on the connection while the engine runs. Functions in the database compute the engine time, the
same for all engines.

An engine that has confirmed the time holds a second advisory lock, numbered with the confirmed wall time. Other engines
can see the lock, no row is written, and the lock ends with its engine.
"""

from typing import Any

from assay.core.engine_time import ClockReading, Jump
from assay.core.model.ids import SECOND, Time
from assay.storage.postgres.connections import DRIVER_ERRORS, connect, translated
from assay.storage.sql import queries

ENGINE_LOCK_ID = 7_016_996_765_293_437_283
"""The advisory lock that every running engine holds in shared mode."""
CONFIRMED_LOCK_CLASS = 1_634_956_153
"""The class of the advisory locks that confirm a wall time."""
CONFIRMED_TIME_UNIT: Time = 2 * SECOND
"""The wall time per lock number: with 31 bits the numbers last into the next century."""


class PostgresClock:
    """A connection that reads and corrects the shared time."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._connection: Any = None
        self._began = self._alone = False
        self._reading = ClockReading(0, 0)
        """The last reading: the time that this engine may confirm."""
        self._confirmed: int | None = None
        """The number of the held lock that confirms the time."""

    async def read(self, jump: Jump | None = None) -> ClockReading:
        """Return a reading of the clock; a jump is first removed from the correction, unless it has changed since."""
        try:
            if self._connection is None:
                self._connection = await self._connect()
            if jump is not None and jump.by == 0:  # the caller found the last reading right: confirm it
                if jump.version == self._reading.version:
                    await self._confirm()
                return self._reading
            corrected = False
            if jump is not None:
                corrected = bool(await self._connection.fetch(queries.CORRECT_CLOCK, jump.by, *jump.version))
            cells = await self._connection.fetchrow(queries.READ_CLOCK, CONFIRMED_LOCK_CLASS, CONFIRMED_TIME_UNIT)
        except DRIVER_ERRORS as error:
            self.forget()
            raise translated(error) from error
        wall, time, correction, seen_at, confirmed_at = cells
        self._reading = ClockReading(wall, time, (correction, seen_at), corrected, self._alone, confirmed_at)
        return self._reading

    async def _confirm(self) -> None:
        """Replace the lock of the last confirmation by one for the wall time of the last reading."""
        number = self._reading.wall // CONFIRMED_TIME_UNIT
        if number == self._confirmed:
            return
        await self._connection.execute(queries.CONFIRM_CLOCK, CONFIRMED_LOCK_CLASS, number)
        former, self._confirmed = self._confirmed, number
        if former is not None:
            await self._connection.execute(queries.FORGET_CONFIRMATION, CONFIRMED_LOCK_CLASS, former)

    async def min_writer(self) -> int:
        """Return the minimum schema version that the database requires of a writer."""
        try:
            if self._connection is None:
                self._connection = await self._connect()
            return int(await self._connection.fetchval(queries.MIN_WRITER))
        except DRIVER_ERRORS as error:
            self.forget()
            raise translated(error) from error

    async def _connect(self) -> Any:
        """Connect and take the shared lock; an engine that finds no other engine alive first drops the correction."""
        connection = await connect(self._dsn)
        try:
            if not self._began and await connection.fetchval("SELECT pg_try_advisory_lock($1)", ENGINE_LOCK_ID):
                await connection.execute(queries.DROP_CORRECTION)
                # Take the shared lock before releasing the exclusive lock: a starting engine must find this engine.
                await connection.execute("SELECT pg_advisory_lock_shared($1)", ENGINE_LOCK_ID)
                await connection.execute("SELECT pg_advisory_unlock($1)", ENGINE_LOCK_ID)
                self._alone = True
            else:
                await connection.execute("SELECT pg_advisory_lock_shared($1)", ENGINE_LOCK_ID)
        except BaseException:
            connection.terminate()
            raise
        self._began = True
        return connection

    def forget(self) -> None:
        """Drop the connection; the next reading connects again."""
        connection, self._connection, self._confirmed = self._connection, None, None
        if connection is not None:
            connection.terminate()
