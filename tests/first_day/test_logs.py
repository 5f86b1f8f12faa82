"""Log lines that name the run: of activities, and of the engine that takes work from a silent worker."""

import asyncio
import logging
from pathlib import Path

import pytest

import assay
from assay.core.model.ids import SECOND, Namespace, RunKey, WorkflowId
from assay.core.model.requests import StartWorkflow
from assay.engine.engine import Engine
from assay.sdk.app import App
from assay.storage.sqlite.store import SqliteStore
from tests.clocks import ManualClock
from tests.engine.noting_worker import NotingWorker

app = App()


@app.activity
def charge(ctx: assay.ActivityContext, order: str) -> None:
    ctx.logger.info("charging %s", order, extra={"amount": 12})


@app.workflow
async def Checkout(ctx: assay.Context, order: str) -> None:
    await ctx.execute_activity(charge, order)


def test_a_line_of_an_activity_has_the_ids_of_its_run(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    async def main() -> str:
        async with await assay.Client.connect(f"sqlite://{tmp_path}/app.db", app=app) as client:
            handle = await client.start(Checkout, "a book", workflow_id="order-1")
            async with assay.Worker(client):
                await handle.result()
            return handle.run_id

    with caplog.at_level(logging.INFO, "assay.activity"):
        run_id = asyncio.run(asyncio.wait_for(main(), 30))
    (record,) = [one for one in caplog.records if one.name == "assay.activity.charge"]
    assert record.getMessage() == "charging a book"
    facts = vars(record)
    found = [facts[name] for name in ("workflow_id", "run_id", "attempt", "amount")]
    assert found == ["order-1", run_id, 1, 12]


def test_a_lease_that_runs_out_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    async def main() -> RunKey:
        clock = ManualClock()
        engine = Engine(SqliteStore(tmp_path / "engine.db", in_thread=False, clock=clock.now), clock)
        await engine.start()
        worker = NotingWorker()
        engine.add_worker(worker)
        request = StartWorkflow(namespace=Namespace("main"), workflow_id=WorkflowId("order-1"), workflow_type="T")
        started = await engine.submit(request)
        clock.advance(SECOND)
        for _ in range(12):  # second by second, as an engine that is alive sees the time go by
            clock.advance(SECOND)
            engine._committer._tools.presence.mark()
            engine._loops["timekeeper"].wake()
            await asyncio.sleep(0.01)
        while not caplog.records:
            await asyncio.sleep(0.01)
        await engine.stop()
        key: RunKey = started.key
        return key

    with caplog.at_level(logging.WARNING, "assay.engine"):
        key = asyncio.run(asyncio.wait_for(main(), 30))
    (record,) = [one for one in caplog.records if "did not extend its lease" in one.getMessage()]
    assert "the workflow task of order-1 goes to another worker" in record.getMessage()
    assert vars(record)["run_id"] == key.run_id
