"""Kill engines and workers at the worst moments: nothing is lost and nothing is recorded twice."""

import asyncio
import os
import threading
from collections import Counter
from pathlib import Path

import pytest

from assay import Client
from tests.http.processes import server, worker
from tests.http.program import Ledger


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_an_engine_killed_under_load_loses_nothing_and_repeats_no_finished_step(
    tmp_path: Path, store: str, request: pytest.FixtureRequest
):
    database = request.getfixturevalue("postgres") if store == "postgres" else None
    with server(tmp_path, database) as engine, worker(tmp_path, engine.url):
        killed = threading.Event()

        def murder() -> None:
            for _ in range(4):
                killed.wait(0.8)
                engine.kill()
                engine.start()
            killed.set()

        async def main() -> dict[int, dict[str, object]]:
            async with await Client.connect(engine.url) as client:
                culprit = threading.Thread(target=murder)
                culprit.start()
                found: dict[int, dict[str, object]] = {}

                async def slot(number: int) -> None:
                    """New work for as long as engines are killed."""
                    while number < 30 or not killed.is_set():
                        order = {"id": f"r{number}", "steps": 5, "wide": 3, "inline": True}
                        found[number] = await client.run("Steps", order, workflow_id=f"r{number}")
                        number += 30

                await asyncio.gather(*(slot(number) for number in range(30)))
                culprit.join()
                return found

        results = asyncio.run(main())
        assert len(results) >= 30
        for number, result in results.items():
            assert (result["id"], result["done"], result["wide"]) == (f"r{number}", 5, 3)
        assert asyncio.run(recorded_twice(engine.url, list(results))) == []
        # a worker that lives through the restart keeps its work: no attempt is repeated
        times = Counter(line[1] for line in Ledger(tmp_path / "ledger").lines() if line[0] == "note")
        assert [step for step, count in times.items() if count > 1] == []


async def recorded_twice(url: str, runs: list[int]) -> list[str]:
    """Activities that have more than one outcome in their history, or none (I6)."""
    async with await Client.connect(url) as client:
        wrong = []
        for number in runs:
            outcomes = Counter(
                event.payload["activity_seq"]
                for event in await client.get_events(f"r{number}")
                if event.event_type == "ActivityCompleted"
            )
            if set(outcomes.values()) != {1} or len(outcomes) != 8:
                wrong.append(f"r{number}: {outcomes}")
        return wrong


def test_an_engine_that_was_down_for_longer_than_a_lease_repeats_nothing_that_still_runs(tmp_path: Path):
    with server(tmp_path) as engine, worker(tmp_path, engine.url):

        async def main() -> list[str]:
            async with await Client.connect(engine.url) as client:
                runs = [
                    await client.start("Slow", {"id": "a", "seconds": 14.0, "max_attempts": 1}, workflow_id="a"),
                    await client.start("Patient", {"id": "p", "seconds": 14.0}, workflow_id="p"),
                ]
                ledger = Ledger(tmp_path / "ledger")
                while sum(line[0] == "begin" for line in ledger.lines()) < 2:
                    await asyncio.sleep(0.02)
                engine.kill()
                await asyncio.sleep(11)
                await asyncio.to_thread(engine.start)
                return [await run.result() for run in runs]

        assert len(asyncio.run(main())) == 2
        begun = [line[1] for line in Ledger(tmp_path / "ledger").lines() if line[0] == "begin"]
        assert sorted(begun) == ["a", "p"]


def test_the_work_of_a_killed_worker_is_done_by_another(tmp_path: Path):
    with server(tmp_path) as engine, worker(tmp_path, engine.url, name="first") as victim:

        async def main() -> list[str]:
            async with await Client.connect(engine.url) as client:
                handles = [
                    await client.start("Slow", {"id": f"s{n}", "seconds": 2.0}, workflow_id=f"s{n}") for n in range(5)
                ]
                ledger = Ledger(tmp_path / "ledger")
                while sum(line[0] == "begin" for line in ledger.lines()) < 5:
                    await asyncio.sleep(0.02)
                victim.kill()
                with worker(tmp_path, engine.url, name="second"):
                    return [await handle.result() for handle in handles]

        results = asyncio.run(main())
        assert len(results) == 5
        assert not any(str(victim.pid) in result for result in results)
        begun = Counter(line[2] for line in Ledger(tmp_path / "ledger").lines() if line[0] == "begin")
        assert begun == {"1": 5, "2": 5}  # a lost attempt counts


def test_a_worker_drains_when_it_is_told_to_stop(tmp_path: Path):
    with server(tmp_path) as engine, worker(tmp_path, engine.url, name="leaving") as leaving:

        async def main() -> str:
            async with await Client.connect(engine.url) as client:
                handle = await client.start("Slow", {"id": "s", "seconds": 1.0}, workflow_id="s")
                ledger = Ledger(tmp_path / "ledger")
                while not any(line[0] == "begin" for line in ledger.lines()):
                    await asyncio.sleep(0.02)
                stopping = asyncio.create_task(asyncio.to_thread(leaving.stop))
                result: str = await handle.result()
                assert await stopping == 0
                return result

        assert asyncio.run(main()) == f"s by {leaving.pid}"
        assert ["left", str(leaving.pid)] in Ledger(tmp_path / "ledger").lines()


def test_a_stopping_worker_gives_back_what_it_cannot_finish(tmp_path: Path):
    with server(tmp_path) as engine, worker(tmp_path, engine.url, name="leaving") as leaving:

        async def main() -> tuple[str, float]:
            async with await Client.connect(engine.url) as client:
                handle = await client.start("Slow", {"id": "s", "seconds": 12.0, "max_attempts": 1}, workflow_id="s")
                ledger = Ledger(tmp_path / "ledger")
                while not any(line[0] == "begin" for line in ledger.lines()):
                    await asyncio.sleep(0.02)
                begin = asyncio.get_running_loop().time()
                assert await asyncio.to_thread(leaving.stop) == 0
                taken = asyncio.get_running_loop().time() - begin
                with worker(tmp_path, engine.url, name="next") as heir:
                    result: str = await handle.result()
                    assert result.endswith(str(heir.pid))
                return result, taken

        _, taken = asyncio.run(main())
        assert taken < 10.5
        attempts = [line[2] for line in Ledger(tmp_path / "ledger").lines() if line[0] == "begin"]
        assert attempts == ["1", "1"]  # returned by the worker, so not counted: max_attempts 1 allows it


@pytest.mark.quiet
def test_an_idle_connection_costs_next_to_nothing(tmp_path: Path):
    with server(tmp_path) as engine, worker(tmp_path, engine.url):
        threading.Event().wait(1)
        before = cpu_seconds(engine.process.pid)
        threading.Event().wait(5)
        assert cpu_seconds(engine.process.pid) - before < 0.15


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
