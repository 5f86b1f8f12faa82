"""`assay verify` finds every planted violation, and none in a sound store."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from assay.core.model import commands as cmd
from assay.core.model.ids import SECOND, Time
from assay.storage.postgres.store import PostgresStore
from assay.storage.sqlite.reader import SqliteReader
from assay.storage.verify import Violation, verify
from tests.core.support import (
    CHILD,
    NOW,
    ONE,
    Step,
    bore,
    completes,
    delivered,
    fails,
    later,
    leases,
    scheduled,
    signals,
    starts,
    terminates,
    turned,
)
from tests.storage.states import WAIT
from tests.storage.support import AnyStore, StoredWorld, Stores
from tests.temporary_postgres import create_database

# ruff: noqa: S608  # what is put together here are constants

WAITING: list[Step] = [starts(), turned(WAIT)]
BUSY: list[Step] = [starts(), scheduled(1), leases(1)]
DONE: list[Step] = [starts(), turned(cmd.CompleteWorkflow(ONE))]
SLEEPING: list[Step] = [starts(), turned(cmd.ScheduleTimer(1, 5.0))]
RETRIED: list[Step] = [starts(), scheduled(1), leases(1), fails(1), later(2 * SECOND)]
ORPHANED: list[Step] = [starts(), bore(), turned(cmd.CompleteWorkflow(ONE), of=CHILD)]
CONTINUED: list[Step] = [starts(), turned(cmd.ContinueAsNew(ONE))]

UNKNOWN_TIMER = "CAST('{\"timer_seq\":1}' AS $bytes)"


def copied(seq: str, kind: str = "kind", payload: str = "payload", time: str = "time", where: str = "seq = 2") -> str:
    """An event that is like one that is there, but for what is named."""
    cells = f"run_id, {seq}, {time}, {kind}, {payload}, data"
    return f"INSERT INTO events (run_id, seq, time, kind, payload, data) SELECT {cells} FROM events WHERE {where}"


PLANTED: dict[str, tuple[list[Step], str, str]] = {
    "a gap": ([*WAITING, signals()], "DELETE FROM events WHERE seq = 2", "I4"),
    "no beginning": (WAITING, "DELETE FROM events WHERE seq = 1", "I4"),
    "events of nobody": (WAITING, "DELETE FROM runs", "I4"),
    "an event after the end": (DONE, copied("3", "'TimerCancelled'", UNKNOWN_TIMER), "I4"),
    "two ends": (DONE, copied("3"), "I5"),
    "an end that the row does not know": (WAITING, copied("3", "'WorkflowCompleted'"), "I5"),
    "another end than the row says": (DONE, "UPDATE runs SET status = 'FAILED'", "I5"),
    "an end that the history does not know": (
        WAITING,
        "UPDATE runs SET status = 'COMPLETED', closed_at = created_at",
        "I5",
    ),
    "two outcomes of an activity": (
        [*BUSY, completes(1), turned(WAIT)],
        copied("5", where="kind = 'ActivityCompleted'"),
        "I6",
    ),
    "an outcome of an activity that was never ordered": (
        [starts(), turned(WAIT)],
        copied("3", "'ActivityCompleted'", 'CAST(\'{"activity_id":1,"activity_seq":1,"name":"x"}\' AS $bytes)'),
        "I8",
    ),
    "an activity that is open although it is done": (
        [*BUSY, completes(1), turned(WAIT)],
        "UPDATE activities SET completed_at = NULL",
        "I6",
    ),
    "an activity without a row": (BUSY, "DELETE FROM activities", "I2"),
    "more attempts than allowed": (BUSY, "UPDATE activities SET attempt = 4", "I8"),
    "an attempt that ended twice": (
        RETRIED,
        "INSERT INTO attempts (id, activity_id, run_id, attempt, outcome, ended_at)"
        " SELECT id + 1000, activity_id, run_id, attempt, outcome, ended_at FROM attempts",
        "I8",
    ),
    "a timer without a deadline": (SLEEPING, "DELETE FROM deadlines", "I10"),
    "a deadline without a timer": (
        WAITING,
        f"INSERT INTO deadlines (run_id, kind, ref, due_at) VALUES ('run-1', 'timer', 9, {NOW})",
        "I10",
    ),
    "a clock without a deadline": (BUSY, "DELETE FROM deadlines WHERE kind = 'run'", "I12"),
    "a deadline at another time": (BUSY, "UPDATE deadlines SET due_at = due_at + 1", "I12"),
    "a deadline of a closed run": (
        DONE,
        f"INSERT INTO deadlines (run_id, kind, ref, due_at) VALUES ('run-1', 'run', 0, {NOW})",
        "I12",
    ),
    "an open activity of a closed run": (
        [*BUSY, terminates()],
        "UPDATE activities SET completed_at = NULL, status = 'RUNNING'",
        "I12",
    ),
    "times that go back": (WAITING, copied("3", "'TimerCancelled'", UNKNOWN_TIMER, time="time - 1"), "I13"),
    "a child whose end nobody is told": (ORPHANED, "DELETE FROM outbox_messages", "I17"),
    "a successor that does not exist": (CONTINUED, "DELETE FROM runs WHERE number = 2", "I18"),
    "a successor that follows another": (
        [*CONTINUED, starts("other")],
        "UPDATE runs SET next_run_id = 'run-3' WHERE run_id = 'run-1'",
        "I18",
    ),
    "nothing left to do": (WAITING, "UPDATE runs SET awaiting = NULL", "L1"),
    "an unreadable event": (WAITING, copied("3", payload="CAST('{' AS $bytes)"), "I20"),
    **{
        f"another {column}": (WAITING, f"UPDATE runs SET {column} = {column} + 1", "I2")
        for column in (
            "last_seq",
            "input_seq",
            "last_time",
            "history_bytes",
            "cancel_seq",
            "activity_mark",
            "timer_mark",
            "effect_mark",
            "step_mark",
            "signals",
        )
    },
    "another signal": (WAITING, "UPDATE runs SET awaiting = 'x'", "I2"),
    "another error": (DONE, "UPDATE runs SET error = 'x'", "I2"),
    "another close reason": (DONE, "UPDATE runs SET close_reason = 'terminated'", "I2"),
    "another time of its end": (DONE, "UPDATE runs SET closed_at = closed_at + 1", "I2"),
    "a pending run that has a worker": (WAITING, "UPDATE runs SET status = 'PENDING'", "I2"),
}


async def plant(store: AnyStore, statement: str) -> None:
    if isinstance(store, PostgresStore):
        await store.query(statement.replace("$bytes", "bytea"))
    else:
        store._opened()._connection.execute(statement.replace("$bytes", "blob"))


async def found(store: AnyStore | SqliteReader, now: Time) -> list[Violation]:
    return [violation async for violation in verify(store, now)]


@pytest.mark.parametrize("name", PLANTED)
async def test_what_is_planted_is_found(store: AnyStore, name: str):
    steps, statement, invariant = PLANTED[name]
    world = await StoredWorld(store).do(*steps)
    assert await found(store, world.now) == []
    await plant(store, statement)
    violations = await found(store, world.now)
    assert invariant in {violation.invariant for violation in violations}
    assert all(violation.run_id and violation.message for violation in violations)


async def test_what_is_late_is_found(store: AnyStore):
    world = await StoredWorld(store).do(*SLEEPING)
    await world.do(starts("other"), bore(of="other"), turned(cmd.CompleteWorkflow(ONE), of=CHILD))  # type: ignore[arg-type]
    assert await found(store, world.now + 60 * SECOND) == []
    late = await found(store, world.now + 66 * SECOND)
    assert {violation.invariant for violation in late} == {"I10", "I17"}
    await world.do(delivered())
    assert {violation.invariant for violation in await found(store, world.now + 66 * SECOND)} == {"I10"}


@pytest.fixture(params=["sqlite", "postgres"])
def own(request: pytest.FixtureRequest, tmp_path: Path, runner: asyncio.Runner) -> Iterator[AnyStore]:
    """A store whose schema a test may break."""
    if request.param == "sqlite":
        stores = Stores(tmp_path / "engine.db")
    else:
        stores = Stores(runner.run(create_database(request.getfixturevalue("postgres_server"))))
    yield runner.run(stores.open())
    runner.run(stores.close())


async def test_two_open_runs_of_an_id_are_found(own: AnyStore):
    await StoredWorld(own).do(*WAITING)
    await plant(own, "DROP INDEX runs_open")
    await plant(own, "DROP INDEX runs_chain")
    await StoredWorld(own, "other-").do(*WAITING)
    violations = await found(own, NOW)
    assert [violation.invariant for violation in violations] == ["I15", "I15"]
    assert violations[0].message == "workflow order-1 of main has 2 open runs"


async def test_many_runs_are_read_in_groups(store: AnyStore, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("assay.storage.verify.RUNS_PER_PAGE", 3)
    monkeypatch.setattr("assay.storage.verify.EVENTS_PER_GROUP", 4)
    world = StoredWorld(store)
    for number in range(10):
        world.take(starts(f"order-{number}"))
        for _ in range(number):
            world.take(signals(of=f"order-{number}"))  # type: ignore[arg-type]
    await world.commit()
    await plant(store, "UPDATE runs SET signals = signals + 1")
    violations = await found(store, world.now)
    assert sorted(violation.run_id for violation in violations) == sorted(world.runs)


async def test_a_file_in_use_is_verified_without_touching_it(tmp_path: Path):
    stores = Stores(tmp_path / "engine.db")
    await StoredWorld(await stores.open()).do(*BUSY)
    reader = SqliteReader(tmp_path / "engine.db", clock=lambda: 0)
    await reader.open()
    assert await found(reader, NOW) == []
    await reader.close()
    await stores.close()
