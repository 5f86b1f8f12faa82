"""More activities or children at once than a run may have pending: held in the order of the calls."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

import assay
from assay import App, Client, Worker
from assay.core.model.limits import LIMITS
from assay.sdk.workflow.replay import held_orders
from assay.testing.replay import History, fetch_history, replay_history

app = App()
order: list[int] = []


@app.activity
async def double(ctx: assay.ActivityContext, number: int) -> int:
    order.append(number)
    return 2 * number


@app.workflow
async def Child(ctx: assay.Context, number: int) -> int:
    return 2 * number


@app.workflow
async def Activities(ctx: assay.Context, count: int) -> int:
    return sum(await asyncio.gather(*(ctx.execute_activity(double, number) for number in range(count))))


@app.workflow
async def Children(ctx: assay.Context, count: int) -> int:
    name = ctx.info().workflow_id
    children = [ctx.start_child_workflow(Child, workflow_id=f"{name}-{n}", input=n) for n in range(count)]
    return sum(await asyncio.gather(*children))


@app.workflow
async def CancelledBeforeSent(ctx: assay.Context, count: int) -> str:
    tasks = [asyncio.create_task(ctx.execute_activity(double, number)) for number in range(count)]
    await asyncio.sleep(0)
    tasks[-1].cancel()
    ended = await asyncio.gather(*tasks, return_exceptions=True)
    return f"{sum(isinstance(one, int) for one in ended)} done, {type(ended[-1]).__name__}"


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits of the SDK that a test reaches with few commands."""
    monkeypatch.setattr(held_orders, "LIMITS", SMALL)
    order.clear()


SMALL = msgspec.structs.replace(LIMITS, pending_activities=104, pending_children=104)


def run(path: Path, name: str, count: int, *, cached: int = 1_000) -> Any:
    async def main() -> Any:
        async with await Client.connect(f"sqlite://{path}/w.db", app=app) as client:
            worker = Worker(client, max_cached_runs=cached)
            running = asyncio.create_task(worker.run())
            try:
                return await asyncio.wait_for(client.run(name, count), 60)
            finally:
                worker.stop()
                await running

    return asyncio.run(main())


@pytest.mark.parametrize(
    ("name", "count", "result"),
    [("Activities", 3_000, 3_000 * 2_999), ("Children", 2_500, 2_500 * 2_499)],
)
def test_a_plain_loop_or_gather_of_thousands_completes(name: str, count: int, result: int, tmp_path: Path):
    assert run(tmp_path, name, count) == result


@pytest.mark.parametrize("cached", [1_000, 0])
@pytest.mark.parametrize(("name", "result"), [("Activities", 600), ("Children", 600), ("CancelledBeforeSent", None)])
def test_held_orders_are_sent_in_order_also_when_each_turn_is_a_replay(
    name: str, result: int | None, cached: int, small: None, tmp_path: Path
):
    found = run(tmp_path, name, 25, cached=cached)
    assert found == (result if result is not None else "24 done, CancelledError")
    if name == "Activities":
        assert order == sorted(order)
    if name == "CancelledBeforeSent":
        assert 24 not in order


@pytest.mark.parametrize("name", ["Activities", "Children"])
def test_recorded_orders_above_the_limit_are_replayed_at_their_call(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A version that held no orders has recorded more pending ones than this version would send."""

    async def main() -> History:
        async with await Client.connect(f"sqlite://{tmp_path}/w.db", app=app) as client:
            worker = Worker(client)
            running = asyncio.create_task(worker.run())
            await asyncio.wait_for(client.run(name, 25, workflow_id="many"), 60)
            worker.stop()
            await running
            return await fetch_history(client, "many")

    history = asyncio.run(main())
    all_pending = msgspec.structs.replace(history, events=history.events[:26])
    monkeypatch.setattr(held_orders, "LIMITS", SMALL)
    replay_history(all_pending, app)
