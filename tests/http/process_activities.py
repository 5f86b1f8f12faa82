"""Activities for processes, and a program that serves one: a new process imports them from here.

Each input is a folder. Files in it say what has happened, and what may happen.
"""

import os
import sys
import threading
from pathlib import Path

from assay import ActivityContext, App, CancelRequested, Context, workflow

app = App()


def note(folder: str, name: str) -> None:
    """Write the number of this process into a new file."""
    draft = Path(folder, f".{name}-{os.getpid()}-{threading.get_ident()}")
    draft.write_text(str(os.getpid()))
    draft.rename(Path(folder, name))


def wait_for(folder: str, name: str) -> None:
    """Wait until there is a file."""
    while not Path(folder, name).exists():
        threading.Event().wait(0.01)


@app.activity(runs_in="process")
def counted(ctx: ActivityContext, folder: str) -> int:
    """Take a third of a second, and leave a file for each execution."""
    note(folder, f"execution-{ctx.info().activity_id}-{ctx.info().attempt}")
    threading.Event().wait(0.3)
    return os.getpid()


@app.activity(runs_in="process")
def pid(_: str) -> int:
    return os.getpid()


@app.activity(runs_in="process")
def good(folder: str) -> str:
    note(folder, "good")
    wait_for(folder, "go")
    return "well"


@app.activity(runs_in="process")
def poison(folder: str) -> None:
    wait_for(folder, "good")
    os._exit(1)


@app.activity(runs_in="process")
def hangs(folder: str) -> None:
    note(folder, "hangs")
    wait_for(folder, "never")


@app.activity(runs_in="process")
def ignores(ctx: ActivityContext, folder: str) -> None:
    """Go on for ever, whatever the heartbeats raise."""
    while True:
        try:
            ctx.heartbeat()
        except CancelRequested:
            note(folder, "cancelled")
        note(folder, "ignores")
        threading.Event().wait(0.02)


@app.activity(runs_in="process")
def heeds(ctx: ActivityContext, folder: str) -> None:
    """Stop at the heartbeat that says so, and take longer than a second to clean up."""
    try:
        while True:
            note(folder, "heeds")
            ctx.heartbeat()
            threading.Event().wait(0.02)
    except CancelRequested:
        threading.Event().wait(1.5)
        note(folder, "cleaned")
        raise


@app.workflow(name="One")
async def one(ctx: Context, input: dict) -> object:
    return await ctx.execute_activity(input["activity"], input["folder"], max_attempts=1, **input.get("options", {}))


@app.workflow(name="Many")
async def many(ctx: Context, folder: str) -> list[int]:
    import asyncio

    calls = (ctx.execute_activity(counted, folder, start_to_close_secs=2.5, max_attempts=3) for _ in range(24))
    return await asyncio.gather(*calls)


if __name__ == "__main__":
    url, folder = sys.argv[1:]
    workflow.connect(url)
    workflow.activity("hangs", hangs, runs_in="process")

    @workflow.define(name="Hang")
    async def hang(ctx: Context, folder: str) -> None:
        await ctx.execute_activity("hangs", folder)

    workflow.start("Hang", folder, workflow_id="hang")
    workflow.listen(max_processes=2)
