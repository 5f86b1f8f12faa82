"""Where the stream of events can be gone on with, and where it is too late for that (R40)."""

from collections.abc import Awaitable, Callable

from assay.core.ids import Namespace, WorkflowId
from assay.core.requests import Signal, StartWorkflow
from assay.engine.clock import ManualClock
from assay.engine.engine import Engine
from assay.engine.stream import RETENTION, Stream
from assay.storage.sql.journal import SqlJournal
from assay.storage.sqlite import SqliteStore

MAIN = Namespace("main")
Body = Callable[[Engine, ManualClock], Awaitable[None]]


def stream_of(engine: Engine, clock: ManualClock) -> Stream:
    assert isinstance(engine.store, SqliteStore)
    return Stream(SqlJournal(engine.store), engine.store, engine.committer, clock)


async def signal(engine: Engine) -> None:
    await engine.change(Signal(MAIN, WorkflowId("w"), name="go"))


def test_nothing_is_too_old_where_nothing_was_missed(with_engine: Callable[[Body], None]):
    async def body(engine: Engine, clock: ManualClock) -> None:
        stream = stream_of(engine, clock)
        assert await stream.oldest(0) is None
        await engine.start_workflow(StartWorkflow(namespace=MAIN, workflow_id=WorkflowId("w"), workflow_type="Order"))
        clock.advance(RETENTION * 10)
        assert await stream.oldest(1) is None, "the last event was seen, however long ago"
        assert await stream.oldest(99) is None

    with_engine(body)


def test_what_was_missed_for_too_long_must_be_looked_up(with_engine: Callable[[Body], None]):
    async def body(engine: Engine, clock: ManualClock) -> None:
        stream = stream_of(engine, clock)
        await engine.start_workflow(
            StartWorkflow(namespace=MAIN, workflow_id=WorkflowId("w"), workflow_type="Order")
        )  # 1
        for _ in range(4):  # 2 to 5
            await signal(engine)
        clock.advance(RETENTION)
        assert await stream.oldest(0) is None, "just within"
        for _ in range(3):  # 6 to 8
            await signal(engine)
        clock.advance(1)
        assert [await stream.oldest(after) for after in (0, 3, 4, 5, 7, 8)] == [6, 6, 6, None, None, None]
        clock.advance(RETENTION)
        assert await stream.oldest(0) == 8, "all is too old: go on after the last"
        assert await stream.oldest(8) is None

    with_engine(body)
