"""A result that comes at the very end of the time that its caller waits."""

import asyncio
from pathlib import Path

import pytest

from assay.api.routes.workflows import outcome
from assay.core.model.commands import CompleteWorkflow
from assay.core.model.events import Event
from assay.core.model.ids import Namespace, RunKey, WorkerId, WorkflowId
from assay.core.model.payload import Payload
from assay.core.model.requests import Advance, LeaseTask, StartWorkflow
from assay.engine.engine import Engine
from assay.server.composition import running
from assay.server.config import ServerConfig

WORKER = WorkerId("w-1")


async def completed(engine: Engine) -> RunKey:
    request = StartWorkflow(namespace=Namespace("main"), workflow_id=WorkflowId("w"), workflow_type="W")
    key = (await engine.submit(request)).key
    await engine.submit(LeaseTask(key.run_id, WORKER, None, local=False))
    await engine.submit(Advance(key.run_id, WORKER, 1, 1, (CompleteWorkflow(Payload(b"42")),)))
    return key


def test_a_run_that_ends_as_the_wait_does_is_answered_with_its_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    async def never(key: RunKey, *, follow: bool = True) -> tuple[RunKey, Event]:
        await asyncio.Event().wait()
        raise AssertionError(key, follow)

    async def main() -> None:
        async with running(ServerConfig(database=f"sqlite://{tmp_path}/engine.db")) as (api, _):
            key = await completed(api.backend.engine)
            monkeypatch.setattr(api.backend.engine, "wait_closed", never)
            record, closed = await outcome(api.backend, key, 0.01, follow=True)
            assert closed
            assert (record.status, bytes(record.result)) == ("COMPLETED", b"42")

    asyncio.run(main())
