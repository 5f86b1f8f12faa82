import asyncio
from pathlib import Path
from typing import Any

import assay
from assay.core.model.errors import Refused
from assay.core.model.ids import RunId, WorkerId
from assay.core.model.requests import LeaseTask

app = assay.App()


@app.workflow(name="Relay")
async def relay(ctx: assay.Context, rounds: int) -> str:
    if rounds:
        ctx.continue_as_new(rounds - 1)
    word: str = await ctx.wait_for_signal("word")
    return word


async def signalled_beside_an_old_run(folder: Path) -> tuple[Any, str]:
    async with await assay.Client.connect(f"sqlite://{folder}/relay.db", app=app) as client:
        worker = assay.Worker(client)
        serving = asyncio.ensure_future(worker.run())
        handle = await client.start("Relay", 1, workflow_id="relay-1")
        while len(runs := await client.list_runs("relay-1")) < 2:  # what is waited for is in the store
            await asyncio.sleep(0)
        # one batch: a late request to the run that is over, and a signal to whichever run is the newest
        late = client.transport.ask(LeaseTask(RunId(runs[0].run_id), WorkerId("w-late"), None, True))
        _, refused = await asyncio.gather(handle.signal("word", "hello"), late, return_exceptions=True)
        assert isinstance(refused, Refused)
        result = await handle.result()
        worker.stop()
        await serving
    return result, refused.code


def test_a_late_request_to_an_old_run_does_not_hide_the_newest(tmp_path: Path):
    assert asyncio.run(signalled_beside_an_old_run(tmp_path)) == ("hello", "run_closed")
