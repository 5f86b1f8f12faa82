"""Once an hour what is old enough goes, and what may still be asked for stays."""

import asyncio
from collections.abc import Awaitable, Callable

from assay.core.model.ids import SECOND, Namespace, Time, WorkflowId
from assay.core.model.requests import StartWorkflow, Terminate
from assay.engine.commit.idempotency import IdempotencyKey, Rendered
from assay.engine.engine import Engine
from assay.engine.pruner import (
    AUDIT_RETENTION,
    COMMITS_PER_SWEEP,
    FIRE_RETENTION,
    HOUR,
    NOTE_RETENTION,
    OUTCOME_RETENTION,
    ROWS_PER_SWEEP_COMMIT,
    SWEEP_PAUSE,
    Pruner,
)
from assay.storage.ports import Changes, RequestOutcome
from assay.storage.sql.leftovers import SqlLeftovers
from assay.storage.sqlite.store import SqliteStore
from tests.clocks import ManualClock

MAIN = Namespace("main")
Body = Callable[[Engine, ManualClock], Awaitable[None]]


def janitor_of(engine: Engine, clock: ManualClock) -> Pruner:
    assert isinstance(engine._store, SqliteStore)
    return Pruner(SqlLeftovers(engine._store), clock)


async def start(engine: Engine, name: str) -> Rendered:
    """A start with a key, as a client repeats it when the answer was lost."""
    key = IdempotencyKey(MAIN, f"key-of-{name}", b"same", lambda reply: (201, b"{}"))
    answer = await engine.submit(
        StartWorkflow(namespace=MAIN, workflow_id=WorkflowId(name), workflow_type="Order"), key
    )
    assert isinstance(answer, Rendered)
    return answer


def test_a_repeated_request_is_known_for_a_day_and_for_the_life_of_its_run(with_engine: Callable[[Body], None]):
    async def body(engine: Engine, clock: ManualClock) -> None:
        pruner = janitor_of(engine, clock)
        assert not (await start(engine, "order")).replayed
        clock.advance(OUTCOME_RETENTION + SECOND)
        assert await pruner.run_once() == clock.now() + HOUR
        assert (await start(engine, "order")).replayed, "its run is open"
        await engine.submit(Terminate(MAIN, WorkflowId("order")))
        await pruner.run_once()
        assert not (await start(engine, "order")).replayed, "a new run, for nobody remembers the first"
        clock.advance(OUTCOME_RETENTION - SECOND)
        await engine.submit(Terminate(MAIN, WorkflowId("order")))
        await pruner.run_once()
        assert (await start(engine, "order")).replayed, "its day is not over"

    with_engine(body)


def test_more_than_one_round_can_do_is_gone_on_with_at_once(with_engine: Callable[[Body], None]):
    async def body(engine: Engine, clock: ManualClock) -> None:
        many = ROWS_PER_SWEEP_COMMIT * COMMITS_PER_SWEEP + 10
        rows = [(None, RequestOutcome("main", f"k{number}", b"f", 200, b"", clock.now())) for number in range(many)]
        await engine._store.write(Changes(outcomes=rows))
        clock.advance(OUTCOME_RETENTION + SECOND)
        pruner = janitor_of(engine, clock)
        assert await pruner.run_once() == clock.now() + SWEEP_PAUSE
        assert len(await engine._store.outcomes([("main", f"k{number}") for number in range(many)])) == 10
        assert await pruner.run_once() == clock.now() + HOUR
        assert await engine._store.outcomes([("main", f"k{number}") for number in range(many)]) == []

    with_engine(body)


class Recording:
    """Notes what it is asked to forget."""

    def __init__(self) -> None:
        self.deletions: list[tuple[str, Time]] = []

    async def forget_outcomes(self, before: Time, limit: int) -> int:
        self.deletions.append(("outcomes", before))
        return 0

    async def forget_fires(self, before: Time, limit: int) -> int:
        self.deletions.append(("fires", before))
        return 0

    async def forget_audits(self, before: Time, limit: int) -> int:
        self.deletions.append(("audits", before))
        return 0

    async def forget_notes(self, before: Time, limit: int) -> int:
        self.deletions.append(("notes", before))
        return 0


def test_each_kind_has_its_own_time():
    clock, recording = ManualClock(), Recording()
    asyncio.run(Pruner(recording, clock).run_once())
    kept = {
        "outcomes": OUTCOME_RETENTION,
        "fires": FIRE_RETENTION,
        "audits": AUDIT_RETENTION,
        "notes": NOTE_RETENTION,
    }
    assert recording.deletions == [(kind, clock.now() - time) for kind, time in kept.items()]


def test_notes_are_kept_for_as_long_as_they_are_told():
    clock, recording = ManualClock(), Recording()
    asyncio.run(Pruner(recording, clock, retention=2 * NOTE_RETENTION).run_once())
    assert recording.deletions[-1] == ("notes", clock.now() - 2 * NOTE_RETENTION)


def test_it_begins_when_it_is_told_to():
    clock, recording = ManualClock(), Recording()
    pruner = Pruner(recording, clock, begins=clock.now() + SECOND)
    assert asyncio.run(pruner.run_once()) == clock.now() + SECOND
    assert recording.deletions == []
    clock.advance(SECOND)
    asyncio.run(pruner.run_once())
    assert recording.deletions != []
