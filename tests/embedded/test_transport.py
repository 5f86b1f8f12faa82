import asyncio
import contextlib
import logging
import os
import signal
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from assay.core.model.errors import Invalid, NotFound, Unavailable
from assay.core.model.ids import SECOND, Namespace, RunKey, WorkflowId
from assay.core.model.limits import WORKER_LEASE
from assay.core.model.payload import Payload
from assay.core.model.requests import RequestCancel, RestartAsNew, StartWorkflow, Terminate
from assay.core.schedules.model import Fire, FireOutcome
from assay.embedded.filters import run_filter
from assay.embedded.transport import EmbeddedTransport
from assay.sdk.app import App
from assay.sdk.client.client import Client
from assay.sdk.client.connections import Hosting, transport_for
from assay.storage.ports import Changes
from tests.temporary_postgres import create_database, shared_postgres

MAIN = Namespace("main")


@contextlib.asynccontextmanager
async def opened(url: str) -> AsyncIterator[EmbeddedTransport]:
    transport = EmbeddedTransport(url)
    await transport.open()
    try:
        yield transport
    finally:
        await transport.close()


def sqlite_url(folder: Path) -> str:
    return f"sqlite://{folder}/engine.db"


def start(workflow_id: str, **options: object) -> StartWorkflow:
    return StartWorkflow(namespace=MAIN, workflow_id=WorkflowId(workflow_id), workflow_type="Order", **options)  # type: ignore[arg-type]


def key_of(record: dict[str, str]) -> RunKey:
    return RunKey(record["namespace"], record["id"], record["run_id"])  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.getbasetemp()
    with shared_postgres(folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) as dsn:
        yield dsn


def test_a_run_comes_back_as_a_record(tmp_path: Path):
    async def main() -> None:
        async with opened(sqlite_url(tmp_path)) as transport:
            started = await transport.ask(start("o-1", input=Payload(b'{"n":1}')))
            record = await transport.describe("main", "o-1")
            assert record is not None
            assert (record["run_id"], record["status"]) == (started.key.run_id, "PENDING")
            assert record["input"] == {"n": 1}
            again = await transport.describe("main", "o-1", started.key.run_id)
            assert {**record, "waiting_on": None} == {**again, "waiting_on": None}
            assert await transport.describe("main", "o-2") is None
            assert await transport.describe("other", "o-1") is None
            assert await transport.state("main", "o-1") is None
            (event,) = await transport.events("main", "o-1")
            assert (event["event_type"], event["seq"], event["id"]) == ("WorkflowStarted", 1, 1)
            await transport.ask(start("o-3"))
            assert [(event["seq"], event["id"]) for event in await transport.events("main", "o-3")] == [(1, 2)]
            with pytest.raises(NotFound):
                await transport.events("main", "o-2")

    asyncio.run(main())


def test_lists_are_filtered_typed_and_paged(tmp_path: Path):
    async def main() -> None:
        async with opened(sqlite_url(tmp_path)) as transport:
            for number in range(5):
                await transport.ask(start(f"o-{number}", search_attributes=Payload(b'{"n":%d}' % number)))
            await transport.ask(Terminate(MAIN, WorkflowId("o-0")))

            async def ids(**filters: object) -> list[str]:
                return [record["id"] for record in await transport.list("main", filters)]

            assert await ids() == ["o-4", "o-3", "o-2", "o-1", "o-0"]
            assert await ids(status="FAILED") == ["o-0"]
            assert await ids(status="pending", limit=2) == ["o-4", "o-3"]
            assert await ids(search_attrs={"n": 3}) == ["o-3"]
            assert await ids(search_attrs={"n": "3"}) == []
            assert await ids(type="Order", text="-2") == ["o-2"]
            assert await ids(queue="elsewhere") == []
            assert await ids(offset=4) == ["o-0"]
            created = [record["created_at"] for record in await transport.list("main", {})]
            assert await ids(created_after=created[1]) == ["o-4"]
            assert await ids(created_before=created[3]) == ["o-0"]

    asyncio.run(main())


@pytest.mark.parametrize(
    "filters",
    [
        {"status": "DONE"},
        {"limit": -1},
        {"limit": 0},
        {"limit": "5"},
        {"limit": 10**9},
        {"offset": True},
        {"cursor": "x"},
        {"type": 5},
        {"created_after": "yesterday"},
        {"created_after": float("nan")},
        {"search_attrs": ["env"]},
        {"search_attrs": {"no.dots": 1}},
        {"search_attrs": {"n": float("inf")}},
    ],
)
def test_a_filter_that_makes_no_sense_is_refused(filters: dict[str, object]):
    with pytest.raises(Invalid) as caught:
        run_filter("main", filters)
    assert caught.value.field


def test_unknown_filters_are_ignored():
    assert run_filter("main", {"color": "red", "status": None}) == run_filter("main", {})


def test_a_failed_run_is_described_with_its_failure(tmp_path: Path):
    async def main() -> None:
        async with opened(sqlite_url(tmp_path)) as transport:
            await transport.ask(start("o-1"))
            await transport.ask(RequestCancel(MAIN, WorkflowId("o-1"), reason="stop"))
            record = await transport.describe("main", "o-1")
            assert record is not None
            assert record["status"] == "CANCELLED"
            key, closing = await transport.closed(key_of(record))
            assert (key.run_id, type(closing).__name__) == (record["run_id"], "WorkflowCancelled")

    asyncio.run(main())


def test_a_chain_under_another_id_is_not_waited_for(tmp_path: Path):
    async def main() -> None:
        async with opened(sqlite_url(tmp_path)) as transport:
            key = (await transport.ask(start("o-1"))).key
            waiting = asyncio.ensure_future(transport.closed(key))
            await asyncio.sleep(0)
            await transport.ask(RestartAsNew(MAIN, WorkflowId("o-1"), new_workflow_id=WorkflowId("o-2")))
            ended, event = await asyncio.wait_for(waiting, 10)
            assert (ended, type(event).__name__) == (key, "WorkflowContinuedAsNew")
            assert (await transport.closed(key))[0] == key

    asyncio.run(main())


def test_nobody_waits_for_an_engine_that_is_gone(tmp_path: Path):
    async def main() -> None:
        async with opened(sqlite_url(tmp_path)) as transport:
            started = await transport.ask(start("o-1"))
            waiting = asyncio.ensure_future(transport.closed(started.key))
            await asyncio.sleep(0)
        with pytest.raises(Unavailable):
            await waiting

    asyncio.run(main())


def test_a_closed_transport_says_so(tmp_path: Path):
    async def main() -> None:
        async with opened(sqlite_url(tmp_path)) as transport:
            with pytest.raises(Invalid):
                await transport.open()
        await transport.close()
        with pytest.raises(Unavailable, match="connect again"):
            await transport.describe("main", "o-1")

    asyncio.run(main())


def test_a_transport_belongs_to_its_loop(tmp_path: Path):
    async def main() -> EmbeddedTransport:
        transport = EmbeddedTransport(sqlite_url(tmp_path))
        await transport.open()
        return transport

    with asyncio.Runner() as first, asyncio.Runner() as second:
        transport = first.run(main())
        with pytest.raises(Invalid, match="another event loop"):
            second.run(transport.describe("main", "o-1"))
        first.run(transport.close())


def test_a_second_transport_of_a_file_shares_the_engine_until_the_last_one_closes(tmp_path: Path):
    async def main() -> None:
        first, second = (EmbeddedTransport(sqlite_url(tmp_path)) for _ in range(2))
        await asyncio.gather(first.open(), second.open())
        assert first._engine is second._engine
        await first.ask(start("o-1"))
        await first.close()
        with pytest.raises(Unavailable, match="closed"):
            await first.describe("main", "o-1")
        assert await second.describe("main", "o-1") is not None
        third = EmbeddedTransport(sqlite_url(tmp_path))
        await asyncio.gather(second.close(), third.open())  # the last one leaves while another one comes
        assert await third.describe("main", "o-1") is not None
        await third.close()

    asyncio.run(main())


def test_a_forked_child_cannot_use_it_and_does_not_disturb_it(tmp_path: Path):
    async def main() -> None:
        async with opened(sqlite_url(tmp_path)) as transport:
            await transport.ask(start("o-1"))
            child = os.fork()
            if child == 0:
                os._exit(_try_in_child(transport))
            assert _exit_code(child) == 0
            await transport.ask(start("o-2"))
        async with opened(sqlite_url(tmp_path)) as transport:
            assert len(await transport.list("main", {})) == 2

    asyncio.run(main())


def _exit_code(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _try_in_child(transport: EmbeddedTransport) -> int:
    """In the child: 0 if every use is refused, without waiting for a loop that is not there."""
    try:
        transport.send(start("o-3"), lambda _reply, _error: None)
    except Unavailable as error:
        with contextlib.suppress(StopIteration):
            transport.close().send(None)
        return 0 if error.code == "forked" else 2
    return 1


def _traces() -> tuple[set[str], list[object], list[logging.Handler], int]:
    threads = {thread.name for thread in threading.enumerate()}
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    files = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    return threads, handlers, list(logging.getLogger().handlers), files


def test_nothing_is_left_behind(tmp_path: Path):
    async def main() -> None:
        async with opened(sqlite_url(tmp_path)) as transport:
            await transport.ask(start("o-1"))
            await transport.list("main", {})
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())  # a first time, for what the interpreter itself opens once
    before = _traces()
    asyncio.run(main_again(tmp_path))
    assert _traces() == before


async def main_again(tmp_path: Path) -> None:
    async with opened(sqlite_url(tmp_path)) as transport:
        await transport.list("main", {})
    assert asyncio.all_tasks() == {asyncio.current_task()}


def test_an_engine_in_this_process_is_a_host(tmp_path: Path):
    transport = transport_for(sqlite_url(tmp_path))
    assert isinstance(transport, Hosting)
    assert transport.lease is None
    assert not transport.served("main", "default")


@pytest.mark.parametrize("url", ["ftp://host/x", "", "sqlite://", "postgres://user:secret@host:x/db"])
def test_a_bad_url_is_refused_without_its_password(url: str):
    with pytest.raises(Invalid) as caught:
        transport_for(url)
    assert "secret" not in str(caught.value)


def test_postgres_is_shared_between_engines(server: str):
    async def main() -> None:
        url = await create_database(server)
        async with opened(url) as one, opened(url) as two:
            assert one.lease == two.lease == WORKER_LEASE
            started = await one.ask(start("o-1", input=Payload(b"1")))
            shown = [await each.describe("main", "o-1") for each in (one, two)]
            assert {**shown[0], "waiting_on": None} == {**shown[1], "waiting_on": None}
            assert shown[0]["waiting_on"]["summary"] == "No worker serves queue 'default'."
            waiting = asyncio.ensure_future(one.closed(started.key))
            await two.ask(Terminate(MAIN, WorkflowId("o-1")))
            key, closing = await waiting
            assert (key, type(closing).__name__) == (started.key, "WorkflowTerminated")

    asyncio.run(main())


def test_clients_on_postgres_do_each_others_work(server: str):
    app = App()

    @app.workflow
    async def Double(number: int) -> int:
        return 2 * number

    async def main() -> None:
        url = await create_database(server)
        async with await Client.connect(url, app=app) as one, await Client.connect(url, app=App()) as other:
            assert await one.run(Double, 4) == 8
            handle = await other.start("Double", 21, workflow_id="d-1")  # the worker of `one` is still there
            assert await handle.result() == 42
            assert (await other.describe("d-1")) == (await one.describe("d-1"))
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())


def test_a_program_that_stays_forgets_what_is_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    due = 1_600_000_000 * SECOND
    skipped = Fire(MAIN, "nightly", due, due, FireOutcome.SKIPPED)

    async def main() -> None:
        async with opened(sqlite_url(tmp_path)) as transport:
            await transport._engine._store.write(Changes(fires=[skipped]))
        async with opened(sqlite_url(tmp_path)) as transport:
            assert len(await transport._engine._store.fires(MAIN, "nightly", 10)) == 1
        monkeypatch.setattr("assay.embedded.hosted_engine.PRUNE_AFTER", 0)
        async with opened(sqlite_url(tmp_path)) as transport, asyncio.timeout(10):
            while await transport._engine._store.fires(MAIN, "nightly", 10):
                await asyncio.sleep(0.01)

    asyncio.run(main())
