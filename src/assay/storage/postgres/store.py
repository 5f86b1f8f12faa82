"""The store on Postgres: any number of engines, coordinated by compare-and-set and never by a lock held before.

A write is a transaction on a single connection, shielded from the caller's cancellation. A connection with an error is
closed and never returned to the pool, because its transaction may still be open.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from functools import partial
from typing import Any, ClassVar, TypeVar

from assay.core.engine_time import ClockReading, Jump
from assay.core.model.ids import SECOND, RunId, Time
from assay.storage.forks import call_after_fork
from assay.storage.ports import Broken, Changes, Demand, HeldLease, OutcomeUnknown, ReadyActivity, ReadyTask, Rejected
from assay.storage.postgres.clock import PostgresClock
from assay.storage.postgres.commits import PostgresCommit
from assay.storage.postgres.connections import (
    DRIVER_ERRORS,
    connect,
    is_transient,
    refuse_transaction_pooling,
    refuse_unsafe,
    translated,
)
from assay.storage.postgres.horizon import read_horizon
from assay.storage.postgres.notify import Hints
from assay.storage.postgres.pools import SEARCH_CONNECTIONS, ConnectionPool, ConnectionPools
from assay.storage.postgres.schema import migrate, outdated
from assay.storage.search_slots import SearchSlots
from assay.storage.sql import queries, rows, schema_versions
from assay.storage.sql import tables as t
from assay.storage.sql.dialect import PostgresDialect, Verb
from assay.storage.sql.mail import put_statements
from assay.storage.sql.reads import SqlReads
from assay.storage.sql.rows import Cells
from assay.storage.sql.schedule_rows import changed_schedules, schedule_update_row
from assay.storage.sql.tables import Table
from assay.storage.sql.writes import lost_by_fences, lost_with, steps, without

DIALECT = PostgresDialect()

MAX_TRANSIENT_ATTEMPTS = 6
FIRST_TRANSIENT_RETRY_SECONDS = 0.01
COPY_MIN_ROWS = 8
"""The number of rows from which COPY, despite its additional round trip, is cheaper than INSERT."""
RESERVATION_TIME: Time = 2 * SECOND
MAX_CLOCK_CHECKS, CLOCK_CHECK_SECONDS = 100, 0.05
"""Checks, and the pause between two checks, of a write that fires deadlines and waits for the shared time."""

R = TypeVar("R")


class _Undo(Exception):
    """Updated runs must be rolled back, because a run tied to them was lost."""

    def __init__(self, lost: frozenset[RunId]) -> None:
        super().__init__(lost)
        self.lost = lost


def _leaves_work(changes: Changes) -> bool:
    """Return whether the changes leave ready work without a worker, which other engines should look for."""
    return any(run.task.ready for run in (*changes.new_runs, *changes.runs)) or any(
        change.activity.ready for change in changes.activities.values()
    )


async def _wait_for_clocks(connection: Any, now: Time, wall: Time) -> None:
    """Wait until the shared clocks have reached the times at which deadlines were found due (I10).

    Usually both have. Exceptions are the error of this engine's own clock, and a server clock that was just set back:
    its correction follows within seconds.
    """
    for _ in range(MAX_CLOCK_CHECKS):
        shared, shared_wall = await connection.fetchrow(queries.CLOCKS)
        early = max(now - shared, wall - shared_wall)
        if early <= 0:
            return
        await asyncio.sleep(min(CLOCK_CHECK_SECONDS, early / SECOND))
    raise Rejected("deadlines are not due by the engines' shared time; they are checked again")


class PostgresStore(SqlReads):
    """See `Store`."""

    dialect: ClassVar[PostgresDialect] = DIALECT
    shared = True
    inline = False

    def __init__(
        self,
        dsn: str,
        *,
        pool_size: int = 8,
        migrate: bool = True,
        create: bool = False,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._dsn = dsn
        self._migrate = migrate
        self._create = create
        self.migrated: Sequence[schema_versions.Migration] = ()
        """The migrations that `open` applied."""
        self._chance = chance
        self._pools = ConnectionPools(dsn, pool_size)
        self._pool_size = pool_size
        self._searches = SearchSlots(SEARCH_CONNECTIONS)
        self._outdated: Broken | None = None
        self._hints = Hints(dsn)
        self._writes: set[asyncio.Task[Any]] = set()
        self._clock = PostgresClock(dsn)
        self._abandoned: list[object] = []

    async def open(self) -> None:
        """See `Store`."""
        connection = await connect(self._dsn)
        try:
            await refuse_unsafe(connection)
            await refuse_transaction_pooling(connection, self._dsn)
            self.migrated = await self._retried(
                partial(migrate, connection, schema_versions.known(), allowed=self._migrate, create=self._create)
            )
        finally:
            await connection.close()
        await self._pools.open()
        self._hints.open()
        call_after_fork(self)

    def forked(self) -> None:
        """Drop the connections in a forked child: their sockets belong to the parent."""
        self._abandoned = [self._pools, self._hints, self._writes, self._clock]
        self._pools, self._hints, self._writes = ConnectionPools(self._dsn, self._pool_size), Hints(self._dsn), set()
        self._clock = PostgresClock(self._dsn)

    async def close(self) -> None:
        """See `Store`."""
        self._clock.forget()
        await self._hints.close()
        await asyncio.gather(*self._writes, return_exceptions=True)
        await self._pools.close()

    def subscribe(
        self, wake: Callable[[], None], closed: Callable[[Collection[RunId] | None], None] | None = None
    ) -> None:
        """See `Store`."""
        self._hints.subscribe(wake, closed)

    async def clock(self, jump: Jump | None = None) -> ClockReading:
        """See `Store`."""
        reading = await self._clock.read(jump)
        self._outdated = outdated(await self._clock.min_writer())
        return reading

    async def write(self, changes: Changes) -> frozenset[RunId]:
        """See `Store`."""
        if self._outdated is not None:
            raise self._outdated
        return await self._shielded(self._write(changes))

    async def change(self, statements: Sequence[tuple[str, tuple[object, ...]]]) -> Sequence[Sequence[Sequence[Any]]]:
        """Execute statements that are no decision in one transaction; return the rows of each."""
        if self._outdated is not None:
            raise self._outdated

        async def act(connection: Any) -> Sequence[Sequence[Sequence[Any]]]:
            return [await connection.fetch(DIALECT.query(text), *arguments) for text, arguments in statements]

        return await self._shielded(self._retried(partial(self._transaction, act)))

    async def _shielded(self, writing: Coroutine[Any, Any, R]) -> R:
        """Run a write to its end even if the caller is cancelled: a sent COMMIT cannot be revoked."""
        task = asyncio.create_task(writing)
        self._writes.add(task)
        task.add_done_callback(self._writes.discard)
        return await asyncio.shield(task)

    async def _write(self, changes: Changes) -> frozenset[RunId]:
        lost = frozenset[RunId]()
        while True:
            try:
                lost = await self._retried(partial(self._attempt, changes, lost))
            except _Undo as undo:
                lost |= undo.lost
                changes = without(changes, undo.lost)
                continue
            work = _leaves_work(changes)
            news = [*changes.closed, *(run_id for run_id, _ in changes.updates)]
            news += [RunId(letter.mailbox) for letter in changes.mail]
            if work or news:
                self._hints.send(work=work, closed=news)
            return lost

    async def _attempt(self, changes: Changes, lost: frozenset[RunId]) -> frozenset[RunId]:
        """Write in a transaction; return the lost runs, including the lost runs of earlier attempts."""
        commit = PostgresCommit(self._fetch, lost)
        try:
            await self._transaction(partial(self._apply, changes, commit))
        except OutcomeUnknown as unknown:
            unknown.commit = commit
            raise
        return commit.lost

    async def _transaction(self, act: Callable[[Any], Awaitable[R]]) -> R:
        committing = False
        try:
            async with self._pools.writes.connection() as connection:
                await connection.execute("BEGIN")
                result = await act(connection)
                committing = True
                if await connection.execute("COMMIT") != "COMMIT":
                    raise Rejected("Postgres rolled the transaction back")
        except DRIVER_ERRORS as error:
            if committing:
                raise translated(error, committing=True) from error
            raise
        return result

    async def _apply(self, changes: Changes, commit: PostgresCommit, connection: Any) -> None:
        """Compare and set runs and schedules first, then write all other rows except the losers'."""
        if changes.not_before is not None:
            await _wait_for_clocks(connection, *changes.not_before)
        schedules = changed_schedules(changes)
        won = await self._compare_and_set(
            t.RUN_CLOSINGS, [rows.run_closing_row(run) for run in changes.runs], commit, connection
        )
        won |= await self._compare_and_set(
            t.SCHEDULE_UPDATES, [schedule_update_row(change) for change in schedules], commit, connection
        )
        wanted = {run.run_id for run in changes.runs} | {change.key for change in schedules}
        lost = lost_with(changes, frozenset(wanted - won))
        if lost & won:  # their updates are part of this transaction already: roll back and write again without them
            raise _Undo(lost)
        commit.lost |= lost
        kept = without(changes, lost) if lost else changes
        if kept.acknowledged:
            await self._take_messages(kept, commit, connection)
        if kept.mail:
            await self._put_mail(kept, connection)
        if kept.events:
            commit.event = kept.events[0].run_id, kept.events[0].seq
        for verb, table, cells in steps(kept):
            if verb is Verb.INSERT and len(cells) >= COPY_MIN_ROWS:
                await connection.copy_records_to_table(table.name, records=cells, columns=table.names)
            elif commit.xid is None:
                statement = DIALECT.write_and_identify(verb, table)
                commit.xid = await connection.fetchval(statement, *DIALECT.arrays(table, cells))
            else:
                await connection.execute(DIALECT.write(verb, table), *DIALECT.arrays(table, cells))
        if commit.xid is None:  # COPY returns nothing
            commit.xid = await connection.fetchval(queries.OWN_TRANSACTION)

    async def _take_messages(self, changes: Changes, commit: PostgresCommit, connection: Any) -> None:
        """Delete the rows of delivered messages; roll back and write again without the receivers of missing rows."""
        keys = DIALECT.texts([key for _, key in changes.acknowledged])
        found = await connection.fetch(DIALECT.query(queries.TAKE_MESSAGES), keys)
        if found:
            commit.xid = found[0][1]
        gone = lost_by_fences(changes, {key for key, _ in found})
        if gone:
            raise _Undo(lost_with(changes, gone))

    async def _put_mail(self, changes: Changes, connection: Any) -> None:
        """Put messages into their mailboxes; roll back and write again without those whose mailbox is gone."""
        for letter in sorted(changes.mail, key=lambda letter: letter.mailbox):  # in one order: no deadlocks
            (taking, place), (putting, fields) = put_statements(letter, letter.at)
            if not await connection.fetch(DIALECT.query(taking), *place):
                raise _Undo(frozenset((letter.owner,)))
            await connection.execute(DIALECT.query(putting), *fields)

    async def _compare_and_set(
        self, table: Table, cells: list[Cells], commit: PostgresCommit, connection: Any
    ) -> set[RunId]:
        """Return the keys of the rows that had the expected version and are now updated."""
        if not cells:
            return set()
        found = await connection.fetch(DIALECT.write(Verb.UPDATE, table), *DIALECT.arrays(table, cells))
        if found:
            commit.xid = found[0][1]
        return {key for key, _ in found}

    async def numbers(self, count: int) -> int:
        """See `Store`."""
        (first,) = (await self._fetch(queries.RESERVE_NUMBERS, count))[0]
        return int(first)

    async def ready_tasks(self, demands: Sequence[Demand], now: Time) -> Sequence[ReadyTask]:
        """See `Store`."""
        found = await self._reserve(queries.RESERVE_TASKS, queries.RESERVE_TASKS_OF_ALL_TYPES, demands, now)
        return sorted((ReadyTask(*row) for row in found), key=lambda task: task.order)

    async def ready_activities(self, demands: Sequence[Demand], now: Time) -> Sequence[ReadyActivity]:
        """See `Store`."""
        found = await self._reserve(queries.RESERVE_ACTIVITIES, queries.RESERVE_ACTIVITIES_OF_ALL_NAMES, demands, now)
        return sorted((ReadyActivity(*row) for row in found), key=lambda activity: activity.order)

    async def _reserve(self, typed: str, of_all: str, demands: Sequence[Demand], now: Time) -> list[Sequence[Any]]:
        found: list[Sequence[Any]] = []
        for text, wanted in (
            (typed, [demand for demand in demands if demand.kind is not None]),
            (of_all, [demand for demand in demands if demand.kind is None]),
        ):
            if wanted:
                found += await self.poll(text, *DIALECT.demands(wanted), now, now + RESERVATION_TIME)
        return found

    async def local_leases(self) -> Sequence[HeldLease]:
        """See `Store`: none, because other engines may be alive and their local workers with them."""
        return ()

    async def _fetch(self, text: str, *arguments: object) -> Sequence[Sequence[Any]]:
        return await self._read(self._pools.writes, text, arguments)

    async def poll(self, text: str, *arguments: object) -> Sequence[Sequence[Any]]:
        return await self._read(self._pools.timing, text, arguments)

    async def query(self, text: str, *arguments: object) -> Sequence[Sequence[Any]]:
        return await self._read(self._pools.timing, text, arguments)

    async def look_up(self, text: str, *arguments: object) -> Sequence[Sequence[Any]]:
        return await self._read(self._pools.reads, text, arguments)

    async def browse(self, text: str, *arguments: object) -> Sequence[Sequence[Any]]:
        return await self._read(self._pools.reads, text, arguments)

    async def search(self, text: str, *arguments: object) -> Sequence[Sequence[Any]]:
        async with self._searches.reserved():
            return await self._read(self._pools.searches, text, arguments)

    async def _read(self, pool: ConnectionPool, text: str, arguments: Sequence[object]) -> Sequence[Sequence[Any]]:
        return await self._retried(partial(pool.fetch, DIALECT.query(text), arguments))

    async def stream_horizon(self) -> int:
        async def act() -> int:
            async with self._pools.reads.connection() as connection:
                return await read_horizon(connection)

        return await self._retried(act)

    async def _retried(self, act: Callable[[], Awaitable[R]]) -> R:
        """Call `act`; retry after transient errors, which leave no changes, with exponential backoff and jitter."""
        for attempt in range(1, MAX_TRANSIENT_ATTEMPTS):
            try:
                return await act()
            except DRIVER_ERRORS as error:
                if not is_transient(error):
                    raise translated(error) from error
            await asyncio.sleep(FIRST_TRANSIENT_RETRY_SECONDS * 2**attempt * (0.5 + self._chance()))
        try:
            return await act()
        except DRIVER_ERRORS as error:
            raise translated(error) from error
