"""Code that blocks a worker's event loop is named, interrupted or reported, and never takes the process along."""

import asyncio
import logging
import signal
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import assay
from assay import App, Client, Worker
from assay.sdk.worker import watchdog
from assay.sdk.worker.engine_worker import EngineWorker
from assay.sdk.worker.watchdog import BlockedTime

app = App()
reports: list[tuple[bool, int]] = []


@app.workflow
async def Spin(ctx: assay.Context, _: Any) -> None:
    while True:
        pass


@app.workflow
def SpinInDef(ctx: assay.BlockingContext, _: Any) -> None:
    while True:
        pass


@app.workflow
async def Swallow(ctx: assay.Context, _: Any) -> str:
    try:
        while True:
            pass
    except assay.RunawayError:
        return "no matter"


@app.workflow
async def Greet(ctx: assay.Context, name: str) -> str:
    await ctx.sleep(0.01)
    return f"hello {name}"


@app.workflow
async def Block(ctx: assay.Context, seconds: float) -> str:
    return await ctx.execute_activity(block, seconds)


@app.activity
async def block(seconds: float) -> str:
    threading.Event().wait(seconds)  # the mistake that is to be found
    return "done"


@pytest.fixture
def lease(monkeypatch: pytest.MonkeyPatch) -> float:
    """A lease that is short enough for a test."""
    monkeypatch.setattr("assay.sdk.worker.engine_worker.lease_seconds", lambda lease: 0.5)
    monkeypatch.setattr(watchdog, "LOOP_CHECK_SECONDS", 0.02)
    monkeypatch.setattr(watchdog, "BLOCKED_LOG_SECONDS", 0.1)
    return 0.5


def serving(tmp_path: Path, act: Callable[[Client], Awaitable[Any]]) -> Any:
    async def main() -> Any:
        async with await Client.connect(f"sqlite://{tmp_path}/w.db", app=app) as client:
            worker = Worker(client)
            running = asyncio.create_task(worker.run())
            try:
                return await act(client)
            finally:
                worker.stop()
                await running

    return asyncio.run(main())


async def stuck(client: Client, workflow_id: str) -> Any:
    while True:
        record = await client.describe(workflow_id)
        if record.stuck is not None:
            return record.stuck
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("workflow", ["Spin", "SpinInDef", "Swallow"])
def test_a_workflow_that_computes_without_end_is_stuck_at_its_line_and_others_go_on(
    workflow: str, tmp_path: Path, lease: float, caplog: pytest.LogCaptureFixture
):
    async def act(client: Client) -> tuple[Any, str]:
        await client.start(workflow, workflow_id="endless")
        found = await asyncio.wait_for(stuck(client, "endless"), 10)
        return found, await client.run("Greet", "Ada")

    found, greeting = serving(tmp_path, act)
    line = app.workflows[workflow].function.__code__.co_firstlineno
    assert (found.reason, greeting) == ("task_failed", "hello Ada")
    assert found.message.startswith(f"RunawayError: workflow '{workflow}' computed for ")
    place = found.message.partition(f"{__file__}:")[2]
    assert int(place.partition(" ")[0]) in range(line, line + 6)
    named = [record.getMessage() for record in caplog.records if "has blocked the event loop" in record.getMessage()]
    assert named
    assert named[0].startswith(f"workflow '{workflow}' at {__file__}:")


def test_an_activity_that_blocks_the_loop_is_named_and_the_worker_reported(
    tmp_path: Path, lease: float, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    seen: list[tuple[bool, str]] = []

    def report(self: EngineWorker, *, healthy: bool, abandoned_threads: int) -> None:
        seen.append((healthy, threading.current_thread().name))

    monkeypatch.setattr(EngineWorker, "report_health", report)

    async def act(client: Client) -> str:
        result = await client.run("Block", 0.8)
        while len(seen) < 2:
            await asyncio.sleep(0.01)
        return result

    assert serving(tmp_path, act) == "done"
    assert seen[:2] == [(False, "assay-watchdog"), (True, "assay-watchdog")]
    first = next(record for record in caplog.records if "has blocked the event loop" in record.getMessage())
    assert first.getMessage().startswith(f"activity 'block' at {__file__}:")
    assert first.levelno == logging.WARNING


def test_the_thread_ends_with_the_last_worker(tmp_path: Path):
    async def act(client: Client) -> list[str]:
        await client.run("Greet", "Ada")
        return [thread.name for thread in threading.enumerate()]

    assert serving(tmp_path, act).count("assay-watchdog") == 1
    for thread in threading.enumerate():
        if thread.name == "assay-watchdog":
            thread.join(2)
    assert "assay-watchdog" not in [thread.name for thread in threading.enumerate()]


def test_what_is_due_while_a_loop_is_blocked():
    blocked = BlockedTime(10.0)
    moments = [second / 2 for second in range(80)]
    assert [second for second in moments if blocked.takes_log(second)] == [2.0, 12.0, 22.0, 32.0]
    assert [second for second in moments if blocked.takes_interrupt(second, second, 10.0)][:3] == [8.0, 9.0, 10.0]
    assert next(second for second in moments if blocked.is_lost(second)) == 10.0
    assert next(second for second in moments if blocked.is_final(second)) == 18.0
    assert not BlockedTime(10.0).takes_interrupt(30.0, 3.0, 10.0), "a turn that has just begun is not to blame"


@pytest.mark.parametrize("case", ["signal", "for good"])
def test_a_process_that_only_serves_ends_with_70_when_its_loop_is_blocked(case: str, tmp_path: Path):
    command = [sys.executable, "-m", "tests.sdk.worker.blocked_program", f"sqlite://{tmp_path}/w.db", case]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:  # noqa: S603
        assert process.stdout is not None
        assert process.stdout.readline() == b"blocking\n"
        if case == "signal":
            process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=20)
    assert process.returncode == 70
    assert b"this process ends" in errors


def test_a_process_that_only_serves_ends_with_75_when_too_many_threads_never_return(tmp_path: Path):
    command = [sys.executable, "-m", "tests.sdk.worker.blocked_program", f"sqlite://{tmp_path}/w.db", "hung threads"]
    ended = subprocess.run(command, capture_output=True, timeout=20, check=False)  # noqa: S603
    assert ended.returncode == 75
    assert b"the thread is abandoned" in ended.stderr
