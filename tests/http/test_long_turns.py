"""Turns with more commands than a message may have, in an engine of the process and behind HTTP, on both stores."""

import asyncio
import uuid
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest

import assay
from assay import App, Client, Worker
from assay.core.model.limits import LIMITS
from assay.core.model.requests import ReleaseTask
from assay.sdk.worker import live_run
from assay.sdk.worker.live_run import LiveRun
from assay.sdk.worker.workflow_tasks import WorkflowTasks
from tests.http.processes import server

app = App()
executed: Counter[int] = Counter()


@app.activity
async def double(ctx: assay.ActivityContext, number: int) -> int:
    executed[number] += 1
    return 2 * number


@app.workflow
async def Child(ctx: assay.Context, number: int) -> int:
    return 2 * number


@app.workflow
async def SideEffects(ctx: assay.Context, count: int) -> int:
    return sum([2 * await ctx.side_effect("number", lambda number=number: number) for number in range(count)])


@app.workflow
async def Activities(ctx: assay.Context, count: int) -> int:
    return sum(await asyncio.gather(*(ctx.execute_activity(double, number) for number in range(count))))


@app.workflow
async def Children(ctx: assay.Context, count: int) -> int:
    name = ctx.info().workflow_id
    children = [ctx.start_child_workflow(Child, workflow_id=f"{name}-{n}", input=n) for n in range(count)]
    return sum(await asyncio.gather(*children))


@app.workflow
async def AfterActivity(ctx: assay.Context, count: int) -> int:
    """Order a long turn that begins as the speculative turn of an activity's result, and pauses at a side effect."""
    await ctx.execute_activity(double, count)
    first = await ctx.side_effect("number", lambda: 0)
    numbers = await asyncio.gather(*(ctx.execute_activity(double, number) for number in range(first, count)))
    return sum(numbers)


async def run(url: str, name: str, count: int) -> tuple[int, list[Any]]:
    """Run a workflow to its end; return its result and its events."""
    queue = workflow_id = f"long-{uuid.uuid4().hex[:8]}"
    async with await Client.connect(url, app=app) as client:
        worker = Worker(client, queue=queue)
        running = asyncio.create_task(worker.run())
        try:
            run = await client.start(name, count, workflow_id=workflow_id, task_queue=queue)
            result = await asyncio.wait_for(run.result(), 60)
            return result, await client.get_events(workflow_id)
        finally:
            worker.stop()
            await running


def recorded_once(events: list[Any], kind: str, field: str) -> list[int]:
    """Return the numbers of the events of a kind; fail if two events have the same number."""
    numbers = [event.payload[field] for event in events if event.event_type == kind]
    assert len(numbers) == len(set(numbers))
    return numbers


def test_a_plain_loop_of_thousands_of_side_effects_completes(tmp_path: Path):
    result, events = asyncio.run(run(f"sqlite://{tmp_path}/long.db", "SideEffects", 3_000))
    assert result == 3_000 * 2_999
    assert len(recorded_once(events, "SideEffectRecorded", "side_effect_seq")) == 3_000


@pytest.mark.parametrize(("name", "count"), [("SideEffects", 3_000), ("Activities", 3_000), ("Children", 2_500)])
def test_a_loop_or_gather_of_thousands_completes_over_http(name: str, count: int, tmp_path: Path):
    with server(tmp_path) as engine:
        result, _ = asyncio.run(run(engine.url, name, count))
    assert result == count * (count - 1)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages of at most 10 commands."""
    monkeypatch.setattr(live_run, "LIMITS", msgspec.structs.replace(LIMITS, commands=10))
    executed.clear()


@pytest.mark.parametrize("name", ["SideEffects", "Activities", "Children", "AfterActivity"])
def test_a_worker_lost_between_two_parts_loses_and_doubles_nothing(
    url: str, name: str, small: None, monkeypatch: pytest.MonkeyPatch
):
    sent: list[int] = []
    original = WorkflowTasks._send_part

    def send_part(self: WorkflowTasks, run: LiveRun, *arguments: Any) -> None:
        is_long = len(run.turn.commands) > 10
        if is_long and len(sent) == 1:
            # The next part never leaves; the task goes to a worker that has nothing of the run in memory.
            sent.append(0)
            self._reports.send(ReleaseTask(run.key.run_id, self._worker, run.epoch))
            self._lost(run)
            return
        if is_long:
            sent.append(len(run.unsent))
        original(self, run, *arguments)

    monkeypatch.setattr(WorkflowTasks, "_send_part", send_part)
    result, events = asyncio.run(run(url, name, 35))
    assert result == 35 * 34
    assert len(sent) > 2
    recorded_once(events, "SideEffectRecorded", "side_effect_seq")
    recorded_once(events, "ActivityScheduled", "activity_seq")
    recorded_once(events, "ChildWorkflowStarted", "child_seq")
    assert set(executed.values()) <= {1}
