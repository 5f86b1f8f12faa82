"""A COMMIT whose answer is lost is answered as the database knows it, however late it arrives there (I3)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg
import pytest
from msgspec.structs import replace

from assay.core.model.errors import NotFound
from assay.core.model.ids import Namespace, WorkflowId
from assay.core.model.requests import Request, Signal, StartWorkflow
from assay.engine.commit import unknown_outcome
from assay.engine.engine import Engine
from assay.storage.ports import CommitStatus, OutcomeUnknown, Rejected
from assay.storage.postgres.commits import PostgresCommit
from assay.storage.postgres.store import PostgresStore
from tests.storage.postgres_proxy import PostgresProxy

MAIN = Namespace("main")
START = StartWorkflow(namespace=MAIN, workflow_id=WorkflowId("a"), workflow_type="T")
SIGNAL = Signal(MAIN, WorkflowId("a"), name="go")


class Engines:
    """Two engines on one database; the connections of the first go through the proxy."""

    def __init__(self, proxied: Engine, other: Engine, proxy: PostgresProxy) -> None:
        self.proxied = proxied
        self.other = other
        self.proxy = proxy

    async def kinds(self) -> list[str]:
        """Return the kinds of the events that the other engine reads."""
        try:
            key = await self.other.reads.current("main", "a")
        except NotFound:
            return []
        return [type(recorded.event).__name__ for recorded in await self.other.reads.history(key.run_id)]


@asynccontextmanager
async def two_engines(database: str, folder: Path) -> AsyncIterator[Engines]:
    async with PostgresProxy(database, folder).running() as proxy:
        engines = [Engine(PostgresStore(dsn)) for dsn in (proxy.dsn, database)]
        for engine in engines:
            await engine.start()
        try:
            yield Engines(engines[0], engines[1], proxy)
        finally:
            for engine in engines:
                await engine.stop()


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> "asyncio.Queue[CommitStatus]":
    """The statuses that engines were answered, in order."""
    found: asyncio.Queue[CommitStatus] = asyncio.Queue()
    ask = PostgresCommit.status

    async def status(commit: PostgresCommit) -> CommitStatus:
        answer = await ask(commit)
        found.put_nowait(answer)
        return answer

    monkeypatch.setattr(PostgresCommit, "status", status)
    return found


async def held(engines: Engines, request: Request, looks: "asyncio.Queue[CommitStatus]") -> asyncio.Future[object]:
    """Ask for a change whose COMMIT the proxy holds; return once the engine has found it in progress."""
    engines.proxy.cut_next_commit()
    answer = engines.proxied.submit(request)
    look = asyncio.ensure_future(looks.get())
    await asyncio.wait({answer, look}, return_when=asyncio.FIRST_COMPLETED, timeout=30)
    assert not answer.done(), answer
    assert look.result() is CommitStatus.IN_PROGRESS
    return answer


async def test_a_late_commit_is_acknowledged(database: str, tmp_path: Path, looks: "asyncio.Queue[CommitStatus]"):
    async with two_engines(database, tmp_path) as engines:
        for request, kinds in ((START, ["WorkflowStarted"]), (SIGNAL, ["WorkflowStarted", "SignalReceived"])):
            answer = await held(engines, request, looks)
            assert await engines.kinds() == kinds[:-1]
            engines.proxy.deliver.set()
            await asyncio.wait_for(answer, 30)
            assert await engines.kinds() == kinds
            while not looks.empty():
                looks.get_nowait()


async def test_a_commit_that_never_arrives_is_a_rejection(database: str, tmp_path: Path):
    async with two_engines(database, tmp_path) as engines:
        for request, kinds in ((START, []), (SIGNAL, ["WorkflowStarted"])):
            engines.proxy.cut_next_commit(swallow=True)
            with pytest.raises(Rejected):
                await asyncio.wait_for(engines.proxied.submit(request), 30)
            assert await engines.kinds() == kinds
            await engines.proxied.submit(request)


async def test_a_backend_that_ends_before_its_commit_arrives_is_a_rejection(
    database: str, tmp_path: Path, looks: "asyncio.Queue[CommitStatus]"
):
    async with two_engines(database, tmp_path) as engines:
        answer = await held(engines, START, looks)
        connection = await asyncpg.connect(database)
        await connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE state = 'idle in transaction'"
        )
        await connection.close()
        with pytest.raises(Rejected):
            await asyncio.wait_for(answer, 30)
        engines.proxy.deliver.set()
        assert await engines.kinds() == []


async def test_a_commit_that_takes_too_long_is_aborted(
    database: str, tmp_path: Path, looks: "asyncio.Queue[CommitStatus]", monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(unknown_outcome, "ABORT_AFTER_SECONDS", 0.0)
    async with two_engines(database, tmp_path) as engines:
        answer = await held(engines, START, looks)
        with pytest.raises(Rejected):
            await asyncio.wait_for(answer, 30)
        engines.proxy.deliver.set()
        assert await engines.kinds() == []


async def test_a_commit_in_progress_for_too_long_is_an_unknown_outcome(
    database: str, tmp_path: Path, looks: "asyncio.Queue[CommitStatus]", monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(unknown_outcome, "UNKNOWN_AFTER_SECONDS", 0.0)
    async with two_engines(database, tmp_path) as engines:
        engines.proxy.cut_next_commit()
        answer = engines.proxied.submit(START)
        with pytest.raises(OutcomeUnknown):
            await asyncio.wait_for(answer, 30)
        engines.proxy.deliver.set()


async def test_runs_that_lost_their_compare_and_set_are_decided_again(
    database: str, tmp_path: Path, looks: "asyncio.Queue[CommitStatus]"
):
    async with two_engines(database, tmp_path) as engines:
        await engines.proxied.submit(START)
        await engines.other.submit(SIGNAL)  # the first engine's cache is old now
        again = engines.proxied.submit(SIGNAL)
        answer = await held(engines, replace(START, workflow_id=WorkflowId("b")), looks)
        engines.proxy.deliver.set()
        await asyncio.wait_for(asyncio.gather(answer, again), 30)
        assert await engines.other.reads.current("main", "b")
        assert await engines.kinds() == ["WorkflowStarted", "SignalReceived", "SignalReceived"]


async def test_the_error_that_ended_a_connection_is_the_one_that_is_reported(database: str, tmp_path: Path):
    async with two_engines(database, tmp_path) as engines:
        engines.proxy.cut_next_commit(swallow=True)
        with pytest.raises(Rejected) as caught:
            await asyncio.wait_for(engines.proxied.submit(START), 30)
        assert "released back to the pool" not in str(caught.value)


async def test_an_id_that_the_server_has_not_assigned_tells_nothing(postgres: PostgresStore):
    """A server that took over from another one may lack its last transactions, or have used their ids again."""
    commit = PostgresCommit(postgres._fetch, frozenset())
    ((newest,),) = await postgres.query("SELECT pg_current_xact_id()")
    commit.xid = newest + 1_000_000
    assert await commit.status() is CommitStatus.UNKNOWN
    commit.xid = newest
    assert await commit.status() is CommitStatus.COMMITTED
    commit.event = ("no such run", 1)  # type: ignore[assignment]
    assert await commit.status() is CommitStatus.UNKNOWN
