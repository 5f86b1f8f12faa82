"""The horizon of the event stream on Postgres: the transaction id below which no event can appear any more (I24).

Events are read in order of the ids of their transactions. A transaction may commit after others with greater ids, so a
reader that went past it would skip its events. `pg_snapshot_xmin` is below every transaction that runs, but also below
those of other databases and other programs, so that a forgotten session stops the stream for hours.

Only transactions that write to the engine's tables count here. Each of them holds a lock on the first such table before
its id is assigned, and until its end:

1. A transaction that runs when the statement below begins either still holds its lock when `pg_locks` is read, or has
   ended before. If it has ended, the next statement sees its events.
2. A transaction that takes its lock later gets an id that is not below `pg_snapshot_xmax`, which is read first.

A writer that crashes loses its lock with its session; its events never appear.
"""

from collections.abc import Iterable
from typing import Any, Final

from assay.storage.sql import tables as t

WRITTEN_TABLES: Final = sorted({table.name for table in vars(t).values() if isinstance(table, t.Table)})
"""The tables of transactions that may write events; others, as the clock's, are written by themselves."""

XID_COUNT: Final = 2**32
"""`pg_locks` has the lower 32 bits of an id, events have all 64."""

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
"""The locks left out are those of readers, VACUUM, ANALYZE and CREATE INDEX, which write no events. `pg_locks` is not
read while no transaction runs."""


async def read_horizon(connection: Any) -> int:
    """Return the horizon for the next statement, which must take its snapshot after this one."""
    end, running = await connection.fetchrow(HORIZON, WRITTEN_TABLES)
    return lowest(end, running or ())


def lowest(end: int, running: Iterable[int]) -> int:
    """Return the lowest of a 64-bit transaction id and 32-bit ids, each of which is less than 2**31 away from it."""
    return min((end, *(end + (xid - end + XID_COUNT // 2) % XID_COUNT - XID_COUNT // 2 for xid in running)))
