import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path

import pytest

import assay
from assay.core.model.events import Recorded
from assay.core.model.ids import Namespace, RunId, WorkflowId
from assay.core.model.requests import Terminate
from assay.embedded.transport import EmbeddedTransport
from assay.sdk.worker.engine_worker import EngineWorker

app = assay.App()


@app.workflow(name="Patient")
async def patient(ctx: assay.Context) -> None:
    await ctx.wait_for_signal("one")
    await ctx.wait_for_signal("two")


class Slow(EmbeddedTransport):
    """Brings a history only after somebody has terminated its run."""

    async def history(self, run_id: RunId, after: int = 0) -> Sequence[Recorded]:
        await self.ask(Terminate(Namespace("main"), WorkflowId("patient-1")))
        return await super().history(run_id, after)


async def served(client: assay.Client) -> EngineWorker:
    """Serve until the run waits or has ended."""
    worker = EngineWorker(client.transport, app, assay.Worker(client).options)  # type: ignore[arg-type]
    serving = asyncio.ensure_future(worker.run())
    while True:
        record = await client.describe("patient-1")
        if record is not None and (record.completed_at or record.waiting_on.signal):
            break
        await asyncio.sleep(0)
    worker.stop()
    await serving
    return worker


async def terminated_while_its_history_is_read(url: str) -> tuple[int, str]:
    async with await assay.Client.connect(url, app=app) as client:
        await client.start("Patient", workflow_id="patient-1")
        await served(client)
        await client.signal("patient-1", "one")
    transport = Slow(url)
    await transport.open()
    async with assay.Client(transport, app=app) as client:
        worker = await served(client)
        ended = await client.get_events("patient-1")
    return worker.slots.tasks, ended[-1].event_type


def test_a_run_that_ends_while_it_is_replayed_is_simply_left(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.WARNING):
        free, last = asyncio.run(terminated_while_its_history_is_read(f"sqlite://{tmp_path}/patient.db"))
    assert caplog.messages == []
    assert last == "WorkflowTerminated"
    assert free == 256
