"""What came while a run was ending, too late for its code to be told, does not make its history a false one."""

import asyncio
from pathlib import Path

import pytest

import assay
from assay.testing.replay import History, fetch_history, replay_history

app = assay.App()


@app.activity
async def nothing() -> None:
    return None


@app.workflow(name="First")
async def first(ctx: assay.Context) -> str:
    said: str = await ctx.wait_for_signal("word")
    return said


@app.workflow(name="Race")
async def race(ctx: assay.Context) -> str:
    running = asyncio.ensure_future(ctx.execute_activity(nothing))
    said: str = await ctx.wait_for_signal("word")
    running.cancel()
    return said


async def recorded(folder: Path, workflow: str, *signals: str) -> History:
    """The history of a run that got all signals in one batch and ended with the first of them."""
    async with await assay.Client.connect(f"sqlite://{folder}/late.db", app=app) as client:
        handle = await client.start(workflow, workflow_id="late-1")
        await asyncio.gather(*(handle.signal("word", word) for word in signals))
        assert await client.run(workflow, workflow_id="late-1") == signals[0]
        return await fetch_history(client, "late-1")


@pytest.mark.parametrize("workflow", ["First", "Race"])
def test_signals_that_came_too_late_are_no_divergence(tmp_path: Path, workflow: str):
    history = asyncio.run(recorded(tmp_path, workflow, "one", "two", "three"))
    assert [event.kind for event in history.events].count("SignalReceived") == 3
    replay_history(history, app)


def test_a_step_that_code_never_ordered_is_one(tmp_path: Path):
    async def shorter(ctx: assay.Context) -> str:
        return "one"

    history = asyncio.run(recorded(tmp_path, "Race", "one"))
    with pytest.raises(assay.NonDeterminismError):
        replay_history(history, app, workflow=shorter)


@app.workflow(name="Relay")
async def relay(ctx: assay.Context) -> None:
    ctx.continue_as_new()


def test_a_run_that_was_cancelled_before_it_began_says_nothing_about_its_code(tmp_path: Path):
    async def act() -> History:
        async with await assay.Client.connect(f"sqlite://{tmp_path}/late.db", app=app) as client:
            handle = await client.start("Relay", workflow_id="late-1")
            await handle.cancel()
            return await fetch_history(client, "late-1")

    history = asyncio.run(act())
    assert [event.kind for event in history.events][-1] == "WorkflowCancelled"
    replay_history(history, app)
