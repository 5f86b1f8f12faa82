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


class Scene:
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
async def scene(url: str, folder: Path, **options: Any) -> AsyncIterator[Scene]:
    queue = f"q-{uuid.uuid4().hex[:6]}"
    async with await Client.connect(url, app=app) as client:
        worker = Worker(client, queue, **options)
        running = asyncio.create_task(worker.run())
        try:
            yield Scene(client, worker, queue, folder)
        finally:
            worker.stop()
            await running


def played(play: Callable[[Scene], Any], url: str, folder: Path, **options: Any) -> None:
    async def main() -> None:
        async with scene(url, folder, **options) as made:
            await asyncio.wait_for(play(made), 60)

    asyncio.run(main())


def test_no_attempt_waits_for_a_process_while_its_time_runs(url: str, tmp_path: Path):
    async def play(scene: Scene) -> None:
        pids = await scene.many()
        assert len(pids) == 24
        assert len(set(pids)) <= 2

    played(play, url, tmp_path, max_processes=2)
    assert len(list(tmp_path.glob("execution-*"))) == 24


def test_a_process_that_dies_takes_no_neighbour_along(url: str, tmp_path: Path):
    async def play(scene: Scene) -> None:
        well = await scene.start("good")
        await scene.noted("good")
        with pytest.raises(assay.WorkflowFailed) as caught:
            await scene.run("poison")
        cause: Any = caught.value.__cause__
        assert "the process that ran the activity died (exit code 1)" in cause.message
        assert cause.kind == assay.Kind.UNAVAILABLE
        (scene.folder / "go").touch()
        assert await well.result() == "well"
        assert await scene.run("pid") != os.getpid()

    played(play, url, tmp_path, max_processes=2)


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
    async def play(scene: Scene) -> None:
        stuck = await scene.start(activity, **options)
        pid = await scene.noted(activity)
        with pytest.raises(assay.WorkflowFailed, match="timed out"):
            await stuck.result()
        assert await scene.run("pid") != pid
        assert not alive(pid)

    played(play, url, tmp_path, max_processes=1)


def test_a_cancelled_attempt_without_a_heartbeat_ends(url: str, tmp_path: Path):
    async def play(scene: Scene) -> None:
        stuck = await scene.start("hangs")
        pid = await scene.noted("hangs")
        await stuck.cancel()
        await until(lambda: not alive(pid))
        assert await scene.run("pid") != pid

    played(play, url, tmp_path, max_processes=1)


def test_a_cancel_is_heard_by_a_heartbeat_and_there_is_time_to_clean_up(url: str, tmp_path: Path):
    async def play(scene: Scene) -> None:
        heeding = await scene.start("heeds")
        pid = await scene.noted("heeds")
        await heeding.cancel()
        assert await scene.noted("cleaned") == pid
        assert await scene.run("pid") == pid, "nothing was wrong with the process"

    played(play, url, tmp_path, max_processes=1)


def test_a_stopping_worker_ends_its_processes(url: str, tmp_path: Path):
    async def play(scene: Scene) -> None:
        await scene.start("hangs")
        pid = await scene.noted("hangs")
        idle = await scene.run("pid")
        scene.worker.stop()
        await until(lambda: not alive(pid) and not alive(idle))

    played(play, url, tmp_path, max_processes=2, drain_seconds=0.1)


def test_a_killed_worker_leaves_no_process_behind(url: str, tmp_path: Path):
    program = Process(["-m", "tests.http.process_activities", url, str(tmp_path)], tmp_path / "log")
    try:
        pid = asyncio.run(Scene(None, None, "", tmp_path).noted("hangs"))  # type: ignore[arg-type]
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
            await bare.heard(number=1, hello=hello)
            await client.start("Any", workflow_id=queue, task_queue=queue)
            [task] = (await bare.heard(number=2, wait_secs=5)).tasks
            names = ["computes", "computes", "computes", "calls"]
            commands = tuple(ScheduleActivity(seq, name, queue) for seq, name in enumerate(names, 1))
            report = wire.AdvanceReport(1, task.token, seen_seq=task.last_seq, commands=commands)
            found = (await bare.heard(number=3, reports=(report,), wait_secs=5)).activities
            assert sorted(order.name for order in found) == ["calls", "computes"]
            found = (await bare.heard(number=4, freed=(0, 1), wait_secs=0.2)).activities
            assert found == [], "a free slot is not a free process"
            found = (await bare.heard(number=5, freed=(0, 1), freed_processes=2, wait_secs=5)).activities
            assert [order.name for order in found] == ["computes", "computes"]

    asyncio.run(main())
