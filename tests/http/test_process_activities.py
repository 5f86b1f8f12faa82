"""Activities in processes: none begins late, a death or a hang is its own, a cancel is heard or enforced.

All of it holds with an engine in this process and with one behind HTTP.
"""

import asyncio
import os
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

import assay
from assay import Client, Worker
from assay.core.model.commands import ScheduleActivity
from assay.worker_protocol import messages as wire
from tests.http.bare import Bare
from tests.http.process_activities import app
from tests.http.processes import Process, Server, server


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with server(tmp_path_factory.mktemp("engine")) as made:
        yield made


@pytest.fixture(params=["embedded", "http"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "embedded":
        return f"sqlite://{tmp_path}/app.db"
    found: Server = request.getfixturevalue("engine")
    return found.url


class ServedWorker:
    """A client and a worker, and the folder in which activities leave their files."""

    def __init__(self, client: Client, worker: Worker, queue: str, folder: Path) -> None:
        self.client = client
        self.worker = worker
        self.folder = folder
        self._queue = queue

    async def start(self, activity: str, **options: Any) -> Any:
        input = {"activity": activity, "folder": str(self.folder), "options": options}
        return await self.client.start("One", input=input, task_queue=self._queue)

    async def run(self, activity: str, **options: Any) -> Any:
        return await (await self.start(activity, **options)).result()

    async def many(self) -> Any:
        return await (await self.client.start("Many", input=str(self.folder), task_queue=self._queue)).result()

    async def noted(self, name: str) -> int:
        """Wait for a file; the number of the process that wrote it."""
        return int((await until(lambda: (self.folder / name).exists() and self.folder / name)).read_text())


async def until(true: Callable[[], Any]) -> Any:
    while not (found := true()):  # other processes tell nobody
        await asyncio.sleep(0.01)
    return found


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@asynccontextmanager
async def served(url: str, folder: Path, **options: Any) -> AsyncIterator[ServedWorker]:
    queue = f"q-{uuid.uuid4().hex[:6]}"
    async with await Client.connect(url, app=app) as client:
        worker = Worker(client, queue, **options)
        running = asyncio.create_task(worker.run())
        try:
            yield ServedWorker(client, worker, queue, folder)
        finally:
            worker.stop()
            await running


def run_scenario(scenario: Callable[[ServedWorker], Any], url: str, folder: Path, **options: Any) -> None:
    async def main() -> None:
        async with served(url, folder, **options) as made:
            await asyncio.wait_for(scenario(made), 60)

    asyncio.run(main())


def test_no_attempt_waits_for_a_process_while_its_time_runs(url: str, tmp_path: Path):
    async def scenario(served: ServedWorker) -> None:
        pids = await served.many()
        assert len(pids) == 24
        assert len(set(pids)) <= 2

    run_scenario(scenario, url, tmp_path, max_processes=2)
    assert len(list(tmp_path.glob("execution-*"))) == 24


def test_a_process_that_dies_takes_no_neighbour_along(url: str, tmp_path: Path):
    async def scenario(served: ServedWorker) -> None:
        well = await served.start("good")
        await served.noted("good")
        with pytest.raises(assay.WorkflowFailed) as caught:
            await served.run("poison")
        cause: Any = caught.value.__cause__
        assert "the process that ran the activity died (exit code 1)" in cause.message
        assert cause.kind == assay.Kind.UNAVAILABLE
        (served.folder / "go").touch()
        assert await well.result() == "well"
        assert await served.run("pid") != os.getpid()

    run_scenario(scenario, url, tmp_path, max_processes=2)


@pytest.mark.parametrize(
    ("activity", "options"),
    [
        ("hangs", {"start_to_close_secs": 0.7}),
        ("ignores", {"start_to_close_secs": 0.7}),
        ("hangs", {"heartbeat_timeout_secs": 0.7}),
    ],
)
def test_an_attempt_that_has_timed_out_ends_and_makes_room(
    url: str, tmp_path: Path, activity: str, options: dict[str, float]
):
    async def scenario(served: ServedWorker) -> None:
        stuck = await served.start(activity, **options)
        pid = await served.noted(activity)
        with pytest.raises(assay.WorkflowFailed, match="timed out"):
            await stuck.result()
        assert await served.run("pid") != pid
        assert not alive(pid)

    run_scenario(scenario, url, tmp_path, max_processes=1)


def test_a_cancelled_attempt_without_a_heartbeat_ends(url: str, tmp_path: Path):
    async def scenario(served: ServedWorker) -> None:
        stuck = await served.start("hangs")
        pid = await served.noted("hangs")
        await stuck.cancel()
        await until(lambda: not alive(pid))
        assert await served.run("pid") != pid

    run_scenario(scenario, url, tmp_path, max_processes=1)


def test_a_cancel_is_heard_by_a_heartbeat_and_there_is_time_to_clean_up(url: str, tmp_path: Path):
    async def scenario(served: ServedWorker) -> None:
        heeding = await served.start("heeds")
        pid = await served.noted("heeds")
        await heeding.cancel()
        assert await served.noted("cleaned") == pid
        assert await served.run("pid") == pid, "nothing was wrong with the process"

    run_scenario(scenario, url, tmp_path, max_processes=1)


def test_a_stopping_worker_ends_its_processes(url: str, tmp_path: Path):
    async def scenario(served: ServedWorker) -> None:
        await served.start("hangs")
        pid = await served.noted("hangs")
        idle = await served.run("pid")
        served.worker.stop()
        await until(lambda: not alive(pid) and not alive(idle))

    run_scenario(scenario, url, tmp_path, max_processes=2, drain_seconds=0.1)


def test_a_killed_worker_leaves_no_process_behind(url: str, tmp_path: Path):
    program = Process(["-m", "tests.http.process_activities", url, str(tmp_path)], tmp_path / "log")
    try:
        pid = asyncio.run(ServedWorker(None, None, "", tmp_path).noted("hangs"))  # type: ignore[arg-type]
        program.kill()
        asyncio.run(asyncio.wait_for(until(lambda: not alive(pid)), 10))
    finally:
        program.end()


def test_an_engine_leases_as_many_process_activities_as_there_are_idle_processes(engine: Server):
    queue = f"q-{uuid.uuid4().hex[:6]}"

    async def main() -> None:
        async with aiohttp.ClientSession() as session, await Client.connect(engine.url) as client:
            bare = Bare(session, engine.url)
            hello = wire.Hello(
                queue=queue, free_tasks=5, free_activities=9, process_activities=("computes",), free_processes=1
            )
            await bare.exchange(number=1, hello=hello)
            await client.start("Any", workflow_id=queue, task_queue=queue)
            [task] = (await bare.exchange(number=2, wait_secs=5)).tasks
            names = ["computes", "computes", "computes", "calls"]
            commands = tuple(ScheduleActivity(seq, name, queue) for seq, name in enumerate(names, 1))
            report = wire.AdvanceReport(1, task.token, seen_seq=task.last_seq, commands=commands)
            found = (await bare.exchange(number=3, reports=(report,), wait_secs=5)).activities
            assert sorted(order.name for order in found) == ["calls", "computes"]
            found = (await bare.exchange(number=4, freed=(0, 1), wait_secs=0.2)).activities
            assert found == [], "a free slot is not a free process"
            found = (await bare.exchange(number=5, freed=(0, 1), freed_processes=2, wait_secs=5)).activities
            assert [order.name for order in found] == ["computes", "computes"]

    asyncio.run(main())
