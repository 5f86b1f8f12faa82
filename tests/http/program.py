"""A worker for tests: `python -m tests.http.program URL FOLDER [key=value ...]`; its effects are lines of a file."""

import asyncio
import logging
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import assay
from assay import App, Client, Worker

app = App()


class Ledger:
    """What was really done, outside of what is tested: appended and synced before the answer."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def note(self, *words: object) -> None:
        line = " ".join(map(str, words)) + "\n"
        handle = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(handle, line.encode())
            os.fdatasync(handle)
        finally:
            os.close(handle)

    def lines(self) -> list[list[str]]:
        return [line.split(" ") for line in self._path.read_text().splitlines()] if self._path.exists() else []


ledger = Ledger(Path("unused"))


@app.activity
async def note(ctx: assay.ActivityContext, step: dict[str, Any]) -> str:
    """Leave a trace that names the attempt."""
    ledger.note("note", step["id"], ctx.info().attempt)
    return str(step["id"])


@app.activity
def slow(ctx: assay.ActivityContext, step: dict[str, Any]) -> str:
    """Take a while, in a thread."""
    ledger.note("begin", step["id"], ctx.info().attempt, os.getpid())
    time.sleep(step["seconds"])  # noqa: TID251
    ledger.note("end", step["id"], ctx.info().attempt, os.getpid())
    return f"{step['id']} by {os.getpid()}"


@app.workflow
async def Steps(ctx: assay.Context, input: dict[str, Any]) -> dict[str, Any]:
    """Some activities one after the other, then some side by side, and a step inline."""
    done = [await ctx.execute_activity(note, {"id": f"{input['id']}/{n}"}) for n in range(input["steps"])]
    wide = await asyncio.gather(
        *(ctx.execute_activity(note, {"id": f"{input['id']}/w{n}"}) for n in range(input.get("wide", 0)))
    )
    inline = await ctx.run("inline", lambda: f"{input['id']}/inline") if input.get("inline") else None
    return {"id": input["id"], "done": len(done), "wide": len(wide), "inline": inline}


@app.workflow
async def Slow(ctx: assay.Context, input: dict[str, Any]) -> Any:
    done = await ctx.execute_activity(slow, input, max_attempts=input.get("max_attempts", 5))
    if "until" in input:
        await ctx.wait_for_signal(input["until"])
    return done


@app.workflow
async def Patient(ctx: assay.Context, input: dict[str, Any]) -> Any:
    """A long inline step, which holds the workflow task."""

    def work() -> str:
        ledger.note("begin", input["id"], os.getpid())
        time.sleep(input["seconds"])  # noqa: TID251
        ledger.note("end", input["id"], os.getpid())
        return str(os.getpid())

    first = await ctx.run("work", work)
    if "until" in input:
        await ctx.wait_for_signal(input["until"])
    second = await ctx.execute_activity(note, {"id": f"{input['id']}/after"})
    return [first, second]


async def main(url: str, folder: str, options: dict[str, str]) -> None:
    global ledger
    ledger = Ledger(Path(folder) / options.pop("ledger", "ledger"))
    client = await Client.connect(url, app=app, namespace=options.pop("namespace", "main"))
    numbers = {name: int(value) for name, value in options.items() if name.startswith("max_")}
    worker = Worker(client, options.get("queue", "default"), **numbers)  # type: ignore[arg-type]
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, worker.stop)
    await worker.run()
    await client.close()
    ledger.note("left", os.getpid())


if __name__ == "__main__":
    logging.basicConfig(level="INFO", format="%(asctime)s %(name)s %(message)s")
    logging.getLogger("assay.worker").setLevel("DEBUG")
    asyncio.run(main(sys.argv[1], sys.argv[2], dict(word.split("=", 1) for word in sys.argv[3:])))
