"""The event stream: resuming at a cursor, cursors that are too old, and live delivery."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from assay.core.model.ids import Namespace, RunId, WorkflowId
from assay.core.model.requests import Signal, StartWorkflow
from assay.core.schedules.model import Fire, FireOutcome
from assay.engine.engine import Engine
from assay.engine.stream import STREAM_RETENTION, JournalRow, Note, Stream
from assay.storage.ports import Changes, Unfired
from assay.storage.sql.journal import SqlJournal
from assay.storage.sqlite.store import SqliteStore
from tests.clocks import ManualClock

MAIN, OTHER = Namespace("main"), Namespace("other")
EVERYWHERE: frozenset[str] = frozenset()
Body = Callable[[Engine, ManualClock], Awaitable[None]]


def stream_of(engine: Engine, clock: ManualClock) -> Stream:
    assert isinstance(engine._store, SqliteStore)
    return Stream(SqlJournal(engine._store), engine._store, engine.on_commit, clock)


async def start(engine: Engine, namespace: Namespace = MAIN) -> None:
    request = StartWorkflow(namespace=namespace, workflow_id=WorkflowId("w"), workflow_type="Order")
    await engine.submit(request)


async def signal(engine: Engine, namespace: Namespace = MAIN) -> None:
    await engine.submit(Signal(namespace, WorkflowId("w"), name="go"))


def test_nothing_is_too_old_where_nothing_was_missed(with_engine: Callable[[Body], None]):
    async def body(engine: Engine, clock: ManualClock) -> None:
        stream = stream_of(engine, clock)
        assert await stream.too_late(0, EVERYWHERE) is None
        await start(engine)
        clock.advance(STREAM_RETENTION * 10)
        assert await stream.too_late(1, EVERYWHERE) is None, "the last event was seen, however long ago"
        assert await stream.too_late(99, EVERYWHERE) is None

    with_engine(body)


def test_what_was_missed_for_too_long_must_be_looked_up(with_engine: Callable[[Body], None]):
    async def body(engine: Engine, clock: ManualClock) -> None:
        stream = stream_of(engine, clock)
        await start(engine)  # 1
        for _ in range(4):  # 2 to 5
            await signal(engine)
        clock.advance(STREAM_RETENTION)
        assert await stream.too_late(0, EVERYWHERE) is None, "just within"
        for _ in range(3):  # 6 to 8
            await signal(engine)
        clock.advance(1)
        late = [await stream.too_late(row, EVERYWHERE) for row in (0, 3, 4, 5, 7, 8)]
        assert late == [5, 5, 5, None, None, None], "whoever goes on from there misses nothing that is told"
        clock.advance(STREAM_RETENTION)
        assert await stream.too_late(0, EVERYWHERE) == 8, "all is too old: go on after the last"
        assert await stream.too_late(8, EVERYWHERE) is None

    with_engine(body)


def test_only_what_a_client_wants_to_hear_it_can_have_missed(with_engine: Callable[[Body], None]):
    async def body(engine: Engine, clock: ManualClock) -> None:
        stream = stream_of(engine, clock)
        await start(engine)  # 1
        await start(engine, OTHER)  # 2
        await signal(engine, OTHER)  # 3
        clock.advance(STREAM_RETENTION + 1)
        assert await stream.too_late(1, EVERYWHERE) == 3
        assert await stream.too_late(1, {"main"}) is None
        assert await stream.too_late(0, {"main"}) == 3
        assert await stream.too_late(2, {"main", "other"}) == 3
        await signal(engine)  # 4, which is told
        assert await stream.too_late(1, {"main"}) is None
        assert await stream.too_late(1, {"other"}) == 3

    with_engine(body)


def test_what_comes_in_heaps_is_told_heap_by_heap(with_engine: Callable[[Body], None]):
    """After an outage schedules have more to tell than may wait for a client; one that listens is not cut off."""

    async def body(engine: Engine, clock: ManualClock) -> None:
        stream, received, most = stream_of(engine, clock), list[Fire](), 0
        waiting = asyncio.Queue[Sequence[JournalRow]]()
        async for _ in stream.follow(None, waiting.put_nowait):
            pass
        fires = [Fire(MAIN, "nightly", number, clock.now(), FireOutcome.MISSED) for number in range(1_500)]
        await engine._store.write(Changes(fires=fires, unfired=[Unfired(RunId("main/nightly"), "x", fires)]))
        await start(engine)
        while len(received) < 1_500:
            page = await waiting.get()
            most = max(most, waiting.qsize())
            received += [fire for news in page if isinstance(news, Note) for fire in news.fires]
        stream.leave(waiting.put_nowait)
        assert (received, most) == (fires, 0)

    with_engine(body)


def test_many_listeners_get_rows_together_and_the_same_page(with_engine: Callable[[Body], None]):
    async def body(engine: Engine, clock: ManualClock) -> None:
        stream, pages = stream_of(engine, clock), [list[Sequence[JournalRow]]() for _ in range(200)]
        listeners = [pages[number].append for number in range(200)]
        for listener in listeners:
            async for _ in stream.follow(None, listener):
                pass
        await start(engine)
        while not pages[0]:
            await asyncio.sleep(0)
        for _ in range(20):  # within the pause after the first page
            await signal(engine)
        while sum(map(len, pages[0])) < 21:
            await asyncio.sleep(0)
        for listener in listeners:
            stream.leave(listener)
        assert len(pages[0]) < 10
        assert all(mine is first for own in pages for mine, first in zip(own, pages[0], strict=True))

    with_engine(body)
