"""Drop responses to clients and workers: a repeated request has its effect once."""

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from assay import Client, Worker
from tests.http.processes import server
from tests.http.program import Ledger, app
from tests.http.proxy import Faults, proxy


@app.workflow
async def Counting(ctx, input):  # type: ignore[no-untyped-def]
    """Count signals until told to stop."""
    received = []
    while (message := await ctx.wait_for_signal("count"))["n"] >= 0:
        received.append(message["n"])
    return received


@pytest.mark.parametrize("by_post", [False, True], ids=["websocket", "post"])
def test_lost_answers_converge_with_effects_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_post: bool):
    if by_post:
        monkeypatch.setattr("assay.sdk.client.http.reconnector.Reconnector.by_post", True)
    monkeypatch.setattr("tests.http.program.ledger", Ledger(tmp_path / "ledger"))

    async def main(url: str) -> tuple[list[dict[str, object]], list[int]]:
        async with await Client.connect(url, app=app) as client:
            worker = Worker(client)
            running = asyncio.create_task(worker.run())
            counting = await client.start("Counting", workflow_id="counting")
            runs = [
                client.run("Steps", {"id": f"r{n}", "steps": 4, "wide": 2, "inline": True}, workflow_id=f"r{n}")
                for n in range(60)
            ]
            found = await asyncio.gather(*runs, *(client.signal("counting", "count", {"n": n}) for n in range(60)))
            await client.signal("counting", "count", {"n": -1})
            received: list[int] = await counting.result()
            worker.stop()
            await running
            return found[:60], received

    with server(tmp_path) as engine:
        with proxy(engine.port, Faults(cut=0.1, duplicate=0.05)) as chaos:
            results, received = asyncio.run(main(chaos.url))
            assert chaos.done["cuts"] > 10
        assert [result["id"] for result in results] == [f"r{n}" for n in range(60)]
        assert sorted(received) == list(range(60))
        outcomes, starts = asyncio.run(counted(engine.url))
        assert set(outcomes.values()) == {1}
        assert starts == dict.fromkeys([f"r{n}" for n in range(60)] + ["counting"], 1)
        # an attempt whose task was lost on the way is sent again, with the same number
        attempts = {line[2] for line in Ledger(tmp_path / "ledger").lines() if line[0] == "note"}
        assert attempts == {"1"}
        times = Counter(line[1] for line in Ledger(tmp_path / "ledger").lines() if line[0] == "note")
        assert set(times.values()) == {1}


async def counted(url: str) -> tuple[Counter[tuple[str, int]], Counter[str]]:
    """Outcomes by activity, and runs by id."""
    async with await Client.connect(url) as client:
        outcomes: Counter[tuple[str, int]] = Counter()
        runs = await client.list(limit=1000)
        for run in runs:
            for event in await client.get_events(run.id, run.run_id):
                if event.event_type == "ActivityCompleted":
                    outcomes[run.id, event.payload["activity_seq"]] += 1
        return outcomes, Counter(run.id for run in runs)
