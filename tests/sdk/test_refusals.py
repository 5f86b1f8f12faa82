"""What cannot be is refused where it is asked for, or ends the run that asked for it; nobody else notices (L2).

These tests run a second time with the engine behind HTTP, see `tests/http/test_same_as_embedded.py`.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import pytest

from assay.core import commands as cmd
from assay.core.errors import Failure, WorkflowFailed
from assay.sdk.app import App
from assay.sdk.client import Client
from assay.sdk.context import Context
from assay.sdk.replay.endings import CancelRequested, ContinueAsNewRequested
from assay.sdk.replay.journal import child_name
from assay.sdk.worker import Worker
from tests.sdk.end_to_end import on_loop

SECONDS = 10
"""Long before a lease runs out twice: what ends only then was not refused, but lost."""

app = App()


@app.activity
async def echo(value: Any) -> Any:
    return value


@app.workflow
async def fine(ctx: Context, value: Any) -> Any:
    return await ctx.execute_activity(echo, value)


@contextlib.asynccontextmanager
async def served(folder: Path) -> AsyncIterator[Client]:
    """A client, and a worker beside which nothing else serves."""
    async with await Client.connect(f"sqlite://{folder}/engine.db", app=app) as client:
        worker = Worker(client, drain_seconds=0.2)
        running = asyncio.create_task(worker.run())
        try:
            yield client
        finally:
            worker.stop()
            await running


async def outcome(client: Client, workflow: Any, input: Any) -> Any:
    """How a run ends; its worker serves others as before, and its history can be read."""
    handle = await client.start(workflow, f"bad-{input}", input)
    try:
        ended = await asyncio.wait_for(handle.result(), SECONDS)
    except WorkflowFailed as failure:
        ended = failure
    other = await client.start(fine, f"other-{input}", 42)
    assert await asyncio.wait_for(other.result(), SECONDS) == 42
    assert (await client.get_events(handle.workflow_id))[0].event_type == "WorkflowStarted"
    return ended


# turns that the engine refuses


@app.workflow
async def oversized(ctx: Context, kind: str) -> Any:
    match kind:
        case "attribute, then a timer":
            ctx.upsert_search_attributes({"key": "x" * 3_000})
            await ctx.sleep(0.01)
        case "attribute, then the end":
            ctx.upsert_search_attributes({"key": "x" * 3_000})
        case "attribute, then another run":
            ctx.upsert_search_attributes({"key": "x" * 3_000})
            ctx.continue_as_new("never")
        case "attribute after an activity":
            await ctx.execute_activity(echo, 1)
            ctx.upsert_search_attributes({"key": "x" * 3_000})
        case "attribute after a step":
            await ctx.run("step", lambda: 1)
            ctx.upsert_search_attributes({"key": "x" * 3_000})
        case "activities":
            await asyncio.gather(*(ctx.execute_activity(echo, number) for number in range(2_100)))
    return "ended"


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("attribute, then a timer", "search attribute 'key' is too long"),
        ("attribute, then the end", "search attribute 'key' is too long"),
        ("attribute, then another run", "search attribute 'key' is too long"),
        ("attribute after an activity", "search attribute 'key' is too long"),
        ("attribute after a step", "search attribute 'key' is too long"),
        ("activities", "at most 2000 commands in one turn"),
    ],
)
@on_loop
async def test_a_turn_that_the_engine_refuses_fails_the_run_with_the_reason(tmp_path: Path, kind: str, reason: str):
    async with served(tmp_path) as client:
        failure = await outcome(client, oversized, kind)
        assert isinstance(failure, WorkflowFailed)
        assert (failure.message, failure.kind) == (reason, "INVALID")
        record = await client.describe(f"bad-{kind}")
        assert record is not None
        assert (record.status, record.error) == ("FAILED", reason)


# what gets around all checks of the SDK, as a mistake of ours might


@app.activity
async def fails_oddly() -> None:
    failure = Failure("it failed")
    failure.retryable = 0  # type: ignore[assignment]
    raise failure


@app.workflow
async def odd(ctx: Context, kind: str) -> None:
    run, wrong = ctx._run, cast(Any, 5)
    match kind:
        case "signal":
            run.order("wait for signal", run.count("wait for signal"), "x", cmd.WaitForSignal(wrong))
        case "side effect":
            run.order("side effect", 1, "x", cmd.RecordSideEffect(1, wrong))
        case "child":
            child = cmd.StartChildWorkflow("fine", "odd-child", seq=1, summary=wrong)
            run.children["odd-child"] = run.loop.create_future()
            run.order("child workflow", 1, child_name("fine", "odd-child"), child)
            await run.children["odd-child"]
        case "new run":
            raise ContinueAsNewRequested(cmd.ContinueAsNew(task_queue=wrong))
        case "cancel":
            run.cancelled_itself, run.cancel_reason = True, wrong
            raise CancelRequested
        case "failure":
            failure = Failure("it failed")
            failure.retryable = wrong
            raise failure
        case "failure of an activity":
            await ctx.execute_activity(fails_oddly, max_attempts=2, initial_interval_secs=0.01)
    await ctx.sleep(0.01)


KINDS = ["signal", "side effect", "child", "new run", "cancel", "failure", "failure of an activity"]


@pytest.mark.parametrize("kind", KINDS)
@on_loop
async def test_what_no_history_can_hold_fails_one_run_and_is_never_recorded(tmp_path: Path, kind: str):
    async with served(tmp_path) as client:
        failure = await outcome(client, odd, kind)
        assert isinstance(failure, WorkflowFailed)
        assert (await client.get_events(f"bad-{kind}"))[-1].event_type == "WorkflowFailed"
    async with served(tmp_path) as client:  # an engine that was restarted knows only what is recorded
        assert [run.status for run in await client.list(type="odd")] == ["FAILED"]
