import asyncio
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

import assay
from assay import Client, workflow
from assay.core.model.errors import Invalid
from tests.http.processes import server

RUNS = 7


@pytest.fixture(scope="module", params=["embedded", "served"])
def address(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("lists")
    if request.param == "embedded":
        yield f"sqlite://{folder}/own.db"
    else:
        with server(folder) as made:
            yield made.url


async def started(client: Client) -> str:
    kind = f"k-{uuid.uuid4().hex[:8]}"
    for number in range(RUNS):
        await client.start(kind, {"number": number}, workflow_id=f"{kind}-{number}")
    return kind


def test_async_for_reads_all_pages(address: str):
    async def main() -> None:
        async with await Client.connect(address) as client:
            kind = await started(client)
            runs = client.list(type=kind, limit=3)
            assert isinstance(runs, assay.RunList)
            assert [run.input["number"] async for run in runs] == [6, 5, 4, 3, 2, 1, 0]
            page = await runs
            assert isinstance(page, assay.Page)
            assert [run.input["number"] for run in page] == [6, 5, 4]
            page = await runs.page(page.next_cursor)
            assert [run.input["number"] for run in page] == [3, 2, 1]
            page = await runs.page(page.next_cursor)
            assert ([run.input["number"] for run in page], page.next_cursor) == ([0], None)
            assert isinstance(page[0], assay.WorkflowRecord)

    asyncio.run(main())


def test_a_filter_is_checked_by_the_call(address: str):
    async def main() -> None:
        async with await Client.connect(address) as client:
            with pytest.raises(TypeError, match="did you mean 'status'"):
                client.list(statsu="RUNNING")  # type: ignore[call-arg]
            with pytest.raises(Invalid, match="limit"):
                client.list(limit=0)
            await client.start("Tagged", workflow_id=f"t-{uuid.uuid4()}", search_attributes={"tag": address[:6]})
            both = [
                await client.list(search_attrs={"tag": "none"}),
                await client.list(search_attributes={"tag": "none"}),
            ]
            assert both == [[], []]
            assert len(await client.list(search_attributes={"tag": address[:6]})) == 1

    asyncio.run(main())


def test_the_blocking_list_is_a_sequence_of_all_runs(address: str, monkeypatch: pytest.MonkeyPatch):
    workflow.connect(address)
    try:
        kind = f"b-{uuid.uuid4().hex[:8]}"
        for number in range(60):
            workflow.start(kind, {"number": number}, workflow_id=f"{kind}-{number}")
        runs = workflow.list(type=kind)
        assert isinstance(runs, assay.RunList)
        assert sum(1 for _ in runs) == len(runs) == 60
        assert [run.input["number"] for run in runs[:2]] == [59, 58]
        assert runs[-1].id == f"{kind}-0"
        assert runs == list(runs)
        assert [run.id for run in workflow.list(type=kind, limit=7)] == [run.id for run in runs]
        assert isinstance(runs[10:20], list)
        assert workflow.list(type="no such type") == []
        assert not workflow.list(type="no such type")
        page = runs.page()
        assert (len(page), len(runs.page(page.next_cursor))) == (50, 10)
        assert repr(runs) == f"BlockingRunList(type={kind!r})"
    finally:
        workflow.close()


def test_a_misplaced_id_is_refused_with_the_keyword(address: str):
    app = assay.App()

    @app.workflow
    async def NoInput(ctx: assay.Context) -> None: ...

    async def main() -> None:
        async with await Client.connect(address, app=app) as client:
            for call in (client.start, client.run):
                for arguments in ((NoInput, "order-1"), ("NoInput", "order-1"), ("Any", "order-1", {"a": 1})):
                    with pytest.raises(Invalid, match="workflow_id="):
                        await call(*arguments)  # type: ignore[operator]
            handle = await client.start(workflow_type="Any", workflow_id=f"n-{uuid.uuid4()}", input={"a": 1})
            assert (await handle.describe()).input == {"a": 1}

    asyncio.run(main())


def test_the_module_refuses_a_misplaced_id_as_well(tmp_path: Path):
    workflow.connect(f"sqlite://{tmp_path}/app.db")
    try:
        for call in (workflow.start, workflow.run):
            with pytest.raises(Invalid, match="workflow_id="):
                call("Any", "order-1", {"a": 1})  # type: ignore[operator]
        assert workflow.start(workflow_type="Any", workflow_id="n", input=1).workflow_id == "n"
    finally:
        workflow.close()
