"""The time that engines on one Postgres share goes on when the server's clock steps (I10, I13)."""

import asyncio
from collections.abc import Iterator
from typing import Any

import asyncpg
import pytest

from assay.core.engine_time import Jump
from assay.core.model.ids import SECOND, Time
from assay.engine.clock import SharedClock
from assay.storage.ports import Changes, Rejected
from assay.storage.postgres import store as module
from assay.storage.postgres.store import PostgresStore
from tests.storage.support import Stores

HOUR: Time = 3_600 * SECOND


class Server:
    """A connection that sets the server's clock, as far as engines can see."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection

    async def set_clock(self, shift: Time) -> None:
        reading = f"SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + {shift:d}"  # noqa: S608
        await self.connection.execute(
            f"CREATE OR REPLACE FUNCTION assay_wall() RETURNS bigint LANGUAGE sql VOLATILE AS '{reading}'"
        )

    async def reset(self) -> None:
        await self.connection.execute("UPDATE clock SET correction_us = 0, seen_at = 0")
        await self.set_clock(0)


@pytest.fixture
def server(postgres: PostgresStore, runner: asyncio.Runner) -> Iterator[Server]:
    server = Server(runner.run(asyncpg.connect(postgres._dsn)))
    runner.run(server.reset())
    yield server
    runner.run(server.reset())
    runner.run(server.connection.close())


def off(clock: SharedClock, true: SharedClock) -> float:
    return abs(clock.now() - true.now()) / SECOND


@pytest.mark.parametrize("step", [HOUR, -HOUR])
async def test_a_step_of_the_servers_clock_is_taken_out_for_all(
    engines: Stores, postgres: PostgresStore, server: Server, step: Time
):
    first, second, true = SharedClock(), SharedClock(), SharedClock()
    other = await engines.open()
    await first.learn(postgres)
    await second.learn(other)
    await true.learn(postgres)
    await server.set_clock(step)
    await first.learn(postgres)
    assert off(first, true) < 1
    before = await other.clock()
    await second.learn(other)
    assert off(second, true) < 1
    after = await other.clock()
    assert abs(after.version[0] - before.version[0]) < SECOND  # the second finds it corrected
    late = SharedClock()
    await late.learn(other)
    assert off(late, true) < 1
    assert abs(first.wall() - true.now() - step) < SECOND  # schedules follow the server's clock
    await server.set_clock(0)
    await first.learn(postgres)
    await second.learn(other)
    assert max(off(second, true), off(first, true)) < 1


async def test_a_living_engine_confirms_the_time_without_writing(
    engines: Stores, postgres: PostgresStore, server: Server
):
    other = await engines.open()
    await other.clock()
    rows = "SELECT ctid, xmin, xmax FROM clock"
    before = await postgres.query(rows)
    clock = SharedClock()
    reading = await postgres.clock(Jump(0, (await postgres.clock()).version))
    assert not (await postgres.clock())._replace(alone=False, confirmed_at=0).confirmed, "nothing is stored"
    await clock.learn(postgres)
    assert await postgres.query(rows) == before
    assert (await other.clock())._replace(alone=False).confirmed
    await server.set_clock(HOUR)
    assert not (await other.clock())._replace(alone=False).confirmed, "the step has yet to be taken out"
    await server.set_clock(0)
    assert (await other.clock())._replace(alone=False).confirmed
    await postgres.close()
    assert (await other.clock()).confirmed_at == 0 < reading.wall, "a confirmation ends with its engine"


async def test_a_correction_that_was_changed_meanwhile_stays(postgres: PostgresStore, server: Server):
    old = (await postgres.clock()).version
    assert (await postgres.clock(Jump(HOUR, old))).corrected
    assert not (await postgres.clock(Jump(HOUR, old))).corrected
    reading = await postgres.clock()
    assert abs(reading.time - reading.wall + HOUR) < SECOND


async def test_the_correction_goes_back_by_one_per_cent(postgres: PostgresStore, server: Server):
    wall = (await postgres.clock()).wall
    await server.connection.execute("UPDATE clock SET correction_us = $1, seen_at = $2", -HOUR, wall - 1_000 * SECOND)
    reading = await postgres.clock()
    assert abs(reading.wall - reading.time - (HOUR - 10 * SECOND)) < SECOND
    await server.connection.execute("UPDATE clock SET correction_us = $1, seen_at = $2", HOUR, wall - 200 * HOUR)
    reading = await postgres.clock()
    assert abs(reading.wall - reading.time) < SECOND


async def test_an_engine_that_starts_alone_drops_the_correction(
    engines: Stores, postgres: PostgresStore, server: Server
):
    await postgres.clock()
    await server.connection.execute("UPDATE clock SET correction_us = $1, seen_at = assay_wall()", HOUR)
    second = await engines.open()
    reading = await second.clock()
    assert reading.time - reading.wall > HOUR - SECOND  # another engine lives
    await postgres.close()
    await second.close()
    third = await engines.open()
    reading = await third.clock()
    assert abs(reading.time - reading.wall) < SECOND


async def test_deadlines_are_not_fired_before_the_shared_time(
    postgres: PostgresStore, server: Server, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(module, "MAX_CLOCK_CHECKS", 2)
    reading = await postgres.clock()
    await postgres.write(Changes(not_before=(reading.time + SECOND // 20, 0)))
    assert (await postgres.clock()).time >= reading.time + SECOND // 20
    for early in ((reading.time + HOUR, 0), (0, reading.wall + HOUR)):
        with pytest.raises(Rejected, match="not due"):
            await postgres.write(Changes(not_before=early))
