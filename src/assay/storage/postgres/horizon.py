"""The horizon of the event stream on Postgres: the transaction id below which no further event can appear (I24).

Events are read in order of their transaction ids. A transaction may commit after transactions with greater ids, and a
reader beyond its id would skip its events. `pg_snapshot_xmin` is below every running transaction, but includes other
databases and other programs: a forgotten session would stop the stream for hours.

Only transactions that write to the engine's tables count here. Such a transaction holds a lock on the first written
table from before its id is assigned until its end:

1. A transaction that runs when the statement below begins either still holds its lock when `pg_locks` is read, or has
   ended. After its end the next statement sees its events.
2. A transaction that takes its lock later gets an id at or above `pg_snapshot_xmax`, which is read first.

A writer that crashes loses its lock with its session; its events never appear.
"""

from collections.abc import Iterable
from typing import Any, Final

from assay.storage.sql import tables as t

WRITTEN_TABLES: Final = sorted({table.name for table in vars(t).values() if isinstance(table, t.Table)})
"""The tables of transactions that may write events; other tables, as the clock's, have transactions of their own."""

XID_COUNT: Final = 2**32
"""`pg_locks` has the lower 32 bits of a transaction id, events have all 64."""

HORIZON: Final = """
WITH held AS MATERIALIZED (
    SELECT locktype, database, relation, mode, virtualtransaction, transactionid FROM pg_locks WHERE granted
)
SELECT pg_snapshot_xmax(now.seen)::text::bigint,
    CASE WHEN pg_snapshot_xmin(now.seen) = pg_snapshot_xmax(now.seen) THEN NULL ELSE ARRAY(
        SELECT running.transactionid::text::bigint FROM held running
        WHERE running.locktype = 'transactionid' AND running.mode = 'ExclusiveLock'
            AND running.virtualtransaction IN (
                SELECT writing.virtualtransaction FROM held writing
                WHERE writing.locktype = 'relation'
                    AND writing.mode NOT IN ('AccessShareLock', 'ShareUpdateExclusiveLock', 'ShareLock')
                    AND writing.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
                    AND writing.relation = ANY($1::text[]::regclass[])
            )
    ) END
FROM (SELECT pg_current_snapshot() AS seen) AS now"""
"""Leaves out the lock modes of readers, VACUUM, ANALYZE and CREATE INDEX, which write no events. `pg_locks` is not read
while no transaction runs."""


async def read_horizon(connection: Any) -> int:
    """Return the horizon for the next statement, whose snapshot must follow this query."""
    end, running = await connection.fetchrow(HORIZON, WRITTEN_TABLES)
    return lowest(end, running or ())


def lowest(end: int, running: Iterable[int]) -> int:
    """Return the lowest of a 64-bit transaction id and 32-bit ids, each less than 2**31 away from the first."""
    return min((end, *(end + (xid - end + XID_COUNT // 2) % XID_COUNT - XID_COUNT // 2 for xid in running)))
