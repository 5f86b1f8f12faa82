"""What the engine reads before a run is retried, and what it does if that was not enough."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from assay import App, AssayError, Client, Context
from assay.core.model import limits
from assay.core.model.events import Recorded
from assay.core.model.run import Run
from assay.core.rules import retry
from assay.engine.commit import prefetch
from assay.sdk.worker.worker import Worker


def waiting() -> App:
    app = App()

    @app.workflow
    async def Parent(ctx: Context, depth: int) -> int:
        if depth:
            await ctx.start_child_workflow("Parent", workflow_id=f"{ctx.info().workflow_id}.1", input=depth - 1)
        await ctx.wait_for_signal("go")
        return depth

    return app


@pytest.mark.parametrize("bound", [1, 2, 3])
def test_the_tree_is_reopened_up_to_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bound: int):
    for module in (retry, prefetch):
        monkeypatch.setattr(module, "LIMITS", limits.Limits(reopened_children=bound))

    async def main() -> None:
        async with await Client.connect(f"sqlite://{tmp_path}/tree.db", app=waiting()) as client:
            worker = Worker(client)
            running = asyncio.create_task(worker.run())
            handle = await client.start("Parent", 3, workflow_id="p")
            while await client.describe("p.1.1.1") is None:
                await asyncio.sleep(0.01)
            await handle.terminate()
            if bound < 3:
                with pytest.raises(AssayError) as refused:
                    await client.retry("p", reason="again")
                assert refused.value.code == "too_many_children"
                assert len(await client.list_runs("p")) == 1
            else:
                await client.retry("p", reason="again")
                record = await client.describe("p.1.1.1")
                assert record is not None
                assert (record["status"], len(await client.list_runs("p.1.1.1"))) == ("RUNNING", 2)
            worker.stop()
            await running

    asyncio.run(asyncio.wait_for(main(), 30))


def test_a_history_that_cannot_be_read_is_no_endless_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    read = prefetch._Tree.read

    async def short(self: prefetch._Tree, run: Run) -> Sequence[Recorded]:
        self.histories[run.run_id] = (await read(self, run))[:-1]
        return self.histories[run.run_id]

    async def main() -> None:
        async with await Client.connect(f"sqlite://{tmp_path}/tree.db", app=waiting()) as client:
            await (await client.start("Parent", 0, workflow_id="p")).terminate()
            monkeypatch.setattr(prefetch._Tree, "read", short)
            with pytest.raises(AssayError) as refused:
                await client.retry("p", reason="again")
            assert refused.value.code == "unavailable"

    asyncio.run(asyncio.wait_for(main(), 30))
