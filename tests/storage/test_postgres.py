"""The Postgres store alone: several engines, retries, unknown outcomes, hints, the server's clock."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest

from assay.core.model.errors import Unavailable
from assay.core.model.ids import SECOND, RunId, WorkflowId
from assay.storage.ports import Broken, Changes, Conflict, OutcomeUnknown, Rejected
from assay.storage.postgres import notify
from assay.storage.postgres import store as module
from assay.storage.postgres.connections import SESSION_SETTINGS, is_transient, refuse_unsafe
from assay.storage.postgres.store import PostgresStore
from tests.core.support import later, scheduled, signals, starts
from tests.storage.support import StoredWorld, Stores, as_stored, reloaded, wants

Act = Callable[[], Any]


class Faulty:
    """A connection on which one statement is met by something else."""

    def __init__(self, connection: Any, statement: str, instead: Callable[[Any, Act], Any]) -> None:
        self._connection = connection
        self._statement = statement
        self._instead = instead

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    async def execute(self, text: str, *arguments: Any) -> Any:
        act = lambda: self._connection.execute(text, *arguments)  # noqa: E731
        return await (self._instead(self._connection, act) if text.startswith(self._statement) else act())


@pytest.fixture
def fault(postgres: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[int]]:
    """Let a statement be met by something else, the given number of times; tells how often that happened."""
    healthy = postgres._pools.writes.connection

    def install(statement: str, instead: Callable[[Any, Act], Any], times: int = 1) -> list[int]:
        met: list[int] = []

        @asynccontextmanager
        async def connection() -> AsyncIterator[Any]:
            async with healthy() as found:
                if len(met) < times:
                    yield Faulty(found, statement, lambda which, act: (met.append(1), instead(which, act))[1])
                else:
                    yield found

        monkeypatch.setattr(postgres._pools.writes, "connection", connection)
        monkeypatch.setattr(postgres, "_chance", lambda: 0.0)
        return met

    return install


def raising(error: Exception, *, done: bool = False) -> Callable[[Any, Act], Any]:
    async def instead(_connection: Any, act: Act) -> None:
        if done:
            await act()
        raise error

    return instead


async def idle_transactions(dsn: str) -> int:
    connection = await asyncpg.connect(dsn)
    found = await connection.fetchval("SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'")
    await connection.close()
    return int(found)


# retries and unknown outcomes

PASSING = [
    asyncpg.SerializationError("40001"),
    asyncpg.DeadlockDetectedError("40P01"),
    asyncpg.LockNotAvailableError("55P03"),
    asyncpg.ConnectionDoesNotExistError("gone"),
    ConnectionResetError("gone"),
]


@pytest.mark.parametrize("error", PASSING, ids=lambda error: type(error).__name__)
async def test_what_passes_is_tried_again(postgres: PostgresStore, fault: Callable[..., list[int]], error: Exception):
    met = fault("INSERT INTO events", raising(error), times=5)
    world = await StoredWorld(postgres).do(starts())
    assert len(met) == 5
    assert await reloaded(postgres, world.run) == as_stored(world.run)


async def test_what_does_not_pass_is_rejected_after_the_sixth_time(
    postgres: PostgresStore, fault: Callable[..., list[int]]
):
    met = fault("INSERT INTO events", raising(asyncpg.SerializationError("40001")), times=100)
    world = StoredWorld(postgres)
    world.take(starts())
    with pytest.raises(Rejected) as caught:
        await world.commit()
    assert type(caught.value) is Rejected
    assert len(met) == 6
    assert await postgres.load([world.run.run_id], []) == ()


@pytest.mark.parametrize("error", [*PASSING, TimeoutError()], ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("done", [False, True])
async def test_an_error_from_commit_is_an_unknown_outcome_and_never_repeated(
    postgres: PostgresStore, fault: Callable[..., list[int]], error: Exception, done: bool
):
    met = fault("COMMIT", raising(error, done=done))
    world = StoredWorld(postgres)
    world.take(starts())
    with pytest.raises(OutcomeUnknown):
        await world.commit()
    assert len(met) == 1
    assert len(await postgres.load([world.run.run_id], [])) == (1 if done else 0)


async def test_a_connection_that_dies_before_commit_costs_one_retry(
    postgres: PostgresStore, fault: Callable[..., list[int]], database: str
):
    async def instead(connection: Any, act: Act) -> Any:
        other = await asyncpg.connect(database)
        await other.execute("SELECT pg_terminate_backend($1)", connection.get_server_pid())
        await other.close()
        return await act()

    met = fault("INSERT INTO events", instead)
    world = await StoredWorld(postgres).do(starts())
    assert len(met) == 1
    assert len(await postgres.events(world.run.run_id)) == 1


async def test_a_connection_that_dies_at_commit_is_an_unknown_outcome(
    postgres: PostgresStore, fault: Callable[..., list[int]], database: str
):
    async def instead(connection: Any, act: Act) -> Any:
        other = await asyncpg.connect(database)
        await other.execute("SELECT pg_terminate_backend($1)", connection.get_server_pid())
        await other.close()
        return await act()

    fault("COMMIT", instead)
    world = StoredWorld(postgres)
    world.take(starts())
    with pytest.raises(OutcomeUnknown):
        await world.commit()


async def test_a_connection_that_saw_an_error_is_not_used_again(engines: Stores, database: str):
    store = await engines.open(pool_size=1)
    world = StoredWorld(store)
    world.take(starts())
    changes = world.changes()
    await store.write(changes)
    ((before,),) = await store._fetch("SELECT pg_backend_pid()")
    await world.do(signals())
    assert await store._fetch("SELECT pg_backend_pid()") == [(before,)]
    with pytest.raises(Conflict):
        await store.write(Changes(events=changes.events))
    assert await store._fetch("SELECT pg_backend_pid()") != [(before,)]
    assert await idle_transactions(database) == 0
    await world.do(signals())


async def test_a_write_goes_on_when_its_caller_is_cancelled(
    postgres: PostgresStore, fault: Callable[..., list[int]], database: str
):
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def instead(_connection: Any, act: Act) -> Any:
        begun.set()
        await go_on.wait()
        return await act()

    fault("INSERT INTO events", instead)
    world = StoredWorld(postgres)
    world.take(starts())
    task = asyncio.create_task(world.commit())
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    go_on.set()
    await asyncio.gather(*postgres._writes)
    assert await reloaded(postgres, world.run) == as_stored(world.run)
    assert await idle_transactions(database) == 0


async def test_reads_are_tried_again(postgres: PostgresStore, database: str):
    world = await StoredWorld(postgres).do(starts())
    other = await asyncpg.connect(database)
    await other.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid() AND application_name LIKE 'assay %'"
    )
    await other.close()
    assert await reloaded(postgres, world.run) == as_stored(world.run)


async def test_engines_that_write_the_same_runs_never_wait_in_a_circle(
    postgres: PostgresStore, engines: Stores, monkeypatch: pytest.MonkeyPatch
):
    """Each batch names all runs, in another order; somebody wins each."""
    troubles: list[type[BaseException]] = []
    monkeypatch.setattr(module, "is_transient", lambda error: troubles.append(type(error)) or is_transient(error))
    ids = [WorkflowId(f"order-{number}") for number in range(20)]
    world = StoredWorld(postgres)
    for workflow_id in ids:
        world.take(starts(workflow_id))
    await world.commit()
    worlds = [StoredWorld(await engines.open(), f"e{number}-") for number in range(3)]

    async def work(engine: StoredWorld, order: list[WorkflowId]) -> int:
        won = 0
        for _ in range(10):
            await engine.learn(*world.runs)
            for workflow_id in order:
                engine.take(signals(of=workflow_id))
            won += len(ids) - len(await engine.commit())
        return won

    orders = (ids, ids[::-1], ids[::2] + ids[1::2])
    won = await asyncio.gather(*(work(engine, order) for engine, order in zip(worlds, orders, strict=True)))
    recorded = [len(await postgres.events(run_id)) - 1 for run_id in world.runs]
    assert sum(won) == sum(recorded) >= 10 * len(ids)
    assert troubles == []


async def test_of_two_starts_of_one_id_one_is_refused(engines: Stores):
    worlds = [StoredWorld(await engines.open(), f"e{number}-") for number in range(4)]
    for world in worlds:
        world.take(starts())
    outcomes = await asyncio.gather(*(world.commit() for world in worlds), return_exceptions=True)
    assert [type(outcome) for outcome in outcomes if outcome != frozenset()] == [Conflict] * 3


# ready work


async def test_engines_that_compete_see_different_work(postgres: PostgresStore, engines: Stores):
    world = StoredWorld(postgres)
    for number in range(20):
        world.take(starts(f"order-{number}"))
        world.take(scheduled(1, of=WorkflowId(f"order-{number}")))
        world.take(signals(of=WorkflowId(f"order-{number}")))
    await world.commit()
    other = await engines.open()
    for ask in ("ready_tasks", "ready_activities"):
        some, all_of_it = [wants("default", limit=10)], [wants("default", limit=40)]
        first, second = await asyncio.gather(*(getattr(store, ask)(some, world.now) for store in (postgres, other)))
        assert len({work.run_id for work in (*first, *second)}) == 20
        assert await getattr(postgres, ask)(all_of_it, world.now + SECOND) == []
        again = await getattr(postgres, ask)(all_of_it, world.now + 3 * SECOND)
        assert len(again) == 20
        assert [work.order for work in again] == sorted(work.order for work in again)


async def test_a_run_that_changes_is_no_longer_reserved(postgres: PostgresStore):
    world = await StoredWorld(postgres).do(starts())
    assert len(await postgres.ready_tasks([wants("default")], world.now)) == 1
    await world.do(signals())
    assert len(await postgres.ready_tasks([wants("default")], world.now)) == 1


async def test_types_of_one_queue_share_its_free_slots(postgres: PostgresStore):
    """A worker with two free slots gets the two oldest tasks of its types; the others stay free for other engines."""
    world = StoredWorld(postgres)
    for number in range(3):
        for kind in ("T", "U"):
            world.take(starts(f"{kind}-{number}", workflow_type=kind))
        await world.do(later(SECOND))
    wanted = [wants("default", kind, limit=2) for kind in ("T", "U", "V")]
    for oldest in (3, 2, 1):
        found = await postgres.ready_tasks(wanted, world.now)
        assert [task.order for task in found] == [world.now + (180 - oldest) * SECOND] * 2
    assert await postgres.ready_tasks(wanted, world.now) == []


# the server


async def test_a_session_is_durable_whatever_the_database_says(postgres: PostgresStore, engines: Stores):
    ((name,),) = await postgres.query("SELECT current_database()")
    await postgres.query(f"ALTER DATABASE {name} SET synchronous_commit = off")
    try:
        other = await engines.open()
        shown = {setting: (await other.query(f"SHOW {setting}"))[0][0] for setting in SESSION_SETTINGS}
    finally:
        await postgres.query(f"ALTER DATABASE {name} RESET synchronous_commit")
    assert shown["synchronous_commit"] == "on"
    assert (shown["statement_timeout"], shown["lock_timeout"]) == ("15s", "3s")
    assert shown["idle_in_transaction_session_timeout"] == "30s"
    assert shown["application_name"].startswith("assay ")


class Server:
    """As much of a server as the check of its promises asks for."""

    def __init__(self, major: int = 16, **settings: str) -> None:
        self.major = major
        self._settings = {"fsync": "on", "synchronous_commit": "on", **settings}

    def get_server_version(self) -> "Server":
        return self

    async def fetchval(self, text: str) -> str:
        return self._settings[text.removeprefix("SHOW ")]


@pytest.mark.parametrize(
    ("server", "message"),
    [
        (Server(13), "Postgres 13 is too old"),
        (Server(fsync="off"), "fsync=off"),
        (Server(synchronous_commit="off"), "synchronous_commit"),
    ],
)
async def test_a_server_that_forgets_is_refused(server: Server, message: str):
    with pytest.raises(Unavailable, match=message):
        await refuse_unsafe(server)
    await refuse_unsafe(Server())


async def test_a_server_that_is_not_there_is_named():
    with pytest.raises(Unavailable, match="cannot connect to Postgres"):
        await PostgresStore("postgresql://postgres@/nothing?host=/nowhere").open()


async def test_the_host_and_port_of_a_server_that_is_not_there_are_named_without_the_password():
    with pytest.raises(Unavailable, match=r"cannot connect to Postgres at 127\.0\.0\.1:1: ") as caught:
        await PostgresStore("postgresql://me:secret@127.0.0.1:1/nothing").open()
    assert "secret" not in str(caught.value)


async def test_an_event_cannot_be_changed(postgres: PostgresStore):
    await StoredWorld(postgres).do(starts())
    with pytest.raises(Rejected, match="a recorded event never changes"):
        await postgres.query("UPDATE events SET kind = 'Other'")


async def test_the_clock_is_the_servers(postgres: PostgresStore):
    ((now,),) = await postgres.query("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint")
    reading = await postgres.clock()
    assert now <= reading.wall <= reading.time < now + SECOND


# hints


class Ear:
    """Counts what it hears, and lets a test wait for it."""

    def __init__(self) -> None:
        self.wakeups = 0
        self._pending = asyncio.Event()

    def __call__(self) -> None:
        self.wakeups += 1
        self._pending.set()

    async def next(self) -> None:
        await self._pending.wait()
        self._pending.clear()


async def test_a_commit_of_one_engine_wakes_the_others(postgres: PostgresStore, engines: Stores):
    other = await engines.open()
    own, counter = Ear(), Ear()
    postgres.subscribe(own)
    other.subscribe(counter)
    await own.next()  # each is told once when it has begun to listen
    await counter.next()
    await StoredWorld(postgres).do(starts())
    await counter.next()


async def test_an_engine_does_not_wake_itself():
    counter, hints = Ear(), notify.Hints("")
    hints._wakes.append(counter)
    hints._sender = 7
    hints._receive(None, 7, "assay", "w")
    assert counter.wakeups == 0
    hints._receive(None, 8, "assay", "w")
    assert counter.wakeups == 1


async def test_many_commits_are_few_hints(postgres: PostgresStore, engines: Stores, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(notify, "HINT_INTERVAL_SECONDS", 0.2)
    counter = Ear()
    (await engines.open()).subscribe(counter)
    await counter.next()
    world = StoredWorld(postgres)
    for number in range(20):
        await world.do(starts(f"order-{number}"))
    await counter.next()
    assert 2 <= counter.wakeups <= 10


async def test_a_listener_that_was_cut_off_listens_again_and_assumes_the_worst(postgres: PostgresStore, database: str):
    counter = Ear()
    postgres.subscribe(counter)
    await counter.next()
    other = await asyncpg.connect(database)
    await other.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND query LIKE 'LISTEN%'"
    )
    await counter.next()
    await other.execute("SELECT pg_notify('assay', 'w')")
    await counter.next()
    await other.close()


def test_a_forked_child_has_no_connection_and_harms_none(postgres: PostgresStore, runner: asyncio.Runner):
    world = runner.run(StoredWorld(postgres).do(starts()))
    child = os.fork()
    if child == 0:  # the child must not run the rest of the test session
        code = 1
        try:
            asyncio.Runner().run(postgres.numbers(1))
        except Broken:
            code = 0
        except BaseException:  # noqa: BLE001  # whatever it is, the parent learns of it by the exit code
            code = 2
        os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    runner.run(world.do(signals()))
    assert runner.run(reloaded(postgres, world.run)) == as_stored(world.run)


async def test_a_run_id_that_nobody_has_is_not_found(postgres: PostgresStore):
    assert await postgres.load([RunId("nobody")], []) == ()
