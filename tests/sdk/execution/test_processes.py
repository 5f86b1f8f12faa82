"""Activities in processes of their own: found by name, heard while they run, and gone when the worker goes (R28)."""

import asyncio
import os
import time
from typing import Any

import pytest

from assay.core.errors import Failure, Invalid, Kind
from assay.sdk.activity_context import ActivityInfo
from assay.sdk.app import App, Definition
from assay.sdk.execution.processes import Processes
from tests.sdk.execution import activities
from tests.sdk.execution.support import on_loop

INFO = ActivityInfo("count", 1, 1, "w", "r", "W", "main", "default")


def defined(function: Any) -> Definition:
    app = App()
    app.activity("activity", function, runs_in="process")
    return app.activities["activity"]


def alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.fixture(autouse=True)
def engine() -> None:
    """No transport here, so one way is enough."""


@on_loop
async def test_an_activity_runs_elsewhere_and_is_found_by_its_name():
    processes = Processes(lambda _: None)
    found = await processes.call(defined(activities.process_number), INFO, None, None, 1)
    assert found != os.getpid()
    processes.close()


@on_loop
async def test_what_is_not_at_the_top_of_a_module_is_refused():
    processes = Processes(lambda _: None)
    with pytest.raises(Invalid, match="top level of a module"):
        await processes.call(defined(lambda: 1), INFO, None, None, 1)
    processes.close()


@on_loop
async def test_all_heartbeats_are_heard_before_a_failure(monkeypatch: pytest.MonkeyPatch):
    heard: list[Any] = []
    listen = Processes._listen

    def listen_late(*args: Any) -> None:
        time.sleep(0.3)  # noqa: TID251  # as a busy machine does
        listen(*args)

    monkeypatch.setattr(Processes, "_listen", listen_late)
    processes = Processes(lambda _: lambda details: bool(heard.append(details)))
    with pytest.raises(ValueError, match="stumbled at 50"):
        await processes.call(defined(activities.counts), INFO, None, 100, 1)
    assert heard == list(range(1, 51))
    assert await processes.call(defined(activities.counts), INFO, 90, 100, 2) == {"begun": 90, "attempt": 1}
    processes.close()


@on_loop
async def test_a_process_that_dies_takes_its_activity_with_it_and_not_the_next():
    processes = Processes(lambda _: None)
    with pytest.raises(Failure) as caught:
        await processes.call(defined(activities.dies), INFO, None, None, 1)
    assert caught.value.kind == Kind.UNAVAILABLE
    assert await processes.call(defined(activities.process_number), INFO, None, None, 2) != os.getpid()
    processes.close()


@on_loop
async def test_nobody_waits_for_a_process_when_the_worker_goes():
    processes = Processes(lambda _: None)
    number = await processes.call(defined(activities.process_number), INFO, None, None, 1)
    jobs = [asyncio.create_task(processes.call(defined(activities.sleeps), INFO, None, 60, seq)) for seq in (2, 3, 4)]
    await asyncio.sleep(0.5)
    for job in jobs:
        job.cancel()
    processes.close()
    processes.close()
    while alive(number):  # only the system knows
        await asyncio.sleep(0.01)


@on_loop
async def test_the_pool_is_started_once_and_beside_the_loop():
    processes = Processes(lambda _: None)
    late = 0.0
    loop = asyncio.get_running_loop()
    calls = [
        asyncio.ensure_future(processes.call(defined(activities.process_number), INFO, None, None, seq))
        for seq in (1, 2, 3)
    ]
    while not all(call.done() for call in calls):
        begun = loop.time()
        await asyncio.sleep(0.001)
        late = max(late, loop.time() - begun)
    assert late < 0.2, "the worker does other things meanwhile"
    processes.close()


@on_loop
async def test_a_pool_that_is_closed_while_it_starts_is_not_left_behind():
    processes = Processes(lambda _: None)
    call = asyncio.create_task(processes.call(defined(activities.process_number), INFO, None, None, 1))
    await asyncio.sleep(0.01)
    processes.close()
    with pytest.raises(Failure, match="stopped"):
        await call
