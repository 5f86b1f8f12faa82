"""An engine of another kind behind the same `Client` and `Worker`: it implements the two ports and nothing else."""

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

import assay
from assay.core.model.errors import WorkflowFailed
from assay.core.model.ids import RunId, RunKey
from assay.core.model.payload import Payload, value_of
from assay.core.model.replies import Started
from assay.core.model.requests import StartWorkflow
from assay.sdk.app import App
from assay.sdk.client import connections
from assay.sdk.ports import EngineConnection, ListedRuns, Target, WorkerOptions, WorkflowOutcome


class OtherEngine:
    """Answers every start with its input, or with the failure that the input names."""

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self._inputs: dict[str, Any] = {}

    async def open(self) -> None:
        self.calls.append("open")

    async def close(self) -> None:
        self.calls.append("close")

    async def start(self, start: StartWorkflow) -> Started:
        self._inputs[start.workflow_id] = value_of(start.input)
        return Started(RunKey(start.namespace, start.workflow_id, RunId("r-1")), "RUNNING", started=True)

    async def result(self, key: RunKey) -> WorkflowOutcome:
        found = self._inputs[key.workflow_id]
        if found == "fail":
            return WorkflowOutcome(None, WorkflowFailed("no", workflow_id=key.workflow_id, run_id=key.run_id))
        return WorkflowOutcome(Payload(b"%d" % found))

    async def signal(self, target: Target, name: str, payload: Payload) -> None:
        self.calls.append((target, name, value_of(payload)))

    async def cancel(self, target: Target, reason: str | None, deadline: int | None) -> None:
        self.calls.append((target, reason, deadline))

    async def terminate(self, target: Target, reason: str | None) -> None:
        self.calls.append((target, reason))

    async def continue_as_new(self, target: Target, input: Payload | None) -> Started:
        self.calls.append(None if input is None else value_of(input))
        return Started(RunKey(target.namespace, target.workflow_id, RunId("r-2")), "PENDING", started=True)

    async def retry(self, target: Target, *, reason: str, requested_by: str, from_seq: int | None) -> dict[str, Any]:
        return {"workflow_id": target.workflow_id, "run_id": "r-3", "status": "PENDING"}

    async def describe(self, namespace: str, workflow_id: str, run_id: str | None = None) -> dict[str, Any] | None:
        return {"run_id": "r-1", "workflow_id": workflow_id}

    async def list(self, namespace: str, filters: Any) -> ListedRuns:
        return ListedRuns([{"workflow_id": "a"}], None)

    async def events(self, namespace: str, workflow_id: str, run_id: str | None = None) -> Sequence[dict[str, Any]]:
        return []

    async def state(self, namespace: str, workflow_id: str, name: str | None = None) -> dict[str, Any] | None:
        return {"value": 1}

    async def serve(self, app: App, options: WorkerOptions) -> None:
        self.calls.append((sorted(app.workflows), options.queue, options.max_concurrent_activities))
        await options.stopping.wait()


@pytest.fixture
def other() -> Iterator[OtherEngine]:
    engine = OtherEngine()
    ports: EngineConnection = engine
    connections.register("other", lambda *_: ports)
    yield engine
    del connections._factories["other"]


def test_the_verbs_of_a_client_reach_the_port(other: OtherEngine):
    async def main() -> None:
        async with await assay.Client.connect("other://somewhere", app=App()) as client:
            handle = await client.start("Order", 41, workflow_id="a")
            assert (handle.run_id, await handle.result(), await client.run("Order", 42)) == ("r-1", 41, 42)
            with pytest.raises(WorkflowFailed):
                await client.run("Order", "fail", workflow_id="b")
            await client.signal("a", "go", [1])
            await client.cancel("a", "late", "2s")
            assert (await client.continue_as_new("a")).run_id == "r-2"
            await client.continue_as_new("a", None)
            assert (await client.retry("a", reason="fixed")).run_id == "r-3"
            assert await client.query("a", "total") == 1

    asyncio.run(main())
    target = Target("main", "a")  # type: ignore[arg-type]
    assert other.calls == ["open", (target, "go", [1]), (target, "late", 2_000_000), None, None, "close"]


def test_a_worker_serves_by_the_port(other: OtherEngine):
    app = App()
    app.workflow("Order", lambda: None)

    async def main() -> None:
        async with await assay.Client.connect("other://somewhere", app=app) as client:
            worker = assay.Worker(client, "fast", max_concurrent_activities=3)
            running = asyncio.create_task(worker.run())
            await asyncio.sleep(0)
            worker.stop()
            await running

    asyncio.run(main())
    assert other.calls[1] == (["Order"], "fast", 3)
